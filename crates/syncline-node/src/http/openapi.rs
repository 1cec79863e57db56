//! The description of the API at `/openapi.json`, made from the handlers themselves.
//!
//! Guarantees: it is a valid document, from which clients can be generated: every operation has an id of its own, every
//! answer a description, every path is a template. Pages and their files are for browsers and are not in it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{Method, header};
use serde_json::Value;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder, SecurityRequirement};

use super::{auth, error::ErrorBody};
use crate::Context;
use crate::part::Access;

/// Where an operation says which grant it needs.
const GRANT: &str = "x-syncline-grant";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Syncline",
        description = "A coordination layer for applications that live in many places at once."
    ),
    servers((url = "/", description = "The node that serves this description")),
    tags(
        (name = "session", description = "Signing a browser in and out"),
        (name = "events", description = "What happens, as it happens"),
        (name = "health", description = "Whether the node is well, and what it counts")
    ),
    components(schemas(ErrorBody))
)]
struct Base;

/// What every route's description is added to.
pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

/// Adds what holds for all routes alike: how callers show who they are and what they need, and what every error looks like.
pub(crate) fn complete(mut api: OpenApi, access_of: impl Fn(&Method, &str) -> Access) -> Value {
    let components = api.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let cookie = ApiKey::Cookie(ApiKeyValue::new(auth::COOKIE));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations_mut(item) {
            operation.operation_id = Some(operation_id(path, operation));
            describe_access(operation, access_of(&method, path));
            describe_responses(operation);
        }
    }
    let mut json = serde_json::to_value(&api).expect("the description is made of strings");
    open_objects(&mut json);
    json
}

/// An object of which nothing is said may have any members. Generators take it for one that has none.
fn open_objects(json: &mut Value) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(open_objects),
        Value::Object(members) => {
            let says_more = ["properties", "additionalProperties", "oneOf", "allOf", "anyOf"];
            let is_object = members.get("type").is_some_and(|kind| kind == "object");
            if is_object && !says_more.iter().any(|name| members.contains_key(*name)) {
                members.insert("additionalProperties".to_owned(), Value::Bool(true));
            }
            members.values_mut().for_each(open_objects);
        }
        _ => {}
    }
}

/// Says which grant an operation needs: `x-syncline-grant`. `owner` stands for what no grant allows, `any` for what any
/// credential may ask and gets an answer cut to its grants.
fn describe_access(operation: &mut Operation, access: Access) {
    let grant = match access {
        // Everybody may, pages of other sites by this grant.
        Access::Open(grant) => grant.map(|grant| grant.to_string()),
        Access::Owner => Some("owner".to_owned()),
        Access::AnyCaller => Some("any".to_owned()),
        Access::Granted(grant) => Some(grant.to_string()),
    };
    if let Some(grant) = grant {
        let extensions = operation.extensions.get_or_insert_default();
        extensions.insert(GRANT.to_owned(), grant.into());
    }
    if matches!(access, Access::Open(_)) {
        return;
    }
    let none = Vec::<String>::new();
    let either = ["token", "session"].map(|scheme| SecurityRequirement::new(scheme, none.clone()));
    operation.security = Some(either.to_vec());
    for status in ["401", "403"] {
        let response = || RefOr::T(ResponseBuilder::new().build());
        operation.responses.responses.entry(status.to_owned()).or_insert_with(response);
    }
}

/// The name a generated client gives the operation: what it is about, and the name of its handler. Handlers alone are
/// called `list` in six places.
fn operation_id(path: &str, operation: &Operation) -> String {
    let handler = operation.operation_id.as_deref().unwrap_or_default();
    let below = path.strip_prefix("/api/").or_else(|| path.strip_prefix("/storage/"));
    let tag = operation.tags.iter().flatten().next().map_or("node", String::as_str);
    let about = below.and_then(|below| below.split('/').next()).unwrap_or(tag);
    format!("{about}_{handler}")
}

/// Gives every error the one body that all errors have, and every answer the description that the standard demands.
fn describe_responses(operation: &mut Operation) {
    let content = Content::new(Some(Ref::from_schema_name("ErrorBody")));
    let error = ResponseBuilder::new().description("Any error").content("application/json", content).build();
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if status.starts_with(['4', '5']) {
            response.content = error.content.clone();
        }
        if response.description.is_empty() {
            response.description = meaning(status).to_owned();
        }
    }
    operation.responses.responses.insert("default".to_owned(), error.into());
}

/// What a status means here, where its operation says nothing of its own.
fn meaning(status: &str) -> &'static str {
    match status {
        "200" => "Done",
        "202" => "Taken; it is done later",
        "204" => "Done; there is nothing to say",
        "304" => "Unchanged",
        "400" => "The request makes no sense, and will not later",
        "401" => "A credential is missing or wrong",
        "403" => "The caller may not do this: a grant is missing, or its page is of another site",
        "404" => "There is no such thing",
        "409" => "It is in another state than the request needs",
        "412" => "It was changed since the caller read it",
        "413" => "The body is too large",
        "416" => "There is no such range of bytes",
        "422" => "The request can be read, but not carried out",
        "429" => "Too many; try again later",
        "503" => "Not now; try again later",
        "507" => "There is no room left",
        _ => "See the body",
    }
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
