//! Reading changes nothing: every GET of the API, twice, against a database that is looked at before and after.

use syncline_testing::walk;

use crate::world::builder;

/// Names of queues are the node's own; all others can be invented.
const QUEUE: &str = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n";
const NAMES: walk::Names<'static> = &[("name", "words")];

/// Asking for a space of shared state used to make it.
#[tokio::test]
async fn st_23_no_get_changes_anything_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let read = walk::reads_change_nothing(builder(QUEUE), &url, NAMES).await;
    assert!(read > 20, "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn st_23_no_get_changes_anything_on_postgres() {
    let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
    let read = walk::reads_change_nothing(builder(QUEUE), &database.url, NAMES).await;
    assert!(read > 20, "{read}");
}
