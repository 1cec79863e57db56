//! Who arrives need not wait for the next firing.

use crate::sink::Sink;
use crate::world::{World, is};

#[tokio::test(flavor = "multi_thread")]
async fn vw_25_the_first_viewer_starts_the_job_at_once_and_only_once_for_each_firing() {
    let sink = Sink::new().await;
    // Fires once a year: within this test only arrivals can start it.
    let jobs = format!(
        "[[jobs]]\nname = \"yearly\"\ncron = \"0 0 1 1 *\"\non_arrival = true\nrun = {{ http = {{ url = \"{}\" }} }}\n",
        sink.url()
    );
    let world = World::new(&jobs).await;
    world.beat("first").await;
    let run = world.run("yearly", |run| is(run, "run: viewer arrived", "done")).await;
    assert!(run["bucket"].as_str().unwrap().ends_with("-01-01T00:00"), "{run}");
    world.bye("first").await;
    world.beat("second").await;
    let metrics = syncline_sim::until_some("the second arrival to be decided", async || {
        let text = reqwest::get(world.url("/metrics")).await.unwrap().text().await.unwrap();
        text.contains("reason=\"another node has this minute\"} 1").then_some(text)
    })
    .await;
    assert!(metrics.contains("reason=\"viewer arrived\"} 1"), "{metrics}");
    assert_eq!(sink.calls().len(), 1);
}
