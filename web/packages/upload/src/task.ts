import type { Api, Scope } from "./api.ts";
import type { Check, Hasher } from "./hash/hasher.ts";
import { isProblem } from "./problem.ts";
import type { Waiter } from "./retry.ts";
import type { Slots } from "./slots.ts";
import type { Surroundings } from "./surroundings.ts";
import { unless } from "./together.ts";
import type { Conflict, ConflictAnswer, Digests, Node, WaitReason } from "./types.ts";

/** Together sends small files with others. */
export interface Together {
  takes(size: number, path: string): boolean;
  put(task: Task, signal: AbortSignal): Promise<Node | null>;
  /** resolves when nothing is under way, after the uploader was closed */
  rest(): Promise<void>;
}

/** Deps are what all transfers of an uploader share. */
export interface Deps {
  api: Api;
  hasher: Hasher;
  slots: Slots;
  waiter: Waiter;
  /** null: files do not go together */
  batcher: Together | null;
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

/** Task is a file that is to be sent to a place, and what is known of both. A transfer carries it out, in one request or by a flight. */
export class Task {
  /** bytes that went over the wire */
  sent = 0;
  /** bytes that are on their way, by part; a small file is part 0 */
  readonly flying = new Map<number, number>();
  digests: Digests | null = null;
  /** bytes of a part to ask for */
  partSize: number | undefined;
  /** a small file went out and there was no answer: it may be there */
  doubt = false;
  /** resolves when the batch has ended that it went in: others may have kept it under way after this one was stopped */
  inBatch: Promise<void> | null = null;

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
