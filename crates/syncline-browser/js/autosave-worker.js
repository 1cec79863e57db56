// The worker's half of AutoSave: keeps the document's newest text, and carries out what the rules (WASM) ask for.
//
// Guarantees: a version is written beside the stored one and put in its place under the lock's own exclusion, with the
// number of the version in it; a tab that asks for the project gets it after the last change is stored, or within a
// second; end() leaves nothing held, wanted or under way. When to save, which change counts, what to do about two versions and
// what the user sees is decided by the rules.

import { deadline } from "./errors.js";
import { explain } from "./lock-failure.js";
import { SaveDo, SaveMachine, SaveNews } from "./syncline_lock.js";

// How long a tab that asks politely has to wait at most for the last save.
const HAND_OVER_MS = 1_000;
// The tab that gave way waits before it stands in line again.
const GIVE_WAY_MS = 1_500;
// A second tab should know soon that it is the second one.
const WEB_LOCK_WAIT_MS = 300;
// A lock that cannot be had is asked for again: what was in its way may pass.
const ASK_AGAIN_MS = 5_000;
const STORAGE_MAX_MS = 4_000;
const LOSSES = { expired: SaveNews.Expired, "taken-over": SaveNews.TakenOver, hidden: SaveNews.Hidden };

export class Saver {
  #lock;
  #facts;
  #post;
  #machine = new SaveMachine();
  #timer;
  #text = "";
  // The number of the page's change that made the text what it is, and what is being stored.
  #edit = 0;
  #storing = { edit: 0, text: "" };
  #stored = { stamp: 0, text: "", by: undefined };
  #draft;
  #lease;
  #since;
  #acquiring;
  #isGivingWay = false;
  #ending;

  /** Begins when the one before it has ended. */
  constructor(lock, facts, post, before) {
    this.#lock = lock;
    this.#facts = facts;
    const { project, session } = facts;
    this.#post = (what, more) => post({ type: "save", what, project, session, ...more });
    this.#begin(before);
  }

  get session() {
    return this.#facts.session;
  }

  /** From the page. */
  receive(message) {
    switch (message.what) {
      case "change":
        return this.#change(message);
      case "flush":
        return this.#tell("happened", SaveNews.Flush);
      case "keep-mine":
        return this.#tell("happened", SaveNews.KeepMine);
      case "take-theirs":
        return this.#tell("happened", SaveNews.TakeTheirs);
      case "take-over":
        return this.#lock.say({ type: "ask" });
    }
  }

