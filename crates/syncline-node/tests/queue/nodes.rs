//! Two nodes on one PostgreSQL: one pace for both.

use std::time::Duration;

use syncline_testing::{Reply, StubApi};

use crate::world::World;

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn qu_21_two_nodes_together_keep_the_interval_at_the_api() {
        const INTERVAL: Duration = Duration::from_millis(60);
        let database = syncline_sim::postgres::database();
        let api = StubApi::start(|_, _| Reply::new(200, "{}").after(Duration::from_millis(5))).await;
        let file = api.queue("words", &format!("interval_ms = {}", INTERVAL.as_millis()));
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let url = Some(database.url.as_str());
        let (a, b) = tokio::join!(
            World::start(folders[0].path(), url, &file),
            World::start(folders[1].path(), url, &file)
        );
        let rounds = std::env::var("SYNCLINE_ROUNDS").map_or(40, |rounds| rounds.parse::<usize>().unwrap());
        let keys: Vec<String> = (0..rounds).map(|n| format!("k{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let third = rounds / 3;
        tokio::join!(
            a.enqueue("words", "new", &keys[..2 * third]),
            b.enqueue("words", "new", &keys[third..])
        );
        for key in keys {
            // Either node knows the results of both.
            assert_eq!(a.ended("words", key).await["state"], "done");
            assert_eq!(b.ended("words", key).await["state"], "done");
        }
        assert_eq!(api.calls().len(), rounds);
        assert!(api.smallest_gap() >= INTERVAL, "{:?}", api.smallest_gap());
        tokio::join!(a.node.stop(), b.node.stop());
    }
}
