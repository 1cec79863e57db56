//! The description of the API at `/openapi.json`, made from the handlers themselves.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{Method, header};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder, SecurityRequirement};

use super::{auth, error::ErrorBody, pages};
use crate::Context;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Syncline",
        description = "A coordination layer for applications that live in many places at once."
    ),
    components(schemas(ErrorBody))
)]
struct Base;

/// What every route's description is added to.
pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

/// Adds what holds for all routes alike: how callers show who they are, and what every error looks like.
pub(crate) fn complete(mut api: OpenApi) -> OpenApi {
    let components = api.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let cookie = ApiKey::Cookie(ApiKeyValue::new(auth::COOKIE));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    if let Some(page) = api.paths.paths.get("/").cloned() {
        for path in pages::further_paths() {
            api.paths.paths.insert(path.to_owned(), page.clone());
        }
    }
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations_mut(item) {
            let content = Content::new(Some(Ref::from_schema_name("ErrorBody")));
            let error =
                ResponseBuilder::new().description("Any error").content("application/json", content).build();
            for (status, response) in &mut operation.responses.responses {
                if let (RefOr::T(response), true) = (response, status.starts_with(['4', '5'])) {
                    response.content = error.content.clone();
                }
            }
            operation.responses.responses.insert("default".to_owned(), error.into());
            if !auth::is_open(&method, path) {
                let none = Vec::<String>::new();
                let either =
                    ["token", "session"].map(|scheme| SecurityRequirement::new(scheme, none.clone()));
                operation.security = Some(either.to_vec());
            }
        }
    }
    api
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses((status = 200, content_type = "application/json")))]
pub(crate) async fn openapi(State(context): State<Arc<Context>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], context.openapi.clone())
}

/// The operations of one path.
pub(crate) fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::OPTIONS, &item.options),
        (Method::PATCH, &item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::OPTIONS, &mut item.options),
        (Method::PATCH, &mut item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}
