// One call of a queue's worker function: what it is told, and who hears how it ended.
//
// Guarantees: a call that was given up has nothing to say any more. When calls begin and end is the engine's (queue-engine.js).

// One call that goes on after its function returned. Used again and again, so that a task needs no functions of its own.
export class Call {
  id = 0;
  number = 0;
  deadline = 0;
  position = 0;
  context;
  isRunning = false;

  constructor(engine) {
    this.resolved = (value) => engine.ended(this, true, value);
    this.rejected = (error) => engine.ended(this, false, error);
  }

  begin(number, id, context, deadline) {
    this.number = number;
    this.id = id;
    this.context = context;
    this.deadline = deadline;
    this.isRunning = true;
  }
}

// What a worker function is told beside its key. The signal is made when somebody asks for it.
export class Context {
  #controller;

  constructor(attempt, group) {
    this.attempt = attempt;
    this.group = group;
  }

  get signal() {
    return (this.#controller ??= new AbortController()).signal;
  }

  abort(error) {
    this.#controller ??= new AbortController();
    this.#controller.abort(error);
  }
}
