import type { Api, Scope } from "./api.ts";
import { Flight } from "./flight.ts";
import type { Check, Hasher } from "./hash/hasher.ts";
import { LocalError, ProxyError, isProblem } from "./problem.ts";
import type { Waiter } from "./retry.ts";
import type { Slots } from "./slots.ts";
import { putSmall } from "./small.ts";
import { unless } from "./together.ts";
import type { Surroundings } from "./surroundings.ts";
import type { Conflict, ConflictAnswer, Digests, Node, WaitReason } from "./types.ts";

/** Deps are what all transfers of an uploader share. */
export interface Deps {
  api: Api;
  hasher: Hasher;
  slots: Slots;
  waiter: Waiter;
  env: Surroundings;
  smallFile: number;
  partSize: number | undefined;
  check: Check;
  md5: boolean;
  lookUp: boolean;
}

/** Outcome is how a transfer ends well. */
export type Outcome = { kind: "done" | "instant"; node: Node } | { kind: "skipped"; node?: Node };

/** Stage is what a transfer is doing. */
export type Stage = { kind: "hashing" | "sending" | "verifying" } | { kind: "waiting"; why: WaitReason; until?: number };

/** Hooks tell the owner of a transfer. */
export interface Hooks {
  stage(s: Stage): void;
  /** bytes went out, or were taken back */
  moved(bytes: number): void;
  /** the upload has an id, or no longer */
  upload(id: string | null): void;
  /** a name is taken; null: nobody decides */
  ask(signal: AbortSignal): Promise<ConflictAnswer | null>;
}

/** BeginAnew says that the upload is gone from the server. */
export class BeginAnew extends Error {}

const leastPart = 1 << 20; // bytes: the server takes none below, but the last
const mostRounds = 5; // bounds what nothing explains: uploads that vanish again and again

/** Transfer is one file on its way. It may be run again after it was stopped or has failed: it goes on from where it was. */
export class Transfer {
  flight: Flight | null = null;
  /** of the last run: the file is not the one that the server has parts of, so the next run begins anew */
  changed = false;
  /** bytes that went over the wire */
  sent = 0;
  /** bytes that are on their way, by part; a small file is part 0 */
  readonly flying = new Map<number, number>();
  digests: Digests | null = null;
  /** bytes of a part to ask for */
  partSize: number | undefined;
  /** a small file went out and there was no answer: it may be there */
  doubt = false;
  #small = 0; // bytes of a small file that is there

  constructor(
    readonly deps: Deps,
    readonly file: File,
    readonly path: string,
    public conflict: Conflict | null,
    /** id of an open upload to go on with, whatever its fingerprint */
    public attach: string | null,
    readonly priority: () => number,
    readonly hooks: Hooks,
  ) {
    this.partSize = deps.partSize;
  }

  /** bytes of the file that are there or on their way */
  get bytes(): number {
    let n = this.flight?.have ?? this.#small;
    for (const part of this.flying.values()) n += part;
    return Math.min(n, this.file.size);
  }

  /** run sends the file; signal stops it, so that a later run goes on. */
  async run(signal: AbortSignal): Promise<Outcome> {
    const { smallFile, lookUp } = this.deps;
    if (!this.flight && !this.attach && lookUp && this.file.size <= smallFile) {
      const outcome = await putSmall(this, signal);
      if (outcome) return this.#end(outcome);
    }
    for (let round = 1; ; round++) {
      const flight = (this.flight ??= new Flight(this));
      try {
        if (this.changed) await this.#startOver(flight, signal);
        return this.#end(await flight.run(signal));
      } catch (err) {
        if (err instanceof LocalError && err.code === "file-changed") this.changed = true;
        if (err instanceof LocalError && (err.code === "damaged" || err.code === "deleted")) this.forget(); // a retry begins anew
        if (err instanceof ProxyError && err.status === 413 && (await this.#smaller(flight, signal))) continue;
        if (!(err instanceof BeginAnew) || round === mostRounds) throw err;
        this.forget();
      }
    }
  }

  /** smaller begins anew with parts that what is in between may let pass: nginx takes 1 MiB unless it is told otherwise. */
  async #smaller(flight: Flight, signal: AbortSignal): Promise<boolean> {
    if (flight.partSize <= leastPart || flight.board.many("there") > 0) return false;
    await this.cancel(signal);
    this.partSize = leastPart;
    this.forget();
    return true;
  }

  #end(outcome: Outcome): Outcome {
    this.#small = this.file.size;
    return outcome;
  }

  /** forget drops what is known of the upload, which is gone. */
  forget(): void {
    this.flight = null;
    this.attach = null;
    this.hooks.upload(null);
  }

  async #startOver(flight: Flight, signal: AbortSignal): Promise<never> {
    this.changed = false;
    this.digests = null;
    const id = flight.id ?? this.attach;
    if (id) await this.deps.api.cancel(id, this.scope(signal));
    throw new BeginAnew();
  }

  /** cancel takes the upload back on the server. */
  async cancel(signal: AbortSignal): Promise<void> {
    const id = this.flight?.id ?? this.attach;
    if (id) await this.deps.api.cancel(id, this.scope(signal));
  }

  scope(signal: AbortSignal): Scope {
    return { signal, told: (why, until) => this.told(why, until) };
  }

  /** told passes on why something waits, if everything waits. */
  told(why: WaitReason, until?: number): void {
    if (this.flying.size > 0) return;
    this.hooks.stage(until === undefined ? { kind: "waiting", why } : { kind: "waiting", why, until });
  }

  /** progress notes how much of a part is out. */
  progress(n: number, bytes: number): void {
    const before = this.flying.get(n) ?? 0;
    this.flying.set(n, bytes);
    if (bytes > before) {
      this.sent += bytes - before;
      this.deps.slots.moved(bytes - before);
      this.hooks.stage({ kind: "sending" });
    }
    this.hooks.moved(bytes - before);
  }

  /** landed notes that a part is no longer on its way. */
  landed(n: number, there: boolean): void {
    const out = this.flying.get(n) ?? 0;
    this.flying.delete(n);
    if (!there) this.hooks.moved(-out);
  }

  /** digest is the file's, read now if it is not known yet. */
  async digest(signal: AbortSignal): Promise<Digests> {
    const { hasher, check, md5 } = this.deps;
    this.digests ??= await hasher.scan(this.file, { partSize: 1 << 30, check, crc32: false, md5 }, () => {}, signal);
    return this.digests;
  }

  /** found returns what is at the path if it has the same content: after a lost reply, or a name that is taken. */
  async found(signal: AbortSignal): Promise<Node | null> {
    if (!this.deps.lookUp) return null;
    const node = await this.deps.api.nodeAt(this.path, this.scope(signal));
    if (node?.type !== "file" || node.size !== this.file.size || !node.digests.blake3) return null;
    return node.digests.blake3 === (await this.digest(signal)).blake3 ? node : null;
  }

  /** decide asks what to do about a name that is taken; null is: skip the file. It throws taken when nobody decides. */
  async decide(taken: unknown, signal: AbortSignal): Promise<Conflict | null> {
    if (this.conflict || !isProblem(taken, "name-taken")) throw taken;
    this.hooks.stage({ kind: "waiting", why: "conflict" });
    const answer = await unless(signal, this.hooks.ask(signal));
    if (!answer) throw taken;
    this.conflict = answer.action === "skip" ? null : answer.action;
    return this.conflict;
  }
}
