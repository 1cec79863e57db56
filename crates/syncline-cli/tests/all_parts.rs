//! A node with everything that the program has, all apps included: what holds for every route, page and text of the systems
//! holds for those of the apps, and for all of them together. `syncline-node` makes the same walks over the systems alone.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::path::Path;

use syncline_testing::{NodeBuilder, RouterNode, walk};

const TOKEN: &str = "canary-token-0123456789";

/// Names that a route has to know: a queue and a kind of entity.
const FILE: &str = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n\
     [[entities]]\nname = \"note\"\nsettings = true\n";
const NAMES: walk::Names<'static> = &[("name", "words"), ("type", "note")];

/// Files to which a person may follow a link.
const LINKED: [&str; 2] = ["/storage/pictures/{object_key}", "/storage/recordings/{call_log_id}/mixed.wav"];

/// More routes than the systems have.
const ROUTES_MIN: usize = 50;

fn builder(file: &str) -> NodeBuilder {
    NodeBuilder::new(syncline_cli::all_parts()).file(file)
}

async fn node() -> RouterNode {
    builder(FILE).router().await
}

#[tokio::test]
async fn hs_02_every_route_of_an_app_is_described_and_every_description_is_a_route() {
    let routes = walk::every_route_is_described(&node().await).await;
    assert!(routes >= ROUTES_MIN, "{routes}");
}

#[tokio::test]
async fn cn_20_with_all_apps_the_description_is_valid_and_every_operation_has_an_id_of_its_own() {
    let node = node().await;
    walk::every_operation_is_explained(&node).await;
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("moto/bin");
    walk::the_description_is_valid(&node, &tools.join("openapi-spec-validator")).await;
}

#[tokio::test]
async fn hs_02_no_route_of_an_app_answers_without_the_token() {
    let node = builder(&format!("token = {TOKEN:?}\n{FILE}")).router().await;
    let asked = walk::every_route_needs_the_token(&node, TOKEN, &walk::OPEN_WITH_ALL_SYSTEMS).await;
    assert!(asked >= ROUTES_MIN, "{asked}");
}

#[tokio::test]
async fn ac_03_every_operation_needs_its_grant_and_nothing_less() {
    let (operations, owners) = walk::every_route_needs_its_grant(builder, FILE, NAMES).await;
    assert!(operations >= ROUTES_MIN, "{operations}");
    assert_eq!(owners, 1, "the description itself is the owner's, and nothing else");
}

#[tokio::test]
async fn hs_02_pages_of_other_sites_read_nothing_of_an_app() {
    walk::other_sites_read_nothing(&node().await, &LINKED).await;
}

#[tokio::test]
async fn hs_02_every_page_of_an_app_is_served_as_html() {
    let pages = walk::every_page_is_whole(&node().await).await;
    for page in ["/", "/calls", "/gallery", "/shelf", "/queue"] {
        assert!(pages.contains(page), "{page} is not in {pages:?}");
    }
}

#[tokio::test]
async fn st_23_no_get_of_an_app_changes_anything_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    walk::reads_change_nothing(builder(FILE), &url, NAMES).await;
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn st_23_no_get_of_an_app_changes_anything() {
        let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
        walk::reads_change_nothing(builder(FILE), &database.url, NAMES).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ss_27_no_text_of_a_request_makes_an_app_fail() {
        let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
        let node = builder(FILE).database(&database.url).router().await;
        let asked = walk::no_text_is_a_failure(&node, NAMES).await;
        assert!(asked > 300, "{asked}");
    }
}
