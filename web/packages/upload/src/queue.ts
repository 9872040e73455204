import type { Item } from "./item.ts";

/** Queue holds the items that wait for their turn: the highest priority first, then the first come. */
export class Queue {
  #items: Item[] = [];
  #in = new Set<Item>();

  get size(): number {
    return this.#items.length;
  }

  push(item: Item): void {
    this.#in.add(item);
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#items[middle]!.priority >= item.priority) low = middle + 1;
      else high = middle;
    }
    this.#items.splice(low, 0, item);
  }

  shift(): Item | undefined {
    const item = this.#items.shift();
    if (item) this.#in.delete(item);
    return item;
  }

  remove(item: Item): boolean {
    if (!this.#in.delete(item)) return false;
    this.#items.splice(this.#items.indexOf(item), 1);
    return true;
  }
}
