import { ProxyError, isProblem } from "./problem.ts";
import type { Surroundings } from "./surroundings.ts";

const window = 400; // ms at least that a rate is measured over
const start = 3; // requests at once before anything is known

interface Waiting {
  priority: number;
  go(): void;
}

/**
 * Slots bounds how many requests with bytes are on their way at once, over all files. The bound climbs while more requests bring
 * more bytes, goes back when they do not, and halves when the server or the line says that it is too much.
 */
export class Slots {
  #limit: number;
  #used = 0;
  #waiting: Waiting[] = [];
  #bytes = 0;
  #since: number;
  #full = false; // the bound was reached in this window
  #before = 0; // rate of the window before
  #up = true; // direction of the last move
  #held = 0; // until when nothing may be sent, on the clock of env
  #still = 0; // windows without a move

  constructor(
    readonly env: Surroundings,
    /** most slots there may be: depends on the protocol, which may become known later */
    readonly most: () => number,
  ) {
    this.#limit = Math.min(start, most());
    this.#since = env.now();
  }

  get limit(): number {
    return Math.min(this.#limit, this.most());
  }

  /** acquire waits for a slot; the higher the priority, the earlier. The caller calls what it returns once. */
  async acquire(priority: number, signal: AbortSignal): Promise<() => void> {
    for (let left: number; (left = this.#held - this.env.now()) > 0; ) await this.env.sleep(left, signal);
    signal.throwIfAborted();
    if (this.#used >= this.limit) {
      this.#full = true;
      await this.#wait(priority, signal);
    } else {
      this.#used++;
    }
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#used--;
      this.#next();
    };
  }

  #wait(priority: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const w: Waiting = {
        priority,
        go: () => {
          signal.removeEventListener("abort", abort);
          resolve();
        },
      };
      const abort = () => {
        this.#waiting.splice(this.#waiting.indexOf(w), 1);
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      const at = this.#waiting.findIndex((other) => other.priority < priority);
      this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, w);
    });
  }

  #next(): void {
    while (this.#used < this.limit) {
      const w = this.#waiting.shift();
      if (!w) return;
      this.#used++;
      w.go();
    }
  }

  /** moved counts bytes that went out. */
  moved(bytes: number): void {
    this.#bytes += bytes;
    const now = this.env.now();
    if (now - this.#since >= window) this.#judge(now);
  }

  #judge(now: number): void {
    const rate = this.#bytes / (now - this.#since);
    if (this.#full) {
      const gained = rate > this.#before * 1.05;
      const lost = rate < this.#before * 0.85;
      if (gained || lost || ++this.#still >= 8) {
        // A gain goes on in its direction; a loss turns round; long stillness tries one more.
        if (lost) this.#up = !this.#up;
        else if (!gained) this.#up = true;
        this.#limit = Math.max(1, Math.min(this.most(), this.#limit + (this.#up ? 1 : -1)));
        this.#still = 0;
      }
      this.#before = rate;
    }
    this.#bytes = 0;
    this.#since = now;
    this.#full = this.#waiting.length > 0;
    this.#next();
  }

  /** hold keeps everybody from sending for ms: the server asked for it. */
  hold(ms: number): void {
    this.#held = Math.max(this.#held, this.env.now() + ms);
  }

  /** refused notes an error of a request: too many at once make fewer, and a Retry-After of the server holds for everybody. */
  refused(err: unknown): void {
    if (isProblem(err, "rate", "unavailable", "stopping") || (err instanceof ProxyError && (err.status === 429 || err.status === 503))) {
      this.hold(err.retryAfter);
      this.#halve();
    }
  }

  #halve(): void {
    this.#limit = Math.max(1, Math.floor(this.limit / 2));
    this.#up = true;
    this.#before = 0;
  }
}
