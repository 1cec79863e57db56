//! Who arrives need not wait for the next firing.

use syncline_testing::until_some;

use crate::world::{World, content_api, is};

#[tokio::test(flavor = "multi_thread")]
async fn vw_25_the_first_viewer_starts_the_job_at_once_and_only_once_for_each_firing() {
    let api = content_api().await;
    // Fires once a year: within this test only arrivals can start it.
    let jobs = format!(
        "[[jobs]]\nname = \"yearly\"\ncron = \"0 0 1 1 *\"\non_arrival = true\nrun = {{ http = {{ url = \"{}\" }} }}\n",
        api.url("/job")
    );
    let world = World::new(&jobs).await;
    world.beat("first").await;
    let run = world.wait_for_run("yearly", |run| is(run, "run: viewer arrived", "done")).await;
    assert!(run["bucket"].as_str().unwrap().ends_with("-01-01T00:00"), "{run}");
    world.bye("first").await;
    world.beat("second").await;
    let metrics = until_some("the second arrival to be decided", async || {
        let text = world.text("/metrics").await;
        text.contains("reason=\"another node has this minute\"} 1").then_some(text)
    })
    .await;
    assert!(metrics.contains("reason=\"viewer arrived\"} 1"), "{metrics}");
    assert_eq!(api.calls().len(), 1);
}
