import { claim, compare, scan, watch } from "./check.ts";
import { Ended, type Flight, Sealing } from "./flight.ts";
import { mend, seal } from "./seal.ts";
import { sendParts } from "./send.ts";
import type { Outcome } from "./task.ts";
import { together } from "./together.ts";

const mostRounds = 5; // of one call

/** fly takes an upload to its end: it sends what is missing, seals, and deals with what the server refuses. A later call goes on. */
export async function fly(f: Flight, signal: AbortSignal): Promise<Outcome> {
  let last: unknown;
  let next = (s: AbortSignal) => send(f, s);
  for (let round = 1; ; round++) {
    try {
      await next(signal);
      return await seal(f, signal);
    } catch (err) {
      if (err instanceof Ended) return f.checked(err.outcome);
      signal.throwIfAborted();
      if (round === mostRounds || err === last) throw err; // nothing has changed
      last = err;
      next = err instanceof Sealing ? async () => {} : (s) => mend(f, err, s).then(() => send(f, s));
    }
  }
}

async function send(f: Flight, signal: AbortSignal): Promise<void> {
  await (f.id ? f.again(signal) : f.begin(signal));
  await sendAll(f, signal);
}

/** sendAll returns when every part is there and the digest is known. */
async function sendAll(f: Flight, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const work = async (inner: AbortSignal) => {
    await together(inner, [(s) => scan(f, s).then(() => claim(f, s)), (s) => compare(f, s), (s) => sendParts(f, s)]);
    over.abort();
  };
  const look = async (inner: AbortSignal) => {
    try {
      await watch(f, AbortSignal.any([inner, over.signal]));
    } catch (err) {
      if (!over.signal.aborted) throw err;
    }
  };
  await together(signal, [work, look]);
}
