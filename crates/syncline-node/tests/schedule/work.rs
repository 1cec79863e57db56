//! What a job does: calls and programs, their failures, time-outs and retries.

use axum::http::StatusCode;
use serde_json::json;
use syncline_sim::until;

use crate::sink::Sink;
use crate::world::{World, is};

/// A job that only runs by hand within a test.
fn by_hand(name: &str, more: &str) -> String {
    format!("[[jobs]]\nname = \"{name}\"\ncron = \"0 0 1 1 *\"\n{more}\n")
}

async fn ask(world: &World, name: &str) {
    let (status, run) = world.post(&format!("/api/jobs/{name}/run"), &json!({})).await;
    assert_eq!((status, run["reason"].as_str()), (202, Some("run: by hand")), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_call_that_fails_is_tried_again_with_the_same_key() {
    let sink =
        Sink::answering(|before| if before == 0 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK })
            .await;
    let call = format!("retries = 2\nrun = {{ http = {{ url = \"{}\" }} }}", sink.url());
    let world = World::new(&by_hand("call", &call)).await;
    ask(&world, "call").await;
    let run = world.run("call", |run| is(run, "run: by hand", "done")).await;
    assert_eq!((&run["attempts"], &run["detail"]), (&json!(2), &json!("200 painted")));
    assert!(run["bucket"].is_null(), "a run by hand takes no bucket: {run}");
    let calls = sink.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].key, calls[1].key);
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_refused_call_is_not_repeated_and_a_redirect_is_a_failure() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::FOUND] {
        let sink = Sink::answering(move |_| status).await;
        let call = format!("retries = 3\nrun = {{ http = {{ url = \"{}\" }} }}", sink.url());
        let world = World::new(&by_hand("call", &call)).await;
        ask(&world, "call").await;
        let run = world.run("call", |run| run["state"] == "failed").await;
        assert!(
            run["detail"].as_str().unwrap().starts_with(&format!("answered {}", status.as_u16())),
            "{run}"
        );
        assert_eq!((run["attempts"].as_u64(), sink.calls().len()), (Some(1), 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_call_without_an_answer_ends_with_its_time_out() {
    let sink = Sink::answering(|_| StatusCode::REQUEST_TIMEOUT).await;
    let call = format!("timeout_sec = 1\nrun = {{ http = {{ url = \"{}\" }} }}", sink.url());
    let world = World::new(&by_hand("slow", &call)).await;
    ask(&world, "slow").await;
    let (_, second) = world.post("/api/jobs/slow/run", &json!({})).await;
    assert_eq!(second["reason"], "skip: still running");
    let run = world.run("slow", |run| run["state"] == "failed").await;
    assert_eq!(run["detail"], "not done within 1 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_program_gets_the_occasion_and_not_the_secrets() {
    let script = "echo $SYNCLINE_JOB $SYNCLINE_VIEWERS token=$SYNCLINE_TOKEN url=$DATABASE_URL";
    let world =
        World::new(&by_hand("say", &format!("run = {{ command = [\"sh\", \"-c\", {script:?}] }}"))).await;
    world.beat("somebody").await;
    ask(&world, "say").await;
    let run = world.run("say", |run| run["state"] == "done").await;
    assert_eq!(run["detail"], "say 1 token= url=");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_program_that_fails_says_last_what_went_wrong() {
    let script = "head -c 100000 /dev/zero | tr '\\\\0' x >&2; echo the disk is full >&2; exit 7";
    let world =
        World::new(&by_hand("fail", &format!("run = {{ command = [\"sh\", \"-c\", \"{script}\"] }}"))).await;
    ask(&world, "fail").await;
    let run = world.run("fail", |run| run["state"] == "failed").await;
    let detail = run["detail"].as_str().unwrap();
    assert!(detail.starts_with("ended with exit status: 7"), "{detail}");
    assert!(detail.ends_with("the disk is full") && detail.len() < 1_000, "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_program_over_its_time_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("sleep 3600 & echo $! > {}; wait", pid.display());
    let job = format!("timeout_sec = 1\nrun = {{ command = [\"sh\", \"-c\", {script:?}] }}");
    let world = World::new(&by_hand("hang", &job)).await;
    ask(&world, "hang").await;
    world.run("hang", |run| run["detail"] == "not done within 1 s").await;
    let pid = std::fs::read_to_string(pid).unwrap();
    until("the grandchild to be gone", async || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        status.is_empty() || status.contains(") Z ")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_what_is_not_there_is_said_so() {
    let world = World::new(&by_hand("ghost", "run = { command = [\"no-such-program\"] }")).await;
    ask(&world, "ghost").await;
    let run = world.run("ghost", |run| run["state"] == "failed").await;
    assert!(run["detail"].as_str().unwrap().starts_with("cannot start no-such-program"), "{run}");
    let (status, answer) = world.post("/api/jobs/nobody/run", &json!({})).await;
    assert_eq!((status, &answer["code"]), (404, &json!("not-found")));
    assert_eq!(world.get("/api/jobs/nobody/history").await["code"], "not-found");
    assert_eq!(world.get("/api/jobs/ghost/history?limit=0").await["code"], "invalid-limit");
}
