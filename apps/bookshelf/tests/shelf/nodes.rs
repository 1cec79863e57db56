//! Two nodes on one PostgreSQL: steps of one wait for calls of the other.

use serde_json::json;
use syncline_stand_ins::{Api, Settings, Upstreams};
use syncline_testing::until_some;

use crate::world::builder;

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn bk_03_a_shelf_on_two_nodes_is_filled_without_asking_twice() {
        let database = syncline_sim::postgres::database();
        let upstreams = Upstreams::start("127.0.0.1:0".parse().unwrap(), Settings::default()).await.unwrap();
        let environment = upstreams.environment();
        let start = async || builder("").database(&database.url).environment(&environment).start().await;
        let (a, b) = tokio::join!(start(), start());
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
        for api in [Api::Ndl, Api::Google, Api::Rakuten] {
            let figures = &stats.apis[api as usize];
            assert_eq!((figures.too_many, figures.asked_again), (0, 0), "{figures:?}");
        }
        tokio::join!(a.stop(), b.stop());
    }
}
