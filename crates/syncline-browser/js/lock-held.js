// One lease that a page holds: the signal that fires when it is lost.
//
// Guarantees: once the lease is not certain on either clock, `signal.aborted` is true for whoever asks, even where no
// timer and no message could run in between: a tab that stood still for an hour finds it true in its first statement.
// Renewing and the end of the lease in the record are the worker's.

export class HeldLease {
  #controller = new AbortController();
  #onLoss;
  #untilWall = 0;
  #untilMono = 0;

  constructor(project, { lease, marginMs }, expired, onLoss) {
    this.project = project;
    this.expired = expired;
    this.#onLoss = onLoss;
    this.extend({ lease, marginMs });
    const { signal } = this.#controller;
    const state = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted").get;
    // Asked in the middle of running code, the signal looks at the clocks first.
    Object.defineProperties(signal, {
      aborted: { get: () => (this.isOver(), state.call(signal)) },
      throwIfAborted: { value: () => (this.isOver(), AbortSignal.prototype.throwIfAborted.call(signal)) },
    });
  }

  get signal() {
    return this.#controller.signal;
  }

  /** The lease was granted or renewed. What is left is reckoned now, from the time of day that all tabs share. */
  extend({ lease, marginMs }) {
    if (this.#onLoss === undefined) return;
    this.lease = lease;
    this.#untilWall = lease.expiresAt - marginMs;
    this.#untilMono = performance.now() + (this.#untilWall - Date.now());
  }

  /** Whether the lease is no longer certain; if so, it is lost from now on. */
  isOver() {
    if (this.#onLoss !== undefined && (Date.now() >= this.#untilWall || performance.now() >= this.#untilMono)) {
      this.lose(this.expired());
    }
    return this.#onLoss === undefined;
  }

  /** From now on the lease is certain no longer. */
  doubt = () => {
    this.#untilWall = -Infinity;
  };

  lose(reason) {
    const onLoss = this.#onLoss;
    if (onLoss === undefined) return;
    this.#onLoss = undefined;
    onLoss(this);
    this.#controller.abort(reason);
  }

  /** Given back by whoever held it: nothing is lost. */
  free() {
    this.#onLoss = undefined;
  }
}
