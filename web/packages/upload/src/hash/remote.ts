import { LocalError } from "../problem.ts";
import type { Challenge, Digests } from "../types.ts";
import type { Check, Hasher, ScanOptions, Sums } from "./hasher.ts";
import { localHasher } from "./local.ts";

/** ToWorker is what the page asks. Files are passed by reference, not copied. */
export type ToWorker = { id: number } & (
  | { op: "fingerprint"; file: File }
  | { op: "scan"; file: Blob; options: ScanOptions }
  | { op: "sums"; part: Blob; check: Check }
  | { op: "answer"; file: Blob; challenge: Challenge }
  | { op: "stop" }
);

/** FromWorker is what comes back: any number of parts, then value or error. */
export type FromWorker =
  | { id: number; part: number; sums: Sums }
  | { id: number; value: unknown }
  | { id: number; error: { code: LocalError["code"]; text: string } };

type Ask = ToWorker extends infer T ? (T extends { id: number } ? Omit<T, "id"> : never) : never;

interface Job {
  ask: Ask;
  resolve(v: unknown): void;
  reject(err: unknown): void;
  onPart?: (n: number, sums: Sums) => void;
}

/** RemoteHasher hashes in a worker. Where that cannot be started (an old browser, a policy) it hashes on the page. */
export class RemoteHasher implements Hasher {
  #worker: Worker | null = null;
  #jobs = new Map<number, Job>();
  #next = 1;
  #broken = false;
  #spoke = false; // the worker has answered once: an error later is one of a job

  constructor(readonly spawn: () => Worker) {}

  fingerprint(file: File, signal: AbortSignal): Promise<string> {
    return this.#ask({ op: "fingerprint", file }, signal, () => localHasher.fingerprint(file, signal));
  }

  scan(file: Blob, options: ScanOptions, onPart: (n: number, sums: Sums) => void, signal: AbortSignal): Promise<Digests> {
    return this.#ask({ op: "scan", file, options }, signal, () => localHasher.scan(file, options, onPart, signal), onPart);
  }

  sums(part: Blob, check: Check, signal: AbortSignal): Promise<Sums> {
    return this.#ask({ op: "sums", part, check }, signal, () => localHasher.sums(part, check, signal));
  }

  answer(file: Blob, challenge: Challenge, signal: AbortSignal): Promise<string> {
    return this.#ask({ op: "answer", file, challenge }, signal, () => localHasher.answer(file, challenge, signal));
  }

  close(): void {
    this.#worker?.terminate();
    this.#worker = null;
    for (const job of this.#jobs.values()) job.reject(new LocalError("internal", "closed"));
    this.#jobs.clear();
  }

  async #ask<T>(ask: Ask, signal: AbortSignal, here: () => Promise<T>, onPart?: Job["onPart"]): Promise<T> {
    signal.throwIfAborted();
    const worker = this.#start();
    if (!worker) return here();
    const id = this.#next++;
    const stop = () => {
      this.#jobs.get(id)?.reject(signal.reason);
      this.#jobs.delete(id);
      worker.postMessage({ id, op: "stop" } satisfies ToWorker);
    };
    signal.addEventListener("abort", stop, { once: true });
    try {
      return await new Promise<T>((resolve, reject) => {
        this.#jobs.set(id, { ask, resolve: resolve as (v: unknown) => void, reject, ...(onPart && { onPart }) });
        worker.postMessage({ ...ask, id } as ToWorker);
      });
    } catch (err) {
      if (err === noWorker) return await here();
      throw err;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  #start(): Worker | null {
    if (this.#worker || this.#broken) return this.#worker;
    try {
      const worker = this.spawn();
      worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#hear(data);
      worker.onerror = () => this.#fail();
      this.#worker = worker;
    } catch {
      this.#broken = true;
    }
    return this.#worker;
  }

  #hear(m: FromWorker): void {
    this.#spoke = true;
    const job = this.#jobs.get(m.id);
    if (!job) return;
    if ("part" in m) return job.onPart?.(m.part, m.sums);
    this.#jobs.delete(m.id);
    if ("error" in m) job.reject(new LocalError(m.error.code, m.error.text));
    else job.resolve(m.value);
  }

  /** fail is called when the script did not load, or died. */
  #fail(): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#broken = !this.#spoke;
    const jobs = [...this.#jobs.values()];
    this.#jobs.clear();
    for (const job of jobs) job.reject(noWorker);
  }
}

/** noWorker makes a job begin again on the page. */
const noWorker = new LocalError("internal", "the worker did not start");

/** defaultHasher is a worker where there are workers. The URL's form is the one that bundlers know. */
export function defaultHasher(): Hasher {
  if (typeof Worker === "undefined") return localHasher;
  return new RemoteHasher(() => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }));
}
