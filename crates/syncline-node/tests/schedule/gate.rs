//! Nobody watches: nothing runs. Somebody comes: the next firing runs.

use serde_json::json;
use syncline_testing::until;

use crate::world::{World, content_api, is};

const REPORT: &str = r#"
[[jobs]]
name = "report"
cron = "* * * * * *"
run = { command = ["true"] }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn vw_06_and_vw_10_skipped_while_nobody_watches_and_run_when_somebody_does() {
    let world = World::new(REPORT).await;
    let skipped = world.wait_for_run("report", |run| is(run, "skip: no viewer", "skipped")).await;
    assert_eq!(skipped["decision"], "skip");
    assert_eq!(skipped["cost_usd"], 0.002);
    world.beat("somebody").await;
    let done = world.wait_for_run("report", |run| is(run, "run: watched", "done")).await;
    assert_eq!(done["attempts"], 1);
    world.bye("somebody").await;
    let id = done["id"].as_i64().unwrap();
    world
        .wait_for_run("report", |run| {
            is(run, "skip: no viewer", "skipped") && run["id"].as_i64().unwrap() > id
        })
        .await;
    let jobs = world.get("/api/jobs").await;
    let totals = &jobs["jobs"][0]["totals"];
    assert!(totals["runs"].as_u64().unwrap() >= 1, "{totals}");
    let skips = totals["skips"]["skip: no viewer"].as_u64().unwrap();
    let saved = totals["saved_usd"].as_f64().unwrap();
    assert!((saved - skips as f64 * 0.002).abs() < 1e-9, "vw_09: {skips} skips saved {saved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_08_an_unchanged_input_is_skipped_as_such_and_a_changed_one_runs() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.txt");
    std::fs::write(&input, "one").unwrap();
    let jobs = format!(
        "[[jobs]]\nname = \"render\"\ncron = \"* * * * * *\"\ngate = \"always\"\ninput = {input:?}\nrun = {{ command = [\"true\"] }}\n"
    );
    let world = World::new(&jobs).await;
    world.wait_for_run("render", |run| is(run, "run: always", "done")).await;
    world.wait_for_run("render", |run| is(run, "skip: unchanged input", "skipped")).await;
    std::fs::write(&input, "two").unwrap();
    until("a second run", async || {
        let runs = world.history("render").await;
        runs.iter().filter(|run| is(run, "run: always", "done")).count() == 2
    })
    .await;
    std::fs::remove_file(&input).unwrap();
    // In doubt the input has changed.
    until("a third run", async || {
        let runs = world.history("render").await;
        runs.iter().filter(|run| is(run, "run: always", "done")).count() >= 3
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_24_a_job_can_ask_for_pages_in_sight() {
    let jobs = "[[jobs]]\nname = \"seen\"\ncron = \"* * * * * *\"\ngate = \"visible-viewers\"\nrun = { command = [\"true\"] }\n";
    let world = World::new(jobs).await;
    let hidden = json!({ "sessionId": "hidden", "visible": false });
    world.post("/api/viewer", &hidden).await;
    let before = world.history("seen").await.first().map_or(0, |run| run["id"].as_i64().unwrap());
    let skipped = world.wait_for_run("seen", |run| run["id"].as_i64().unwrap() > before + 1).await;
    assert_eq!(skipped["reason"], "skip: no viewer");
    world.beat("hidden").await;
    world.wait_for_run("seen", |run| is(run, "run: watched", "done")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_30_a_gate_of_a_room_opens_for_that_room_alone() {
    let api = content_api().await;
    let job = format!(
        "[[jobs]]\nname = \"lobby\"\ncron = \"* * * * * *\"\ngate = \"viewers:lobby\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
        api.url("/job")
    );
    let world = World::new(&job).await;
    world.beat("somebody").await;
    let beat = |session: &str, room: &str| serde_json::json!({ "sessionId": session, "room": room });
    world.send("POST", "/api/viewer", Some(&beat("elsewhere", "garden"))).await;
    world.wait_for_run("lobby", |run| is(run, "skip: no viewer", "skipped")).await;
    assert_eq!(world.get("/api/jobs").await["jobs"][0]["gate"], "viewers:lobby");
    assert_eq!(api.calls().len(), 0, "others are watching, and elsewhere");
    world.send("POST", "/api/viewer", Some(&beat("here", "lobby"))).await;
    world.wait_for_run("lobby", |run| is(run, "run: watched", "done")).await;
    assert_eq!(api.calls()[0].header("x-syncline-viewers"), "1");
}
