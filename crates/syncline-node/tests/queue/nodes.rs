//! Two nodes on one PostgreSQL: one pace for both, and steps of one wait for calls of the other.

use std::time::Duration;

use serde_json::json;
use syncline_sim::until_some;
use syncline_stand_ins::{Api as Demo, Settings, Upstreams};

use crate::api::{Api, Said};
use crate::world::World;

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn qu_21_two_nodes_together_keep_the_interval_at_the_api() {
        const INTERVAL: Duration = Duration::from_millis(60);
        let database = syncline_sim::postgres::database();
        let api = Api::start(|_, _| Said::new(200, "{}").after(Duration::from_millis(5))).await;
        let file =
            format!("apps = []\n{}", api.queue("words", &format!("interval_ms = {}", INTERVAL.as_millis())));
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let url = Some(database.url.as_str());
        let (a, b) = tokio::join!(
            World::start(folders[0].path(), url, &file, &[]),
            World::start(folders[1].path(), url, &file, &[])
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

    #[tokio::test(flavor = "multi_thread")]
    async fn bk_03_a_shelf_on_two_nodes_is_filled_without_asking_twice() {
        let database = syncline_sim::postgres::database();
        let upstreams = Upstreams::start("127.0.0.1:0".parse().unwrap(), Settings::default()).await.unwrap();
        let environment = upstreams.environment();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let url = Some(database.url.as_str());
        let (a, b) = tokio::join!(
            World::start(folders[0].path(), url, "", &environment),
            World::start(folders[1].path(), url, "", &environment)
        );
        let isbns = upstreams.catalogue().isbns(12);
        let texts: Vec<String> = isbns.iter().map(ToString::to_string).collect();
        a.post("/api/shelf/scan", &json!({ "isbns": texts[..6] })).await;
        b.post("/api/shelf/scan", &json!({ "isbns": texts[6..] })).await;
        let expected = isbns.iter().filter(|isbn| upstreams.catalogue().entry(**isbn).in_library).count();
        until_some("the shelf to be complete", async || {
            let books = b.get("/api/shelf/books").await;
            let list = books["books"].as_array()?;
            let ready = list.iter().all(|book| book["state"] == "found" && book["cover_state"] != "waiting");
            (ready && list.len() == expected).then_some(())
        })
        .await;
        let stats = upstreams.stop().await;
        for api in [Demo::Ndl, Demo::Google, Demo::Rakuten] {
            let figures = &stats.apis[api as usize];
            assert_eq!((figures.too_many, figures.asked_again), (0, 0), "{figures:?}");
        }
        tokio::join!(a.node.stop(), b.node.stop());
    }
}
