//! Several nodes on one PostgreSQL.

use std::collections::BTreeSet;

use syncline_testing::until_some;

use crate::world::{World, bucket, content_api};

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn vw_07_three_nodes_and_one_database_make_one_run_for_each_bucket() {
        let database = syncline_sim::postgres::database();
        let api = content_api().await;
        let jobs = format!(
            "[[jobs]]\nname = \"shared\"\ncron = \"* * * * * *\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
            api.url("/job")
        );
        let url = database.url.as_str();
        let (a, b, c) = tokio::join!(World::on(url, &jobs), World::on(url, &jobs), World::on(url, &jobs));
        // Heard by one node, acted upon by whichever is first.
        b.beat("somebody").await;
        until_some("five runs", async || (api.calls().len() >= 5).then_some(())).await;
        for world in [a, b, c] {
            world.node.stop().await;
        }
        let calls = api.calls();
        let buckets: BTreeSet<_> = calls.iter().map(bucket).collect();
        assert_eq!(buckets.len(), calls.len(), "a bucket was run twice: {calls:?}");
    }
}
