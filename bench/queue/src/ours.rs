//! Our durable queue, as an application in Rust uses it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use syncline_core::queue::{Answer, CONCURRENCY_MAX, Kind, Settings};
use syncline_store::Store;
use syncline_store::queue::{KEYS_MAX, Queues, Rules};

const QUEUE: &str = "nothing";
/// Two that take turns keep the database busy while answers are on their way.
const WORKERS: usize = 2;
const BATCH: usize = CONCURRENCY_MAX as usize / WORKERS;

/// Enqueues `tasks` keys, works on all of them, and tells how many results were stored a second.
pub(crate) fn drain(url: &str, tasks: u32) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let store = Store::open(url).await?;
        let rules = Rules::from(Settings::new(CONCURRENCY_MAX, Duration::ZERO, Duration::from_secs(1)));
        let queues = store.queues();
        let keys: Vec<String> = (0..tasks).map(|n| format!("key-{n}")).collect();
        for some in keys.chunks(KEYS_MAX) {
            queues.enqueue(QUEUE, &rules, Kind::New, some).await?;
        }
        let begun = Instant::now();
        let workers: Vec<_> =
            (0..WORKERS).map(|_| tokio::spawn(work(Arc::clone(&queues), rules, tasks))).collect();
        for worker in workers {
            worker.await.context("a worker did not end well")??;
        }
        let took = begun.elapsed();
        let status = queues.status(QUEUE, &rules).await?;
        ensure!(status.done_total == u64::from(tasks), "{} of {tasks} were done", status.done_total);
        store.close().await;
        Ok(f64::from(tasks) / took.as_secs_f64())
    })
}

async fn work(queues: Arc<dyn Queues>, rules: Rules, tasks: u32) -> Result<()> {
    loop {
        let claimed = queues.claim(QUEUE, &rules, BATCH).await?;
        if claimed.runs.is_empty() {
            if queues.status(QUEUE, &rules).await?.done_total >= u64::from(tasks) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let answers =
            claimed.runs.into_iter().map(|run| (run.call, Answer::Done("done".to_owned()))).collect();
        queues.settle(QUEUE, &rules, answers).await?;
    }
}
