type Place = "missing" | "sending" | "unsure" | "there";

/** Order says which of the missing parts is taken. */
export type Order = "first" | "last" | "any";

/** Span is a range of part numbers, both ends included. */
export type Span = readonly [number, number];

/**
 * Board says where each part of an upload is. Senders take parts from it; unsure ones are settled by comparing them.
 *
 * ```
 * missing ──take──► sending ──set──► there
 *    ▲                 │ set           ▲
 *    ├─────────────────┘               │ set(there)
 *    └───── lose(differs) ── unsure ───┘
 * ```
 */
export class Board {
  readonly count: number;
  #parts: Place[];
  #differs = new Set<number>();
  #counts: Record<Place, number>;
  #first = 0; // none before it is missing
  #last: number; // none after it is missing
  #wake = new Set<() => void>();

  constructor(count: number, received: readonly Span[]) {
    this.count = count;
    this.#last = count - 1;
    this.#parts = new Array<Place>(count).fill("missing");
    this.#counts = { missing: count, sending: 0, unsure: 0, there: 0 };
    for (const n of numbers(received, count)) this.#put(n, "unsure");
  }

  at(n: number): Place {
    return this.#parts[n] ?? "missing";
  }

  /** differs reports that the server holds other bytes under this number, which are to be dropped first. */
  differs(n: number): boolean {
    return this.#differs.has(n);
  }

  /** differ notes that it does, or that they are dropped. */
  differ(n: number, so: boolean): void {
    if (so) this.#differs.add(n);
    else this.#differs.delete(n);
  }

  get complete(): boolean {
    return this.#counts.there === this.count;
  }

  /** how many parts are in a place */
  many(place: Place): number {
    return this.#counts[place];
  }

  /** take hands out a missing part; undefined when none is missing just now. */
  take(order: Order, random: () => number): number | undefined {
    if (this.#counts.missing === 0) return undefined;
    while (this.#parts[this.#first] !== "missing") this.#first++;
    while (this.#parts[this.#last] !== "missing") this.#last--;
    let n = order === "last" ? this.#last : this.#first;
    if (order === "any") {
      n += Math.floor(random() * (this.#last - this.#first + 1));
      while (this.#parts[n] !== "missing") n++; // the last one is
    }
    this.#put(n, "sending");
    return n;
  }

  /** set puts a part somewhere. */
  set(n: number, to: Place): void {
    if (n < 0 || n >= this.count || this.#parts[n] === to) return;
    if (to === "there") this.differ(n, false);
    if (to === "missing") {
      this.#first = Math.min(this.#first, n);
      this.#last = Math.max(this.#last, n);
    }
    this.#put(n, to);
    this.rouse();
  }

  #put(n: number, to: Place): void {
    this.#counts[this.at(n)]--;
    this.#counts[to]++;
    this.#parts[n] = to;
  }

  /** lose notes that a part is missing after all; differs: the server holds something else. */
  lose(n: number, differs = false): void {
    if (differs) this.differ(n, true);
    this.set(n, "missing");
  }

  /** in lists the parts in a place. */
  in(place: Place): number[] {
    const list: number[] = [];
    this.#parts.forEach((at, n) => at === place && list.push(n));
    return list;
  }

  /** until resolves as soon as what is asked is so; it asks after every change. */
  until(so: () => boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (!signal.aborted && !so()) return;
        this.#wake.delete(look);
        signal.removeEventListener("abort", look);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      };
      this.#wake.add(look);
      signal.addEventListener("abort", look);
      look();
    });
  }

  /** rouse makes everybody who waits look again. */
  rouse(): void {
    for (const look of [...this.#wake]) look();
  }
}

/** numbers yields the part numbers of spans that are below count. */
export function* numbers(spans: readonly Span[], count: number): Generator<number> {
  for (const [first, last] of spans) {
    for (let n = Math.max(0, first); n <= last && n < count; n++) yield n;
  }
}
