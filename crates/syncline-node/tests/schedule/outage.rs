//! The store is away: the gate fails open, once for each bucket and process.

use std::collections::BTreeSet;

use syncline_sim::postgres::Cluster;
use syncline_sim::until;

use crate::sink::Sink;
use crate::world::{World, is};

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn vw_06_a_store_that_is_gone_lets_the_job_run_once_for_each_bucket() {
        let mut cluster = Cluster::start().unwrap();
        let sink = Sink::new().await;
        let jobs = format!(
            "[[jobs]]\nname = \"open\"\ncron = \"* * * * * *\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
            sink.url()
        );
        let world = World::on(Some(&cluster.url("postgres")), &jobs).await;
        world.run("open", |run| is(run, "skip: no viewer", "skipped")).await;
        assert_eq!(sink.calls().len(), 0);
        cluster.stop_immediate().unwrap();
        until("two runs without a store", async || sink.calls().len() >= 2).await;
        cluster.restart().unwrap();
        let before = sink.calls().len();
        world
            .run("open", |run| is(run, "skip: no viewer", "skipped") && run["id"].as_i64().unwrap() > 1)
            .await;
        let calls = sink.calls();
        let buckets: BTreeSet<_> = calls.iter().map(|call| call.bucket.clone()).collect();
        assert_eq!(buckets.len(), calls.len(), "a bucket was run twice: {calls:?}");
        println!("{before} runs without a store, {} in all", calls.len());
    }
}
