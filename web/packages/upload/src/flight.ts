import type { Part } from "./api.ts";
import { Board, type Order, numbers } from "./board.ts";
import type { Sums } from "./hash/hasher.ts";
import { LocalError, isProblem } from "./problem.ts";
import { BeginAnew, type Outcome, type Task } from "./task.ts";
import type { Conflict, OpenUpload } from "./types.ts";

/** Ended is thrown to end everything at once: the file is there. */
export class Ended extends Error {
  constructor(readonly outcome: Outcome) {
    super(outcome.kind);
  }
}

/** Sealing says that the upload is being made a file: nothing is to be sent. */
export class Sealing extends Error {}

const checkedFirst = 1 << 30; // bytes on the server up to which all are compared before more is sent
const spread = 64; // parts compared first where there are more bytes than that

/** Flight is one upload of a task: what is known of it, and what is asked about it. fly takes it from begin to its end. */
export class Flight {
  id: string | null = null;
  board = new Board(0, []);
  partSize = 1;
  /** It was there before: begun by another tab, device or visit. */
  found = false;
  /** Somebody else sends as well. */
  shared = false;
  /** Which part is taken next: who joins an upload begins at the end, and a third one anywhere. */
  order: Order = "first";
  /** The server knows the digest. */
  claimed = false;
  /** A part that differs means that the file is not the one that was begun with. */
  strict = true;
  /** What the server said about its parts. */
  readonly server = new Map<number, Part>();
  /** What is known of the file's parts. */
  readonly sums = new Map<number, Sums>();
  /** Parts that the running scan has passed; null while there is none. */
  scanned: number | null = null;
  /** Parts to be compared before anything is sent. */
  first: readonly number[] = [];
  mismatches = 0;
  /** What the upload was told to do when the name is taken; null: it is not known. */
  told: Conflict | null = null;

  constructor(readonly t: Task) {}

  /** bytes that the server has, as far as known */
  get have(): number {
    const { board } = this;
    const whole = (board.many("there") + board.many("unsure")) * this.partSize;
    const last = board.count - 1;
    const lastThere = board.at(last) === "there" || board.at(last) === "unsure";
    return board.count > 0 && lastThere ? whole - this.partSize + this.span(last)[1] : whole;
  }

  /** span returns offset and length of part n in the file. */
  span(n: number): [number, number] {
    const offset = n * this.partSize;
    return [offset, Math.min(this.partSize, this.t.file.size - offset)];
  }

  part(n: number): Blob {
    const [offset, length] = this.span(n);
    return this.t.file.slice(offset, offset + length);
  }

  /** uploadId is for what runs after begin. */
  get uploadId(): string {
    if (!this.id) throw new LocalError("internal", "no upload was begun");
    return this.id;
  }

  /** checked makes sure that what the server holds is what was read here. */
  checked(outcome: Outcome): Outcome {
    const ours = this.t.digests?.blake3;
    const node = outcome.node;
    if (node && (node.size !== this.t.file.size || (ours && node.digests.blake3 && node.digests.blake3 !== ours))) {
      throw new LocalError("damaged", `the server holds ${node.size} bytes with digest ${node.digests.blake3}, not ${ours}`);
    }
    return outcome;
  }

