//! What a job does: calls and programs, their failures, time-outs and retries.

use std::time::Duration;

use serde_json::json;
use syncline_testing::{Reply, StubApi, until};

use crate::world::{World, is};

/// A job that only runs by hand within a test.
fn by_hand(name: &str, more: &str) -> String {
    format!("[[jobs]]\nname = \"{name}\"\ncron = \"0 0 1 1 *\"\n{more}\n")
}

async fn ask(world: &World, name: &str) {
    let asked = world.send("POST", &format!("/api/jobs/{name}/run"), Some(&json!({}))).await;
    assert_eq!((asked.status.as_u16(), &asked.value()["reason"]), (202, &json!("run: by hand")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_call_that_fails_is_tried_again_with_the_same_key() {
    let api = StubApi::start(|_, before| Reply::new(if before == 0 { 503 } else { 200 }, "rendered")).await;
    let call = format!("retries = 2\nrun = {{ http = {{ url = \"{}\" }} }}", api.url("/job"));
    let world = World::new(&by_hand("call", &call)).await;
    ask(&world, "call").await;
    let run = world.wait_for_run("call", |run| is(run, "run: by hand", "done")).await;
    assert_eq!((&run["attempts"], &run["detail"]), (&json!(2), &json!("200 rendered")));
    assert!(run["bucket"].is_null(), "a run by hand takes no bucket: {run}");
    let calls = api.calls();
    assert_eq!(calls.len(), 2);
    let key = |at: usize| calls[at].header("idempotency-key");
    assert!(!key(0).is_empty());
    assert_eq!(key(0), key(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_refused_call_is_not_repeated_and_a_redirect_is_a_failure() {
    for status in [400, 302] {
        let api = StubApi::start(move |_, _| Reply::new(status, "rendered")).await;
        let call = format!("retries = 3\nrun = {{ http = {{ url = \"{}\" }} }}", api.url("/job"));
        let world = World::new(&by_hand("call", &call)).await;
        ask(&world, "call").await;
        let run = world.wait_for_run("call", |run| run["state"] == "failed").await;
        assert!(run["detail"].as_str().unwrap().starts_with(&format!("answered {status}")), "{run}");
        assert_eq!((run["attempts"].as_u64(), api.calls().len()), (Some(1), 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_call_without_an_answer_ends_with_its_time_out() {
    let api = StubApi::start(|_, _| Reply::new(200, "rendered").after(Duration::from_secs(3_600))).await;
    let call = format!("timeout_sec = 1\nrun = {{ http = {{ url = \"{}\" }} }}", api.url("/job"));
    let world = World::new(&by_hand("slow", &call)).await;
    ask(&world, "slow").await;
    let second = world.send("POST", "/api/jobs/slow/run", Some(&json!({}))).await;
    assert_eq!(second.value()["reason"], "skip: still running");
    let run = world.wait_for_run("slow", |run| run["state"] == "failed").await;
    assert_eq!(run["detail"], "not done within 1 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_program_gets_the_occasion_and_not_the_secrets() {
    let script = "echo $SYNCLINE_JOB $SYNCLINE_VIEWERS token=$SYNCLINE_TOKEN url=$DATABASE_URL";
    let world =
        World::new(&by_hand("say", &format!("run = {{ command = [\"sh\", \"-c\", {script:?}] }}"))).await;
    world.beat("somebody").await;
    ask(&world, "say").await;
    let run = world.wait_for_run("say", |run| run["state"] == "done").await;
    assert_eq!(run["detail"], "say 1 token= url=");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_20_a_program_that_fails_says_last_what_went_wrong() {
    let script = "head -c 100000 /dev/zero | tr '\\\\0' x >&2; echo the disk is full >&2; exit 7";
    let world =
        World::new(&by_hand("fail", &format!("run = {{ command = [\"sh\", \"-c\", \"{script}\"] }}"))).await;
    ask(&world, "fail").await;
    let run = world.wait_for_run("fail", |run| run["state"] == "failed").await;
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
    world.wait_for_run("hang", |run| run["detail"] == "not done within 1 s").await;
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
    let run = world.wait_for_run("ghost", |run| run["state"] == "failed").await;
    assert!(run["detail"].as_str().unwrap().starts_with("cannot start no-such-program"), "{run}");
    world.send("POST", "/api/jobs/nobody/run", Some(&json!({}))).await.refused(404, "not-found");
    assert_eq!(world.get("/api/jobs/nobody/history").await["code"], "not-found");
    assert_eq!(world.get("/api/jobs/ghost/history?limit=0").await["code"], "invalid-limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_31_a_run_is_cancelled_and_says_so_and_a_program_dies_with_everything_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let (began, survived) = (folder.path().join("began"), folder.path().join("survived"));
    let script = format!("(sleep 3; touch {}) & touch {}; sleep 3600", survived.display(), began.display());
    let world = World::new(&by_hand(
        "slow",
        &format!("timeout_sec = 3600\nrun = {{ command = [\"sh\", \"-c\", {script:?}] }}"),
    ))
    .await;
    let nothing = world.send("POST", "/api/jobs/slow/cancel", None).await;
    nothing.refused(409, "not-running");
    world.send("POST", "/api/jobs/none/cancel", None).await.refused(404, "not-found");
    ask(&world, "slow").await;
    until("the program runs", async || began.exists()).await;
    let cancelled = world.send("POST", "/api/jobs/slow/cancel", None).await;
    assert_eq!((cancelled.status.as_u16(), &cancelled.value()["runs"][0]["state"]), (202, &json!("running")));
    let run = world.wait_for_run("slow", |run| run["state"] == "failed").await;
    assert_eq!(run["detail"], "cancelled by hand");
    // The next run is not cancelled by the old word.
    ask(&world, "slow").await;
    assert_eq!(world.get("/api/jobs").await["jobs"][0]["running"], true);
    world.send("POST", "/api/jobs/slow/cancel", None).await;
    world.wait_for_run("slow", |again| again["state"] == "failed" && again["id"] != run["id"]).await;
    assert!(!survived.exists(), "what the first one had started is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_31_a_paused_job_skips_its_firings_and_runs_by_hand() {
    let api = crate::world::content_api().await;
    let job = format!(
        "[[jobs]]\nname = \"often\"\ncron = \"* * * * * *\"\ngate = \"always\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
        api.url("/job")
    );
    let world = World::new(&job).await;
    world.wait_for_run("often", |run| is(run, "run: always", "done")).await;
    let paused = world.send("POST", "/api/jobs/often/pause", None).await;
    assert_eq!(paused.value(), json!({ "name": "often", "paused": true }));
    world.wait_for_run("often", |run| is(run, "skip: paused", "skipped")).await;
    assert!(world.get("/api/jobs").await["jobs"][0]["paused_at"].is_u64());
    ask(&world, "often").await;
    world.wait_for_run("often", |run| is(run, "run: by hand", "done")).await;
    let skip = world.wait_for_run("often", |run| is(run, "skip: paused", "skipped")).await;
    world.send("POST", "/api/jobs/often/resume", None).await;
    let later =
        |run: &serde_json::Value| is(run, "run: always", "done") && run["id"].as_i64() > skip["id"].as_i64();
    world.wait_for_run("often", later).await;
    world.send("POST", "/api/jobs/none/pause", None).await.refused(404, "not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_31_firings_of_an_outage_are_made_up_for() {
    let api = crate::world::content_api().await;
    let job = |catch_up: &str| {
        format!(
            "[[jobs]]\nname = \"daily\"\ncron = \"0 0 * * *\"\ntimezone = \"UTC\"\ncatch_up = \"{catch_up}\"\ngate = \"always\"\nrun = {{ http = {{ url = \"{}\" }} }}\n",
            api.url("/job")
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shared.db").display());
    // Three days ago a node dealt with a firing, and since then nobody was there.
    let store = syncline_store::Store::open(&url).await.unwrap();
    let day_ms = 86_400_000;
    let now_ms = u64::try_from(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis(),
    );
    let midnight_ms = now_ms.unwrap() / day_ms * day_ms;
    let old = syncline_core::schedule::Bucket::minute(syncline_core::time::Timestamp::from_ms(
        midnight_ms - 3 * day_ms,
    ));
    let intent = syncline_store::schedule::Intent {
        job: "daily",
        node: "gone",
        reason: syncline_core::schedule::Reason::NoViewer,
        cost: syncline_core::schedule::Cost::DEFAULT,
    };
    store.schedule().record_skip(&intent, old).await.unwrap();
    store.close().await;
    let world = World::on(&url, &job("all")).await;
    let last = syncline_core::schedule::Bucket::minute(syncline_core::time::Timestamp::from_ms(midnight_ms));
    world.wait_for_run("daily", |run| run["bucket"] == last.to_string() && run["state"] == "done").await;
    let buckets: Vec<String> = api.calls().iter().map(crate::world::bucket).collect();
    let expected: Vec<String> = (0..3)
        .rev()
        .map(|days| midnight_ms - days * day_ms)
        .map(|ms| {
            syncline_core::schedule::Bucket::minute(syncline_core::time::Timestamp::from_ms(ms)).to_string()
        })
        .collect();
    assert_eq!(buckets, expected, "oldest first, each once");
}
