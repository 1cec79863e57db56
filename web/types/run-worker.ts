// Uses the types of `syncline/run-worker` as a program would; never run.

import { type RunningWorker, SynclineError, TaskFailure, type WorkerOptions, runWorker } from "syncline/run-worker";

export async function work(): Promise<void> {
  const options: WorkerOptions<{ width: number }> = {
    queue: "thumbnails",
    concurrency: 4,
    run: async ({ key, input, attempt, signal }) => {
      if (input === undefined) throw new TaskFailure(`${key} has no width`, { cause: "refused" });
      if (attempt > 2) throw new TaskFailure("busy", { cause: "throttled", retryAfterMs: 1_000 });
      signal.throwIfAborted();
      return { width: input.width };
    },
    onError: (error: SynclineError) => console.log(error.code, error.retryable),
  };
  const worker: RunningWorker = runWorker(options);
  await worker.stop();
  await worker.ended;
}