  /** begin makes the upload on the server, or finds the one to go on with. */
  async begin(signal: AbortSignal): Promise<void> {
    const { t } = this;
    const { waiter, env } = t.deps;
    if (!env.online()) await waiter.untilOnline(signal, (why) => t.told(why));
    let up: OpenUpload;
    if (t.attach) {
      up = await this.#fetch(t.attach, signal);
      this.found = true;
    } else {
      [up, this.found] = await this.#ask(signal);
      if (this.found && up.state !== "done") {
        // The reply may be older than the parts: of a retry, or of another client's upload.
        up = { challenge: up.challenge ?? null, ...(await this.#fetch(up.id, signal)) };
      }
    }
    if (up.size !== t.file.size) throw new LocalError("file-changed", `the upload is of ${up.size} bytes, the file has ${t.file.size}`);
    this.id = up.id;
    t.hooks.upload(up.id);
    this.shared = this.found && up.state === "active";
    if (this.shared) this.order = "last";
    this.#layOut(up);
    this.told = up.conflict ?? null;
    if (this.told) await this.tell(up.state, signal);
    await this.take(up, signal);
  }

  /**
   * tell makes the upload do what this transfer was told about a name that is taken. A replace then means the version that is there
   * now, before more is sent. Where an earlier visit was told the same nothing changes: nobody has seen what has come since, and it is
   * not overwritten.
   */
  async tell(state: OpenUpload["state"], signal: AbortSignal): Promise<void> {
    const { conflict, deps } = this.t;
    if (!conflict || conflict === this.told || (state !== "active" && state !== "parked")) return;
    try {
      await deps.api.amend(this.uploadId, { conflict }, this.t.scope(signal));
      this.told = conflict;
    } catch (err) {
      if (isProblem(err, "not-found", "gone")) throw new BeginAnew();
      if (!isProblem(err, "parent-gone", "state")) throw err; // the seal says so, too
    }
  }

  /**
   * overtaken deals with a version that has come since the replace was asked for: it is not overwritten. From now on the upload means
   * that version, of which the user is told: who tries again replaces it.
   */
  async overtaken(err: unknown, signal: AbortSignal): Promise<never> {
    if (this.told === "replace") {
      try {
        await this.t.deps.api.amend(this.uploadId, { conflict: "replace" }, this.t.scope(signal));
      } catch (other) {
        if (!isProblem(other)) throw other; // else the next try says so once more
      }
    }
    throw err;
  }

  /** ask makes the upload or finds the open one; conflicts are decided on the way. */
  async #ask(signal: AbortSignal): Promise<[OpenUpload, boolean]> {
    const { t } = this;
    const { file } = t;
    const fingerprint = await t.deps.hasher.fingerprint(file, signal);
    for (;;) {
      try {
        const a = await t.deps.api.begin(
          {
            path: t.path,
            size: file.size,
            fingerprint,
            parents: true,
            conflict: t.conflict ?? "fail",
            mtime: new Date(file.lastModified).toISOString(),
            ...(file.type && { mime: file.type }),
            ...(t.partSize && { part_size: t.partSize }),
            ...(t.digests && { digests: t.digests }),
          },
          t.scope(signal),
        );
        this.claimed = t.digests !== null && a.status === 201;
        return [a.value, a.status === 200 || a.doubt];
      } catch (err) {
        await this.taken(err, signal);
      }
    }
  }

  /** taken deals with a name that is taken, and throws every other error. */
  async taken(err: unknown, signal: AbortSignal): Promise<void> {
    if (!isProblem(err, "name-taken")) throw err;
    const node = await this.t.found(signal);
    if (node) {
      await this.#withdraw(signal);
      throw new Ended({ kind: "done", node });
    }
    if ((await this.t.decide(err, signal)) !== null) {
      if (this.id) await this.tell("active", signal);
      return;
    }
    await this.#withdraw(signal);
    throw new Ended({ kind: "skipped" });
  }

  /** cancel takes the upload back on the server. */
  async cancel(signal: AbortSignal): Promise<void> {
    const id = this.id ?? this.t.attach;
    if (id) await this.t.deps.api.cancel(id, this.t.scope(signal));
  }

  /** withdraw takes the upload back as a courtesy: another tab may just have ended it, and the server clears up by itself. */
  async #withdraw(signal: AbortSignal): Promise<void> {
    try {
      await this.cancel(signal);
    } catch (err) {
      if (!isProblem(err)) throw err;
    }
  }

  #layOut(up: OpenUpload): void {
    const { size } = this.t.file;
    this.partSize = up.part_size;
    this.board = new Board(Math.ceil(size / up.part_size), up.received);
    const unsure = this.board.in("unsure");
    const step = unsure.length * up.part_size <= checkedFirst ? 1 : Math.max(1, Math.floor(unsure.length / spread));
    this.first = unsure.filter((_, i) => i % step === 0);
  }

  async #fetch(id: string, signal: AbortSignal): Promise<OpenUpload> {
    try {
      return await this.t.deps.api.upload(id, this.t.scope(signal));
    } catch (err) {
      if (isProblem(err, "not-found", "gone")) throw new BeginAnew();
      throw err;
    }
  }

  /** take answers the challenge in a reply to begin or claim, and says what the reply means. */
  async take(up: OpenUpload, signal: AbortSignal): Promise<void> {
    if (up.challenge && up.state !== "done") {
      const { api, hasher } = this.t.deps;
      const answer = await hasher.answer(this.t.file, up.challenge, signal);
      try {
        const proved = await api.prove(this.uploadId, "blake3", answer, this.t.scope(signal));
        if (proved.state === "done") up = proved;
      } catch (err) {
        if (!isProblem(err)) throw err;
        up = await this.#fetch(this.uploadId, signal); // refused; but a reply that was lost may have said yes
      }
    }
    this.judge(up);
  }

  /** judge throws when a state ends the sending. */
  judge(up: OpenUpload): void {
    switch (up.state) {
      case "done":
        if (!up.node) throw new LocalError("deleted", "the file was sent, but it has been deleted since");
        // Done before all was sent, and nobody else sends: the server had the content.
        throw new Ended({ kind: this.board.complete || this.shared ? "done" : "instant", node: up.node });
      case "sealing":
        throw new Sealing();
      case "gone":
        throw new BeginAnew();
    }
  }

  /** follow asks where the upload stands, after a reply that did not fit, and notes what has arrived. */
  async follow(signal: AbortSignal): Promise<void> {
    const before = this.board.in("there");
    const up = await this.#fetch(this.uploadId, signal);
    this.judge(up);
    const there = new Set(numbers(up.received, this.board.count));
    for (const n of there) {
      if (this.board.differs(n)) continue; // it is still to be dropped
      const at = this.board.at(n);
      if (at === "missing" || (at === "sending" && !this.t.flying.has(n))) {
        this.server.delete(n);
        this.board.set(n, "unsure");
      }
    }
    for (const n of before) if (!there.has(n)) this.board.lose(n);
  }

  /** again goes on with an upload that is known: after a pause, or something mended. */
  async again(signal: AbortSignal): Promise<void> {
    for (const n of this.board.in("sending")) this.board.lose(n);
    await this.follow(signal);
  }
}