  /** From the lock of this tab. */
  note({ type, lease, error }, cause) {
    if (this.#ending !== undefined) return;
    if (type === "acquired") {
      this.#since = Date.now();
      this.#hold(lease);
      this.#tell("happened", SaveNews.Acquired);
    } else if (type === "renewed") this.#hold(lease);
    else if (type === "backoff" && error.code !== "web-lock-unavailable") {
      // Nobody else has it: storage is in the way.
      this.#post("trouble", { error: explain(cause, error.code) });
    } else if (type === "backoff") {
      this.#tell("happened", SaveNews.Waiting);
      this.#lock.say({ type: "who" });
    }
  }

  lost(loss) {
    this.#lease = undefined;
    this.#tell("happened", LOSSES[loss]);
  }

  /** From the other tabs. */
  overhear(message) {
    switch (message.type) {
      case "saved":
        return this.#tell("heard", message.stamp);
      case "holder":
        return this.#post("holder", { holder: message.holder });
      case "who":
        return this.#introduce();
      case "refused":
        return this.#post("refused");
      case "ask":
        if (this.#lease !== undefined && !this.#isGivingWay) this.#giveWay();
    }
  }

  /** Settles when the project is given back, or is no longer asked for. */
  end() {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end() {
    clearTimeout(this.#timer);
    const lock = this.#lock;
    const acquiring = this.#acquiring;
    acquiring?.abort();
    lock.forget();
    const granted = await acquiring?.catch(() => undefined);
    const leaseId = this.#lease?.leaseId ?? granted?.lease?.leaseId;
    this.#lease = undefined;
    // Refused where the lease is another's by now, or has ended: then there is nothing to give back.
    if (leaseId !== undefined) await lock.ask("release", { leaseId }).catch(() => {});
    this.#post("closed");
  }

  async #begin(before) {
    await before;
    // What is stored is shown before anybody holds anything.
    try {
      await deadline(this.#patiently(() => this.#read()), STORAGE_MAX_MS, "fallback-read-failed", "the storage of the document");
    } catch (error) {
      this.#post("unread", { error: explain(error, "fallback-read-failed") });
    }
    if (this.#ending !== undefined) return;
    this.#tell("open", this.#stored.stamp);
  }

  // Reading may meet a change that is being put in place.
  async #patiently(work) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        if (tries === 5) throw error;
      }
      await pause(tries * 100);
    }
  }

  #change({ text, edit, line, version }) {
    this.#clock();
    // A text that grew out of an older one than this tab has is not kept: the page is being told of the newer one.
    if (this.#machine.changed(line, version)) [this.#text, this.#edit] = [text, edit];
    this.#carryOut();
  }

  #hold(lease) {
    this.#lease = lease;
    this.#introduce();
  }

  #introduce() {
    if (this.#lease === undefined) return;
    const { leaseId, expiresAt, source } = this.#lease;
    const holder = { leaseId, expiresAt, source, since: this.#since };
    this.#lock.say({ type: "holder", holder });
    this.#post("holder", { holder });
  }

  async #giveWay() {
    const { leaseId } = this.#lease;
    if (this.#facts.allowTakeOver === false) return this.#lock.say({ type: "refused" });
    this.#isGivingWay = true;
    this.#tell("happened", SaveNews.Flush);
    const until = performance.now() + HAND_OVER_MS;
    while (!this.#machine.clean && performance.now() < until) await pause(20);
    if (this.#ending !== undefined) return;
    // From here on nothing is saved; what came too late for that waits in this tab.
    this.#lease = undefined;
    this.#tell("happened", SaveNews.TakenOver);
    await this.#lock.ask("release", { leaseId }).catch(() => {});
    await pause(GIVE_WAY_MS);
    this.#isGivingWay = false;
    this.#acquire();
  }

  #clock() {
    this.#machine.clock(performance.now(), this.#lock.certain);
  }

  #tell(what, ...facts) {
    if (this.#ending !== undefined) return;
    this.#clock();
    this.#machine[what](...facts);
    this.#carryOut();
  }

  #carryOut() {
    const machine = this.#machine;
    for (let next = machine.next(); next !== SaveDo.Nothing; next = machine.next()) this.#do(next);
    clearTimeout(this.#timer);
    const { wakeAt } = machine;
    if (wakeAt === undefined) return;
    const wait = Math.max(0, Math.ceil(wakeAt - performance.now()));
    this.#timer = setTimeout(() => this.#tell("happened", SaveNews.Timer), wait);
  }

  #do(what) {
    const { stamp } = this.#machine;
    switch (what) {
      case SaveDo.Acquire:
        return void (this.#isGivingWay || this.#acquire());
      case SaveDo.Load:
        return void this.#load();
      case SaveDo.Adopt:
        return this.#show();
      case SaveDo.Conflict:
        return this.#post("conflict", this.#stored);
      case SaveDo.WriteTemp:
        return void this.#writeTemp(stamp);
      case SaveDo.Switch:
        return void this.#switch();
      case SaveDo.Announce:
        this.#post("saved", { stamp, at: Date.now(), by: this.session, ...this.#storing });
        return this.#lock.say({ type: "saved", stamp });
      case SaveDo.Show:
        return this.#post("status", { status: this.#machine.status });
    }
  }

  #show() {
    this.#text = this.#stored.text;
    this.#post("document", { ...this.#stored, line: this.#machine.line });
  }

  #acquire() {
    if (this.#ending !== undefined) return;
    const { released, leaseMs, retryPolicy } = this.#facts;
    const wanted = { maxWaitMs: WEB_LOCK_WAIT_MS, retryPolicy, leaseMs, keep: true, comeBack: true, released };
    const acquiring = this.#lock.ask("acquire", wanted);
    this.#acquiring = acquiring;
    // The lock's events tell of success.
    acquiring.catch((error) => {
      if (this.#ending !== undefined) return;
      this.#post("trouble", { error });
      this.#tell("happened", SaveNews.Refused);
      setTimeout(() => this.#tell("open", this.#stored.stamp), ASK_AGAIN_MS);
    });
  }

  async #read() {
    const bytes = await this.#lock.record.load(this.#facts.file);
    const { stamp = 0, text = "", by } = bytes === undefined ? {} : JSON.parse(new TextDecoder().decode(bytes));
    this.#stored = { stamp: Number(stamp), text: String(text), by };
  }

  async #load() {
    try {
      await deadline(this.#read(), STORAGE_MAX_MS, "fallback-read-failed", "the storage of the document");
    } catch (error) {
      this.#post("trouble", { error: explain(error, "fallback-read-failed") });
      return this.#tell("happened", SaveNews.LoadFailed);
    }
    this.#tell("loaded", this.#stored.stamp);
  }

  async #writeTemp(stamp) {
    const { file } = this.#facts;
    const text = this.#text;
    this.#storing = { edit: this.#edit, text };
    const bytes = new TextEncoder().encode(JSON.stringify({ stamp, by: this.session, text }));
    try {
      const draft = this.#lock.record.prepare(file, bytes);
      this.#draft = await deadline(draft, STORAGE_MAX_MS, "fallback-write-failed", "the storage of the document");
    } catch (error) {
      this.#post("trouble", { error: explain(error, "fallback-write-failed") });
      return this.#tell("happened", SaveNews.TempFailed);
    }
    this.#tell("happened", SaveNews.TempWritten);
  }

  async #switch() {
    try {
      await this.#lock.ask("commit", { leaseId: this.#lease?.leaseId ?? "", draft: this.#draft });
    } catch (error) {
      this.#post("trouble", { error });
      return this.#tell("happened", SaveNews.SwitchFailed);
    }
    this.#tell("happened", SaveNews.Switched);
  }
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
