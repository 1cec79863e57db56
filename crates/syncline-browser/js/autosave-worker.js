// The worker's half of AutoSave: keeps the document's newest text, and carries out what the rules (WASM) ask for.
//
// Guarantees: a version is written beside the stored one and put in its place under the lock's own exclusion, with the
// number of the version in it; a tab that asks for the project gets it after the last change is stored, or within a
// second. When to save, what to do about two versions and what the user sees is decided by the rules.

import { SaveDo, SaveMachine, SaveNews } from "./syncline_lock.js";

// How long a tab that asks politely has to wait at most for the last save.
const HAND_OVER_MS = 1_000;
// The tab that gave way waits before it stands in line again.
const GIVE_WAY_MS = 1_500;
// A second tab should know soon that it is the second one.
const WEB_LOCK_WAIT_MS = 300;
const LOSSES = { expired: SaveNews.Expired, "taken-over": SaveNews.TakenOver, hidden: SaveNews.Hidden };

export class Saver {
  #lock;
  #facts;
  #post;
  #machine = new SaveMachine();
  #timer;
  #text = "";
  // The number of the page's change that made the text what it is, and of the one that is being stored.
  #edit = 0;
  #storing = 0;
  #stored = { stamp: 0, text: "" };
  #draft;
  #lease;
  #since;
  #givingWay = false;

  constructor(lock, facts, post) {
    this.#lock = lock;
    this.#facts = facts;
    this.#post = (what, more) => post({ type: "save", what, project: facts.project, ...more });
    this.#begin();
  }

  /** From the page. */
  hear({ what, text, edit }) {
    if (text !== undefined) [this.#text, this.#edit] = [text, edit];
    switch (what) {
      case "change":
        return this.#tell("happened", SaveNews.Changed);
      case "flush":
        return this.#tell("happened", SaveNews.Flush);
      case "keep-mine":
        return this.#tell("happened", SaveNews.KeepMine);
      case "take-theirs":
        return this.#tell("happened", SaveNews.TakeTheirs);
      case "take-over":
        return this.#lock.say({ type: "ask" });
      case "close":
        this.#tell("happened", SaveNews.Close);
        clearTimeout(this.#timer);
        this.#lock.saver = undefined;
    }
  }

  /** From the lock of this tab. */
  note({ type, lease }) {
    if (type === "acquired") {
      this.#since = Date.now();
      this.#hold(lease);
      this.#tell("happened", SaveNews.Acquired);
    } else if (type === "renewed") this.#hold(lease);
    else if (type === "backoff") {
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
        if (this.#lease !== undefined && !this.#givingWay) this.#giveWay();
    }
  }

  async #begin() {
    // What is stored is shown before anybody holds anything.
    await this.#read().catch(() => {});
    this.#text = this.#stored.text;
    this.#post("document", this.#stored);
    this.#tell("open", this.#stored.stamp);
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
    this.#givingWay = true;
    this.#tell("happened", SaveNews.Flush);
    const deadline = performance.now() + HAND_OVER_MS;
    while (!this.#machine.clean && performance.now() < deadline) await pause(20);
    // From here on nothing is saved; what came too late for that waits in this tab.
    this.#lease = undefined;
    this.#tell("happened", SaveNews.TakenOver);
    await this.#lock.ask("release", { leaseId }).catch(() => {});
    await pause(GIVE_WAY_MS);
    this.#givingWay = false;
    this.#acquire();
  }

  #tell(what, ...facts) {
    const machine = this.#machine;
    machine.clock(performance.now(), this.#lock.certain);
    machine[what](...facts);
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
        return void (this.#givingWay || this.#acquire());
      case SaveDo.Release:
        return void (this.#lease && this.#lock.ask("release", { leaseId: this.#lease.leaseId }).catch(() => {}));
      case SaveDo.Load:
        return void this.#load();
      case SaveDo.Adopt:
        this.#text = this.#stored.text;
        return this.#post("document", this.#stored);
      case SaveDo.Conflict:
        return this.#post("conflict", this.#stored);
      case SaveDo.WriteTemp:
        return void this.#writeTemp(stamp);
      case SaveDo.Switch:
        return void this.#switch();
      case SaveDo.Announce:
        this.#post("saved", { stamp, at: Date.now(), edit: this.#storing });
        return this.#lock.say({ type: "saved", stamp });
      case SaveDo.Show:
        return this.#post("status", { status: this.#machine.status });
    }
  }

  #acquire() {
    const { released, leaseMs, retryPolicy } = this.#facts;
    const wish = { maxWaitMs: WEB_LOCK_WAIT_MS, retryPolicy, leaseMs, keep: true, comeBack: true, released };
    // The lock's events tell of success.
    this.#lock.ask("acquire", wish).catch((error) => {
      this.#post("trouble", { message: error.message });
      this.#tell("happened", SaveNews.Refused);
    });
  }

  async #read() {
    const bytes = await this.#lock.record.load(this.#facts.file);
    const { stamp = 0, text = "" } = bytes === undefined ? {} : JSON.parse(new TextDecoder().decode(bytes));
    this.#stored = { stamp: Number(stamp), text: String(text) };
  }

  async #load() {
    try {
      await this.#read();
    } catch (error) {
      this.#post("trouble", { message: error.message });
      return this.#tell("happened", SaveNews.LoadFailed);
    }
    this.#tell("loaded", this.#stored.stamp);
  }

  async #writeTemp(stamp) {
    const { file } = this.#facts;
    this.#storing = this.#edit;
    const bytes = new TextEncoder().encode(JSON.stringify({ stamp, text: this.#text }));
    try {
      this.#draft = await this.#lock.record.prepare(file, bytes);
    } catch (error) {
      this.#post("trouble", { message: error.message });
      return this.#tell("happened", SaveNews.TempFailed);
    }
    this.#tell("happened", SaveNews.TempWritten);
  }

  async #switch() {
    try {
      await this.#lock.ask("commit", { leaseId: this.#lease?.leaseId ?? "", draft: this.#draft });
    } catch (error) {
      this.#post("trouble", { message: error.message });
      return this.#tell("happened", SaveNews.SwitchFailed);
    }
    this.#tell("happened", SaveNews.Switched);
  }
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
