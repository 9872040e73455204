import type { Item } from "./item.ts";
import { Queue } from "./queue.ts";

const largeAtOnce = 2; // one fills the line, the next is ready when it ends

/**
 * Schedule starts items: a few large ones at once, as many small ones as there may be requests, and of those that go many in one
 * request as many as fill them.
 */
export class Schedule {
  readonly running = new Set<Item>();
  #tiny = new Queue();
  #small = new Queue();
  #large = new Queue();
  #tinyRunning = 0;
  #largeRunning = 0;
  #planned = false;

  constructor(
    /** bytes up to which a file is a small one */
    readonly smallFile: number,
    readonly slots: () => number,
    /** whether an item goes with others, and how many of those at once */
    readonly tiny: { is(item: Item): boolean; most(): number },
    /** told when everything was started that may be */
    readonly told: () => void,
  ) {}

  /** idle: nothing runs, nothing waits for its turn. */
  get idle(): boolean {
    return this.running.size === 0 && this.#tiny.size === 0 && this.#small.size === 0 && this.#large.size === 0 && !this.#planned;
  }

  push(item: Item): void {
    this.drop(item);
    this.#queueOf(item).push(item);
    this.#plan();
  }

  /** drop takes an item out of the queue and reports whether it was in. */
  drop(item: Item): boolean {
    return [this.#tiny, this.#small, this.#large].some((queue) => queue.remove(item));
  }

  #queueOf(item: Item): Queue {
    if (item.size > this.smallFile) return this.#large;
    return this.tiny.is(item) ? this.#tiny : this.#small;
  }

  /** plan starts what may be started, once for all that was asked in this turn. */
  #plan(): void {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      this.#fill();
      this.told();
    });
  }

  #fill(): void {
    while (this.#largeRunning < largeAtOnce) {
      const item = this.#large.shift();
      if (!item) break;
      this.#largeRunning++;
      this.#start(item, () => this.#largeRunning--);
    }
    while (this.#tinyRunning < this.tiny.most()) {
      const item = this.#tiny.shift();
      if (!item) break;
      this.#tinyRunning++;
      this.#start(item, () => this.#tinyRunning--);
    }
    // One more than there are slots, so that the next is ready when a slot gets free.
    while (this.running.size - this.#largeRunning - this.#tinyRunning <= this.slots()) {
      const item = this.#small.shift() ?? (this.tiny.most() === 0 ? this.#tiny.shift() : undefined);
      if (!item) break;
      this.#start(item, () => {});
    }
  }

  #start(item: Item, ended: () => void): void {
    this.running.add(item);
    const end = () => {
      ended();
      this.running.delete(item);
      this.#plan();
    };
    item.start().then(end, end);
  }
}
