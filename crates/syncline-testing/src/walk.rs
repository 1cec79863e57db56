//! Checks that walk over everything a node answers, so that no route, page or listing of a part escapes them.
//!
//! - [`every_route_is_described`], [`every_operation_is_explained`], [`the_description_is_valid`]: `/openapi.json` is true
//! - [`every_route_needs_the_token`], [`every_route_needs_its_grant`], [`other_sites_read_nothing`]: nobody reads what is not
//!   theirs
//! - [`reads_change_nothing`]: a GET changes no table
//! - [`no_text_is_a_failure`]: whatever the texts of a request are, an error is the caller's
//! - [`a_listing_leads_through_everything`]: pages are bounded, and `next` leads on
//! - [`every_page_is_whole`]: pages of the console are pages
//!
//! Most take what they walk over from the description of the API; that this is complete is the first check. Each returns
//! how much it has seen, so that a test notices when that is too little.

mod access;
mod description;
mod effects;
mod grants;
mod listing;
mod pages;
mod texts;

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Request, header};
use serde_json::{Map, Value};

use crate::RouterNode;

pub use access::{OPEN_WITH_ALL_SYSTEMS, every_route_needs_the_token, other_sites_read_nothing};
pub use description::{every_operation_is_explained, every_route_is_described, the_description_is_valid};
pub use effects::reads_change_nothing;
pub use grants::every_route_needs_its_grant;
pub use listing::a_listing_leads_through_everything;
pub use pages::every_page_is_whole;
pub use texts::no_text_is_a_failure;

/// The name that goes in the place of a path's variable where nobody named another.
const INVENTED: &str = "invented";

/// Names for the variables of paths that have to be known to the node: `("name", "words")` for its queue `words`. A
/// variable that is not listed gets an invented name.
pub type Names<'a> = &'a [(&'a str, &'a str)];

/// An operation of the description: a path, a method, and what is said of it.
struct Operation {
    path: String,
    method: String,
    about: Value,
}

impl Operation {
    /// The names of its parameters that are in the `path` or in the `query`.
    fn parameters(&self, place: &str) -> Vec<&str> {
        let all = self.about["parameters"].as_array().into_iter().flatten();
        all.filter(|parameter| parameter["in"] == place).map(|one| one["name"].as_str().unwrap()).collect()
    }

    /// Its path with names in the places of its variables.
    fn address(&self, names: Names<'_>) -> String {
        fill(&self.path, names)
    }
}

/// A path with names in the places of its variables.
fn fill(path: &str, names: Names<'_>) -> String {
    let step = |step: &str| match step.strip_prefix('{').and_then(|step| step.strip_suffix('}')) {
        None => step.to_owned(),
        Some(variable) => {
            let known = names.iter().find(|(known, _)| *known == variable);
            known.map_or(INVENTED, |(_, name)| *name).to_owned()
        }
    };
    path.split('/').map(step).collect::<Vec<_>>().join("/")
}

/// The description of the API.
async fn api_description(node: &RouterNode, token: Option<&str>) -> Value {
    let mut get = Request::get("/openapi.json");
    if let Some(token) = token {
        get = get.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    node.send(get.body(Body::empty()).unwrap()).await.value()
}

/// Every operation of a description.
fn operations(api: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in object(&api["paths"]) {
        for (method, about) in object(item) {
            let (path, method) = (path.clone(), method.to_uppercase());
            operations.push(Operation { path, method, about: about.clone() });
        }
    }
    operations
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}"))
}

/// The paths of a node's router, as templates. Its debug output is the only place that lists them.
fn served_paths(node: &RouterNode) -> BTreeSet<String> {
    let debug = format!("{:?}", node.app);
    let quoted = debug.split('"').skip(1).step_by(2);
    let ours = quoted.filter(|text| text.starts_with('/') && !text.contains("__private__axum_fallback"));
    ours.map(str::to_owned).collect()
}

/// Whether a path is for programs and therefore in the description; the others are pages and their files.
fn is_for_programs(path: &str) -> bool {
    let starts = ["/api/", "/storage/", "/metrics", "/openapi.json", "/healthz", "/readyz"];
    starts.iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_path_are_filled_and_nothing_else_is() {
        let names = [("name", "words"), ("key", "a%00b")];
        for (path, filled) in [
            ("/api/queues/{name}/results/{key}", "/api/queues/words/results/a%00b"),
            ("/api/state/{space}", "/api/state/invented"),
            ("/assets/{*path}", "/assets/invented"),
            ("/metrics", "/metrics"),
        ] {
            assert_eq!(fill(path, &names), filled);
        }
    }
}
