import { type Api, type BatchLine, type Scope, randomKey } from "./api.ts";
import { CutError, ProxyError, isProblem } from "./problem.ts";
import type { Waiter } from "./retry.ts";
import type { Slots } from "./slots.ts";
import type { Task, Together } from "./task.ts";
import type { Node, WaitReason } from "./types.ts";

/** bytes: a file up to this goes with others */
export const batchedFile = 256 << 10;

const mostItems = 250; // of one request: their answers fit into what a server keeps for who does not read
const mostBytes = 4 << 20; // of one request
const leastBytes = 256 << 10; // what is in between takes no more than this: then files go one by one
const lanes = 3; // requests at once, so that the line is never idle
const readers = 4; // files that are read at once: each takes memory of the browser's that it has little of
const mostTries = 3; // that settle nothing: then each file finds out for itself

/** how many small files may be under way, so that the requests are full */
export const batchedAtOnce = (lanes + 1) * mostItems;

interface Entry {
  task: Task;
  digests: Record<string, string>;
  end(node: Node | null): void;
  fail(err: unknown): void;
  /** it has its answer, or is no longer wanted */
  over: boolean;
  /** told when that comes about */
  told?: () => void;
}

interface Line {
  n: number;
  head: string;
  entry: Entry;
}

/**
 * Batcher sends small files many in one request (docs/formats/batch.md of SmartDrive). It waits for nothing: a request takes what is
 * there, so the more files wait for a free slot, the more go together, and a file that comes alone goes alone.
 *
 * What a batch does not settle is sent alone, which also tells what is wrong with it.
 */
export class Batcher implements Together {
  #queue: Entry[] = [];
  #coming = 0; // files that are read for their digests, or are to be
  #reading = 0;
  #readNext: (() => void)[] = [];
  #lanes = new Set<Promise<void>>();
  #most = mostBytes;
  #able = true;

  constructor(
    readonly api: Api,
    readonly slots: Slots,
    readonly waiter: Waiter,
    /** ends everything */
    readonly closed: AbortSignal,
  ) {}

  /** able: neither the server nor what is in between has refused batches. */
  get able(): boolean {
    return this.#able;
  }

  /** takes reports whether a file goes with others: a batch is of one's own drive. */
  takes(size: number, path: string): boolean {
    return this.#able && size <= batchedFile && !path.startsWith("//");
  }

  /** put resolves with the file's node, or null: it is to be sent alone. It rejects with the problem that the server has with the file. */
  async put(task: Task, signal: AbortSignal): Promise<Node | null> {
    this.#coming++;
    const digests = await this.#read(task, signal).finally(() => this.#coming--);
    signal.throwIfAborted();
    return new Promise<Node | null>((resolve, reject) => {
      const settle = (then: () => void) => {
        if (entry.over) return;
        entry.over = true;
        signal.removeEventListener("abort", gone);
        then();
        entry.told?.();
      };
      const entry: Entry = {
        task,
        digests,
        over: false,
        end: (node) => settle(() => resolve(node)),
        fail: (err) => settle(() => reject(err)),
      };
      const gone = () => entry.fail(signal.reason);
      signal.addEventListener("abort", gone, { once: true });
      this.#queue.push(entry);
      this.#fill();
    });
  }

