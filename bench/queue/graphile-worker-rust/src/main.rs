//! graphile_worker (Rust) at its fastest settings: a local queue, and completions in batches.
//! `graphile-worker-rust <postgres url> <tasks>` prints one line of JSON when the last job's row is gone.

use std::time::{Duration, Instant};

use graphile_worker::local_queue::LocalQueueConfig;
use graphile_worker::{IntoTaskHandlerResult, JobSpec, TaskHandler, WorkerContext, WorkerOptions};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Serialize, Deserialize)]
struct Nothing {
    key: String,
}

impl TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("a database")?;
    let tasks: usize = arguments.next().ok_or("a number of tasks")?.parse()?;
    let pool = PgPoolOptions::new().max_connections(20).connect(&url).await?;
    let worker = WorkerOptions::default()
        .concurrency(10)
        .schema("peer")
        .define_job::<Nothing>()
        .pg_pool(pool.clone())
        .local_queue(LocalQueueConfig::default().with_size(500))
        .complete_job_batch_delay(Duration::from_millis(1))
        .fail_job_batch_delay(Duration::from_millis(1))
        .init()
        .await?;
    let utils = worker.create_utils();
    let spec = JobSpec::default();
    let adding = Instant::now();
    let jobs: Vec<_> = (0..tasks).map(|n| (Nothing { key: format!("key-{n}") }, &spec)).collect();
    for some in jobs.chunks(5_000) {
        utils.add_jobs::<Nothing>(some).await?;
    }
    let add_seconds = adding.elapsed().as_secs_f64();

    let begun = Instant::now();
    let running = tokio::spawn(async move { worker.run().await });
    loop {
        let empty: bool = sqlx::query_scalar("select not exists (select from peer._private_jobs)").fetch_one(&pool).await?;
        if empty {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    running.abort();
    println!("{{\"tasks\":{tasks},\"seconds\":{seconds},\"add_seconds\":{add_seconds}}}");
    Ok(())
}
