/** Emitter is a typed list of listeners. What a listener throws is reported and stops nobody. */
export class Emitter<E extends object> {
  #listeners = new Map<keyof E, Set<(event: never) => void>>();

  /** on adds a listener and returns how to remove it. */
  on<K extends keyof E>(name: K, fn: (event: E[K]) => void): () => void {
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set);
    set.add(fn);
    return () => set.delete(fn);
  }

  protected emit<K extends keyof E>(name: K, event: E[K]): void {
    for (const fn of this.#listeners.get(name) ?? []) {
      try {
        (fn as (event: E[K]) => void)(event);
      } catch (err) {
        queueMicrotask(() => {
          throw err;
        });
      }
    }
  }
}
