import { LocalError, judge } from "./problem.ts";
import type { Surroundings } from "./surroundings.ts";
import type { WaitReason } from "./types.ts";

const firstPause = 500; // ms: the ceiling of the first pause
const longestPause = 15_000; // ms: a server that comes back is found soon
const leastTries = 3; // so that one slow attempt does not use patience up

/** Waiter paces attempts: exponential back-off with full jitter, what the server asked for, and the browser's being offline. */
export class Waiter {
  #last: number; // when something succeeded
  #trouble = false; // something has failed since
  #waking = new Set<() => void>();
  #stop: () => void;

  constructor(
    readonly env: Surroundings,
    /** ms without success, while online, after which to give up */
    readonly giveUp: number,
  ) {
    this.#last = env.now();
    this.#stop = env.onOnline((online) => online && this.wake());
  }

  close(): void {
    this.#stop();
  }

  /** touch notes that something went well. */
  touch(): void {
    this.#last = this.env.now();
    this.#trouble = false;
  }

  /** looked notes that a look at the server went well: after a failure that is no success yet, for what failed may never get through. */
  looked(): void {
    if (!this.#trouble) this.touch();
  }

  /** wake ends all pauses at once: the network is back, or a person asked. */
  wake(): void {
    this.touch();
    for (const fn of this.#waking) fn();
  }

  /**
   * pause waits before the next attempt and throws err when there is to be none. failures counts those so far; told hears why it
   * waits and until when (on the clock of env).
   */
  async pause(err: unknown, failures: number, signal: AbortSignal, told: (why: WaitReason, until?: number) => void): Promise<void> {
    signal.throwIfAborted();
    const v = judge(err);
    if (!v.again || (v.limited && failures >= leastTries)) throw err;
    if (!this.env.online()) return this.untilOnline(signal, told);
    this.#trouble = true;
    const ceiling = Math.min(longestPause, firstPause * 2 ** Math.min(failures - 1, 16));
    const wait = v.wait > 0 ? v.wait * (1 + this.env.random() / 10) : this.env.random() * ceiling;
    if (failures >= leastTries && this.env.now() + wait - this.#last > this.giveUp) {
      throw new LocalError("gave-up", `nothing has succeeded for ${Math.round(this.giveUp / 60_000)} minutes: ${String((err as Error).message)}`, { cause: err });
    }
    told("retry", this.env.now() + wait);
    // The server's own word is kept even when the network comes back meanwhile.
    await this.#sleep(wait, signal, v.wait === 0);
  }

  /** untilOnline waits for the network; it costs no patience. */
  async untilOnline(signal: AbortSignal, told: (why: WaitReason) => void): Promise<void> {
    while (!this.env.online()) {
      told("offline");
      await this.#sleep(30_000, signal, true);
      this.touch();
    }
    // Not everybody at the same moment.
    await this.env.sleep(this.env.random() * 300, signal);
  }

  async #sleep(ms: number, signal: AbortSignal, wakeable: boolean): Promise<void> {
    const early = new AbortController();
    const wake = () => early.abort();
    if (wakeable) this.#waking.add(wake);
    try {
      await this.env.sleep(ms, AbortSignal.any([signal, early.signal]));
    } catch (err) {
      if (signal.aborted) throw signal.reason;
      if (!early.signal.aborted) throw err;
    } finally {
      this.#waking.delete(wake);
    }
  }
}

/** retryAfter reads Retry-After in its two forms (RFC 9110 §10.2.3), in ms. */
export function retryAfter(value: string | null): number {
  if (!value) return 0;
  if (/^\d+$/.test(value)) return Math.min(Number(value), 24 * 3600) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? 0 : Math.max(0, at - Date.now());
}
