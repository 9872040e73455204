/** Rate is a moving average of bytes per second over about the last five seconds. */
export class Rate {
  #rate = 0;
  #mark: number;
  #bytes = 0;

  constructor(now: number) {
    this.#mark = now;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  /** at returns the rate at a moment; a window is closed when it is long enough. */
  at(now: number): number {
    const seconds = (now - this.#mark) / 1000;
    if (seconds < 0.5) return this.#rate;
    const sample = Math.max(0, this.#bytes) / seconds;
    const keep = this.#rate > 0 ? Math.exp(-seconds / 5) : 0;
    this.#rate = keep * this.#rate + (1 - keep) * sample;
    this.#mark = now;
    this.#bytes = 0;
    return this.#rate;
  }

  /** rest starts anew after a pause, which is no slowness. */
  rest(now: number): void {
    this.#mark = now;
    this.#bytes = 0;
  }
}

/** eta returns the seconds until left bytes are sent, null while that cannot be known. */
export function eta(left: number, rate: number): number | null {
  return rate > 0 ? Math.max(0, left) / rate : null;
}
