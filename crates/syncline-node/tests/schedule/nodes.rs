//! Several nodes on one PostgreSQL.

use std::collections::BTreeSet;

use syncline_sim::until;

use crate::sink::Sink;
use crate::world::World;

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn vw_07_three_nodes_and_one_database_make_one_run_for_each_bucket() {
        let database = syncline_sim::postgres::database();
        let sink = Sink::new().await;
        let jobs = format!(
            "[[jobs]]\nname = \"shared\"\ncron = \"* * * * * *\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
            sink.url()
        );
        let url = Some(database.url.as_str());
        let (a, b, c) = tokio::join!(World::on(url, &jobs), World::on(url, &jobs), World::on(url, &jobs));
        // Heard by one node, acted upon by whichever is first.
        b.beat("somebody").await;
        until("five runs", async || sink.calls().len() >= 5).await;
        for world in [a, b, c] {
            world.node.stop().await;
        }
        let calls = sink.calls();
        let buckets: BTreeSet<_> = calls.iter().map(|call| call.bucket.clone()).collect();
        assert_eq!(buckets.len(), calls.len(), "a bucket was run twice: {calls:?}");
    }
}
