//! What the console asks the frame for: figures of the last hour, settings, documents.

use crate::world::World;

#[tokio::test]
async fn cn_04_figures_of_the_last_hour_are_asked_for_by_name_and_within_bounds() {
    let world = World::new("").await;
    let figures = world.get("/api/metrics?names=syncline_http_requests_total").await;
    assert_eq!(figures.status, 200, "{figures:?}");
    assert_eq!(figures.value()["stepMs"], 10_000);
    for names in ["", ",", &vec!["a"; 33].join(",")] {
        world.get(&format!("/api/metrics?names={names}")).await.refused(400, "invalid-names");
    }
}

#[tokio::test]
async fn cn_01_the_settings_of_a_node_are_shown_without_secrets() {
    let world = World::new("node = \"shop-1\"\n").await;
    let toml = world.get("/api/settings").await.value()["toml"].as_str().unwrap().to_owned();
    assert!(toml.contains("node = \"shop-1\"") && toml.contains("[limits]"), "{toml}");
}

#[tokio::test]
async fn cn_12_documents_are_pages_with_addresses_of_their_own() {
    let world = World::new("").await;
    for (path, words) in [
        ("/docs", "Which system do I need"),
        ("/docs/lock", "fencing token"),
        ("/docs?q=lease", "/docs/lock"),
    ] {
        let page = world.get(path).await;
        assert!(page.status == 200 && page.text().contains(words), "{path}: {}", page.text());
        assert!(
            page.text().contains("aria-label=\"Documents\"") && page.text().contains("<header"),
            "{path}"
        );
    }
    let hostile = world.get("/docs?q=%3Cscript%3E%22").await;
    let hostile = hostile.text();
    assert!(!hostile.contains("<script>\"") && hostile.contains("&lt;script&gt;"), "{hostile}");
    world.get("/docs/nothing").await.refused(404, "not-found");
    world.get("/docs/../Cargo").await.refused(404, "not-found");
    world.get(&format!("/docs?q={}", "x".repeat(201))).await.refused(400, "invalid-query");
}
