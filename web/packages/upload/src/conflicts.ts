import type { ConflictAnswer, ConflictQuestion } from "./types.ts";

/** Conflicts asks one question at a time, and none after an answer for all. */
export class Conflicts {
  #forAll: ConflictAnswer | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(readonly onConflict: ((q: ConflictQuestion) => ConflictAnswer | Promise<ConflictAnswer>) | undefined) {}

  /** ask waits for its turn; null: nobody is there to ask, or the signal ended while waiting. */
  ask(q: ConflictQuestion, signal: AbortSignal): Promise<ConflictAnswer | null> {
    const { onConflict } = this;
    if (!onConflict) return Promise.resolve(null);
    const answer = this.#turn.then(async () => {
      if (signal.aborted) return null;
      if (this.#forAll) return this.#forAll;
      const a = await onConflict(q);
      if (a.forAll) this.#forAll = a;
      return a;
    });
    this.#turn = answer.catch(() => {}); // its asker hears of it
    return answer;
  }

  /** reset: the queue is empty, "for all" is over. */
  reset(): void {
    this.#forAll = null;
  }
}