  async #read(task: Task, signal: AbortSignal): Promise<Record<string, string>> {
    if (this.#reading < readers) this.#reading++;
    else await new Promise<void>((resolve) => this.#readNext.push(resolve));
    try {
      return (await task.digest(signal)) as Record<string, string>;
    } finally {
      const next = this.#readNext.shift();
      if (next) next();
      else this.#reading--;
    }
  }

  #fill(): void {
    while (this.#lanes.size < lanes && this.#lanes.size < this.#queue.length) {
      const lane: Promise<void> = this.#lane().finally(() => {
        this.#lanes.delete(lane);
        this.#fill();
      });
      this.#lanes.add(lane);
    }
  }

  /** rest resolves when no request is under way, after closed. */
  async rest(): Promise<void> {
    await Promise.all(this.#lanes);
  }

  async #lane(): Promise<void> {
    let release: () => void;
    try {
      release = await this.slots.acquire(0, this.closed);
    } catch (err) {
      for (const entry of this.#queue.splice(0)) entry.fail(err);
      return;
    }
    try {
      const batch = this.#take();
      if (!this.#able) return batch.forEach((entry) => entry.end(null));
      if (batch.length > 1 || this.#lanes.size > 1 || this.#coming > 0) return await this.#send(batch);
      release();
      batch[0]?.end(null); // nobody goes with it
    } finally {
      release();
    }
  }

  /** take takes what waits, as much as one request may have. */
  #take(): Entry[] {
    this.#queue = this.#queue.filter((entry) => !entry.over);
    let bytes = 0;
    let n = 0;
    while (n < Math.min(mostItems, this.#queue.length)) {
      bytes += this.#queue[n]!.task.file.size;
      if (n > 0 && bytes > this.#most) break;
      n++;
    }
    return this.#queue.splice(0, n);
  }

  async #send(batch: Entry[]): Promise<void> {
    const key = randomKey();
    let left = batch.map((entry, n) => ({ n, entry, head: headOf(n, entry) }));
    for (let failures = 0; ; ) {
      left = left.filter((line) => !line.entry.over);
      if (left.length === 0) return;
      const before = left.length;
      let err: unknown;
      try {
        err = await this.#attempt(left, key);
      } catch (thrown) {
        err = thrown;
      }
      left = left.filter((line) => !line.entry.over);
      for (const { entry } of left) entry.task.landed(0, false);
      if (left.length === 0) return;
      failures = left.length < before ? 1 : failures + 1;
      if (this.#refused(err) || failures >= mostTries) return left.forEach(({ entry }) => entry.end(null));
      this.slots.refused(err);
      try {
        await this.waiter.pause(err, failures, this.closed, (why, until) => tell(left, why, until));
      } catch (last) {
        return left.forEach(({ entry }) => entry.fail(last));
      }
    }
  }

  /** attempt sends what is left and settles what is answered. It returns why the rest is not. */
  async #attempt(left: Line[], key: string): Promise<unknown> {
    const stop = new AbortController();
    const told = () => left.every((line) => line.entry.over) && stop.abort(new CutError("nobody waits for it"));
    const scope: Scope = { signal: AbortSignal.any([this.closed, stop.signal]), told: (why, until) => tell(left, why, until) };
    for (const { entry } of left) {
      entry.told = told;
      entry.task.doubt = true;
      entry.task.hooks.stage({ kind: "sending" });
    }
    const body = new Blob(left.flatMap((line) => [line.head, line.entry.task.file]));
    const answers = this.api.batch(body, key, scope, passing(left));
    const ended = answers.then(
      () => {},
      () => {},
    );
    for (const { entry } of left) entry.task.inBatch = ended;
    return this.#settle(left, await answers);
  }

  #settle(left: Line[], answers: BatchLine[]): unknown {
    const byNumber = new Map(left.map((line) => [line.n, line.entry]));
    for (const { n, node, problem } of answers) {
      if (n === undefined) return problem ?? new CutError("the batch ended early");
      const entry = byNumber.get(n);
      if (!entry || entry.over) continue;
      entry.task.doubt = false;
      if (!node) {
        entry.task.landed(0, false);
        entry.fail(problem ?? new CutError("the answer to a file lacks it"));
        continue;
      }
      entry.task.progress(0, entry.task.file.size);
      entry.task.landed(0, true);
      this.slots.moved(requestWorth);
      entry.end(node);
    }
    return new CutError("the answer broke off");
  }

  /** refused reports that no batch, or none of this size, is taken: by the server, or by what is in between. */
  #refused(err: unknown): boolean {
    if (err instanceof ProxyError && err.status === 413 && this.#most > leastBytes) {
      this.#most /= 4;
      return true;
    }
    const never = err instanceof ProxyError && [404, 405, 413, 415, 501].includes(err.status);
    if (never || isProblem(err, "not-found", "method", "media-type")) this.#able = false;
    return !this.#able;
  }
}

/** bytes that an answer is worth: as of a small file that goes alone */
const requestWorth = 64 << 10;

function headOf(n: number, { task, digests }: Entry): string {
  const { file, path, conflict } = task;
  const item = {
    n, op: "put", path, size: file.size, parents: true, conflict: conflict === "replace" ? "replace" : "fail",
    mime: file.type || undefined, mtime: new Date(file.lastModified).toISOString(), digests,
  };
  return `${JSON.stringify(item)}\n`;
}

/** passing tells each file as its bytes go out. */
function passing(left: Line[]): (sent: number) => void {
  let at = 0;
  let end = 0; // of the file before, in the body
  return (sent) => {
    for (let line; (line = left[at]); at++) {
      const next = end + line.head.length + line.entry.task.file.size;
      if (next > sent) return;
      end = next;
      if (!line.entry.over) line.entry.task.progress(0, line.entry.task.file.size);
    }
  };
}

function tell(left: Line[], why: WaitReason, until?: number): void {
  for (const { entry } of left) if (!entry.over) entry.task.told(why, until);
}
