import { sumsOf } from "./check.ts";
import type { Flight } from "./flight.ts";
import { CutError, LocalError, isProblem, judge } from "./problem.ts";
import { together } from "./together.ts";

const tries = 4; // more often than this a part does not differ by accident: somebody else sends it, or the file changes

/** sendParts sends parts until none is missing. How many at once is up to the slots. */
export async function sendParts(f: Flight, signal: AbortSignal): Promise<void> {
  await f.board.until(() => f.first.every((n) => f.board.at(n) !== "unsure"), signal);
  const loops = Math.min(f.t.deps.slots.most(), Math.max(1, f.board.count));
  await together(
    signal,
    Array.from({ length: loops }, () => (s: AbortSignal) => loop(f, s)),
  );
}

async function loop(f: Flight, signal: AbortSignal): Promise<void> {
  const { board, t } = f;
  for (;;) {
    await board.until(() => board.complete || board.many("missing") > 0, signal);
    if (board.complete) return;
    const release = await t.deps.slots.acquire(t.priority(), signal);
    const n = board.take(f.order, t.deps.env.random);
    try {
      if (n === undefined) continue;
      await sendPart(f, n, release, signal);
    } catch (err) {
      if (n !== undefined && board.at(n) === "sending") board.lose(n);
      throw err;
    } finally {
      release();
    }
  }
}

/** sendPart brings part n to the server, whatever is there under its number. It gives its slot back while it waits. */
async function sendPart(f: Flight, n: number, release: () => void, signal: AbortSignal): Promise<void> {
  const { board, t } = f;
  try {
    for (let failures = 0, differs = 0; board.at(n) === "sending"; ) {
      const err = await put(f, n, signal).catch((e: unknown) => e);
      if (err === undefined) return board.set(n, "there");
      signal.throwIfAborted();
      if (isProblem(err, "part-differs", "digest-mismatch") && ++differs < tries) {
        if (err.code === "part-differs") board.differ(n, true);
        continue;
      }
      release();
      if (isProblem(err, "in-progress")) {
        await elsewhere(f, n, ++failures, signal);
        if (board.at(n) === "sending") release = await t.deps.slots.acquire(t.priority(), signal);
        continue;
      }
      await wait(f, n, err, ++failures, signal);
      // It may be there all the same: sent by the attempt whose answer was lost, or by another tab.
      if (judge(err).doubtful || isProblem(err, "state", "not-found", "gone")) await f.follow(signal);
      if (board.at(n) === "sending") release = await t.deps.slots.acquire(t.priority(), signal);
    }
  } finally {
    release();
  }
}

async function put(f: Flight, n: number, signal: AbortSignal): Promise<void> {
  const { t } = f;
  const { api } = t.deps;
  if (f.board.differs(n)) {
    await api.dropPart(f.uploadId, n, t.scope(signal));
    f.board.differ(n, false);
  }
  const { check } = await sumsOf(f, n, false, signal);
  let there = false;
  try {
    t.progress(n, 0);
    await api.putPart(f.uploadId, n, f.part(n), check, t.scope(signal), (sent) => t.progress(n, sent));
    t.progress(n, f.span(n)[1]);
    there = true;
  } finally {
    t.landed(n, there);
  }
}

/**
 * elsewhere waits for a part that somebody else is sending: to send it again would end theirs, and theirs then ours. The longer it
 * takes, the longer the wait, by chance, so that in the end one of two gets through.
 */
async function elsewhere(f: Flight, n: number, failures: number, signal: AbortSignal): Promise<void> {
  const { env } = f.t.deps;
  f.shared = true;
  if (f.order === "last") f.order = "any";
  const until = env.now() + 1000 + env.random() * Math.min(60_000, 2000 * 2 ** failures);
  while (env.now() < until && f.board.at(n) === "sending") {
    await env.sleep(Math.min(2000, until - env.now()), signal);
    await f.follow(signal);
  }
}

/** wait pauses before the next attempt of a part, or throws what no attempt mends. */
async function wait(f: Flight, n: number, err: unknown, failures: number, signal: AbortSignal): Promise<void> {
  const { waiter, slots, hasher, env } = f.t.deps;
  slots.refused(err);
  // A file that has changed on disk looks like a connection that breaks; reading it tells.
  if (err instanceof CutError) await hasher.sums(f.part(n).slice(0, 1), "crc32c", signal);
  if (isProblem(err, "state", "not-found", "gone")) {
    if (failures > 8) throw new LocalError("internal", `part ${n} is refused again and again`, { cause: err });
    return env.sleep(100 * failures, signal); // it is about to move on, by a claim or by another tab
  }
  await waiter.pause(err, failures, signal, (why, until) => f.t.told(why, until));
}
