import { LocalError, Problem, ProxyError, isProblem } from "./problem.ts";
import { Rate, eta } from "./meter.ts";
import type { Deps, Hooks, Outcome, Stage } from "./task.ts";
import { Transfer } from "./transfer.ts";
import { type Conflict, type ConflictAnswer, type ItemView, type State, finalKinds } from "./types.ts";

/** Owner is what an item tells. */
export interface Owner {
  deps: Deps;
  changed(item: Item, from: State): void;
  moved(item: Item, bytes: number): void;
  /** the server's id of the item's upload is known, or void */
  upload(item: Item, id: string | null): void;
  ask(item: Item, signal: AbortSignal): Promise<ConflictAnswer | null>;
}

/** Why a run is stopped. */
class Stopped extends Error {}

/** Item is one file in the queue. */
export class Item implements ItemView {
  path: string; // where it goes: another one after a rename
  uploadId: string | null = null;
  handle: FileSystemFileHandle | null = null;
  #state: State;
  #stage: Stage["kind"] = "sending";
  #transfer: Transfer | null = null;
  #rate: Rate;
  #stop: AbortController | null = null;
  #running: Promise<void> | null = null;
  #shown: number | null = null; // bytes of a parked upload

  constructor(
    readonly id: string,
    readonly owner: Owner,
    /** where it was asked to go */
    readonly target: string,
    readonly size: number,
    readonly conflict: Conflict | null,
    public priority: number,
    public file: File | null,
    state: State,
  ) {
    this.path = target;
    this.#rate = new Rate(owner.deps.env.now());
    this.#state = state;
    if (state.kind === "parked") this.#shown = state.bytes;
  }

  get name(): string {
    return this.path.slice(this.path.lastIndexOf("/") + 1);
  }

  get moved(): number {
    return this.#transfer?.sent ?? 0;
  }

  /** bytes that are there or on their way */
  get bytes(): number {
    if (this.#state.kind === "done" || this.#state.kind === "instant") return this.size;
    return this.#transfer?.bytes ?? this.#shown ?? 0;
  }

  /** state with the figures of this moment. */
  get state(): State {
    const { bytes } = this;
    switch (this.#state.kind) {
      case "hashing":
        return { kind: "hashing", bytes };
      case "sending": {
        const rate = this.#rate.at(this.owner.deps.env.now());
        return { kind: "sending", bytes, rate, eta: eta(this.size - bytes, rate) };
      }
      case "paused":
        return { kind: "paused", bytes };
    }
    return this.#state;
  }

  get kind(): State["kind"] {
    return this.#state.kind;
  }

  get running(): boolean {
    return this.#running !== null;
  }

  get final(): boolean {
    return finalKinds.has(this.#state.kind);
  }


  set(next: State): void {
    const from = this.#state;
    this.#state = next;
    if (from.kind !== next.kind || next.kind === "waiting") this.owner.changed(this, from);
  }

  /** give hands the item a file: the one that its upload was begun with, the user says. */
  give(file: File): void {
    this.file = file;
    this.#transfer = null;
  }

  /** start runs the item until it ends, fails or is stopped. */
  start(): Promise<void> {
    const stop = (this.#stop = new AbortController());
    this.#running = this.#run(stop.signal).finally(() => {
      this.#running = null;
      this.#stop = null;
    });
    return this.#running;
  }

  /** halt stops a running item and leaves it in a state. */
  async halt(state: State): Promise<void> {
    this.#stop?.abort(new Stopped());
    await this.#running;
    if (!this.final) this.set(state);
  }

  /** withdraw takes back what the server has of it. */
  async withdraw(signal: AbortSignal): Promise<void> {
    const { api } = this.owner.deps;
    const scope = { signal, told: () => {} };
    const id = this.uploadId;
    if (!id) return;
    try {
      await api.cancel(id, scope);
    } catch (err) {
      if (!isProblem(err, "state")) throw err;
      const up = await api.upload(id, scope); // too late: it is a file, or about to be
      if (up.node) this.set({ kind: "done", node: up.node });
      else throw err;
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    if (!this.file) throw new LocalError("internal", "an item without a file was started");
    this.#transfer ??= new Transfer(this.owner.deps, this.file, this.target, this.conflict, this.uploadId, () => this.priority, this.#hooks());
    this.#stage = "sending";
    this.#rate.rest(this.owner.deps.env.now());
    this.set({ kind: "sending", bytes: this.bytes, rate: 0, eta: null });
    try {
      this.#end(await this.#transfer.run(signal));
    } catch (err) {
      if (!signal.aborted) this.set(failure(err));
    }
  }

  #end(o: Outcome): void {
    if (o.kind !== "skipped") this.path = o.node.path || this.path;
    this.set(o);
  }

  #hooks(): Hooks {
    return {
      stage: (s) => this.#setStage(s),
      moved: (bytes) => {
        this.#rate.add(bytes);
        this.owner.moved(this, bytes);
      },
      upload: (id) => {
        this.uploadId = id;
        this.owner.upload(this, id);
      },
      ask: (signal) => this.owner.ask(this, signal),
    };
  }

  #setStage(s: Stage): void {
    if (this.#stop?.signal.aborted || (s.kind === this.#stage && s.kind !== "waiting")) return;
    this.#stage = s.kind;
    switch (s.kind) {
      case "waiting":
        return this.set(s);
      case "verifying":
        return this.set({ kind: "verifying" });
      case "hashing":
        return this.set({ kind: "hashing", bytes: this.bytes });
      case "sending":
        return this.set({ kind: "sending", bytes: this.bytes, rate: 0, eta: null });
    }
  }
}

/** failure says in a state what an error means for the user. */
export function failure(err: unknown): State {
  if (isProblem(err, "quota", "disk-full")) {
    const needed = err.number("needed");
    const available = err.number("available");
    const missing = needed === null || available === null ? null : Math.max(0, needed - available);
    const owed = err.number("owed");
    return { kind: "no-space", missing, of: err.code === "quota" ? "quota" : "disk", ...(owed !== null && { owed }) };
  }
  if (err instanceof Problem) return { kind: "failed", why: err.code, detail: err.detail, retryable: !lasting.has(err.code) };
  if (err instanceof LocalError) return { kind: "failed", why: err.code, detail: err.message, retryable: true };
  if (err instanceof ProxyError) return { kind: "failed", why: "proxy", detail: err.message, retryable: true };
  return { kind: "failed", why: "internal", detail: String(err), retryable: true };
}

/** lasting are the codes that the same request meets again. */
const lasting = new Set(["bad-name", "bad-request", "too-large", "forbidden", "media-type", "part-size"]);
