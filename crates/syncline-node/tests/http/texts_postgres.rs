//! Texts that PostgreSQL cannot hold: the caller is told, on every route, and nothing is called a failure of the node.

use syncline_sim::postgres;
use syncline_testing::walk;

use crate::world::builder;

/// A zero in a query and half a surrogate pair in a payload were answered with 500 on PostgreSQL, and taken on SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_27_no_text_of_a_request_makes_a_node_on_postgres_fail() {
    let database = tokio::task::spawn_blocking(postgres::database).await.unwrap();
    let file = "[[entities]]\nname = \"note\"\nsettings = true\n";
    let world = builder(file).database(&database.url).router().await;
    let asked = walk::no_text_is_a_failure(&world, &[("type", "note")]).await;
    assert!(asked > 300, "{asked}");
    for payload in [r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"a":"\udc00\ud800"}"#] {
        let put = world.json("PUT", "/api/entities/note/a", payload).await;
        put.refused(400, "invalid-argument");
    }
    assert_eq!(world.json("PUT", "/api/entities/note/a", r#"{"a":"\u547c"}"#).await.status, 200);
}
