//! `/api/gallery` and `/storage/pictures`: what the built-in job painted.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::{Gallery, Picture};
use syncline_node::Context;
use syncline_node::http::Error;
use syncline_node::http::body::{Path, Query};
use syncline_node::part::{CrossSite, Name, Routes, Rules, Service};

/// Pictures listed unless asked otherwise, and at most.
const PICTURES: usize = 24;
const PICTURES_MAX: usize = 200;

/// A picture is drawn as an image and does nothing else, wherever it is opened.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The newest pictures.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pictures {
    pictures: Vec<Hung>,
}

/// A picture and where it is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Hung {
    #[serde(flatten)]
    picture: Picture,
    url: String,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Wanted {
    /// At most this many, 24 if absent, 200 at most.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

pub(super) fn routes() -> Routes {
    let reading = || Rules::new().needs("gallery", "read", Name::All);
    Routes::new()
        .with_rules(reading(), routes!(list))
        .with_rules(reading().cross_site(CrossSite::Links), routes!(file))
}

/// Lists the pictures of the last day, newest first.
#[utoipa::path(get, path = "/api/gallery", tag = "viewer", params(Wanted),
    responses((status = 200, body = Pictures), (status = 400)))]
pub(crate) async fn list(
    State(context): State<Arc<Context>>,
    Service(gallery): Service<Gallery>,
    Query(wanted): Query<Wanted>,
) -> Result<axum::Json<Pictures>, Error> {
    let limit = wanted.limit.unwrap_or(PICTURES);
    if !(1..=PICTURES_MAX).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {PICTURES_MAX}")));
    }
    let pictures = context.count_store_errors(gallery.recent(limit).await)?.into_iter().map(|picture| {
        let url = format!("/storage/pictures/{}", picture.object_key);
        Hung { picture, url }
    });
    Ok(axum::Json(Pictures { pictures: pictures.collect() }))
}

/// One picture.
#[utoipa::path(get, path = "/storage/pictures/{object_key}", tag = "viewer", params(("object_key" = String, Path)),
    responses((status = 200, content_type = "image/svg+xml"), (status = 404)))]
pub(crate) async fn file(
    State(context): State<Arc<Context>>,
    Service(gallery): Service<Gallery>,
    Path(object_key): Path<String>,
) -> Result<Response, Error> {
    let svg = context.count_store_errors(gallery.file(&object_key).await)?;
    let svg = svg.ok_or_else(|| Error::missing("there is no such picture, or its day is over"))?;
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CONTENT_SECURITY_POLICY, PICTURE_POLICY),
        (header::CACHE_CONTROL, "private, max-age=60"),
    ];
    Ok((headers, svg).into_response())
}
