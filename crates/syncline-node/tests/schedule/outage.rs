//! The store is away: the gate fails open, once for each bucket and process.

use std::collections::BTreeSet;

use syncline_sim::postgres::Cluster;
use syncline_testing::until_some;

use crate::world::{World, bucket, content_api, is};

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn vw_06_a_store_that_is_gone_lets_the_job_run_once_for_each_bucket() {
        let mut cluster = Cluster::start().unwrap();
        let api = content_api().await;
        let jobs = format!(
            "[[jobs]]\nname = \"open\"\ncron = \"* * * * * *\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
            api.url("/job")
        );
        let world = World::on(&cluster.url("postgres"), &jobs).await;
        world.wait_for_run("open", |run| is(run, "skip: no viewer", "skipped")).await;
        assert_eq!(api.calls().len(), 0);
        cluster.stop_immediate().unwrap();
        until_some("two runs without a store", async || (api.calls().len() >= 2).then_some(())).await;
        cluster.restart().unwrap();
        let before = api.calls().len();
        world
            .wait_for_run("open", |run| {
                is(run, "skip: no viewer", "skipped") && run["id"].as_i64().unwrap() > 1
            })
            .await;
        let calls = api.calls();
        let buckets: BTreeSet<_> = calls.iter().map(bucket).collect();
        assert_eq!(buckets.len(), calls.len(), "a bucket was run twice: {calls:?}");
        println!("{before} runs without a store, {} in all", calls.len());
    }
}
