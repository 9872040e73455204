import { Problem, ProxyError, isProblem, judge } from "./problem.ts";
import type { Outcome, Task } from "./task.ts";
import { unless } from "./together.ts";

/**
 * putSmall sends a file in one request; null says that it needs an upload of its own.
 *
 * A lost reply: the server is asked what is at the path; only other content, or none, is sent again. Rename has no such answer
 * (the first attempt may have taken any name), so it first tries the plain name, and then becomes an upload, whose id tells.
 */
export async function putSmall(t: Task, signal: AbortSignal): Promise<Outcome | null> {
  const { env, hasher, waiter } = t.deps;
  if (!env.online()) await waiter.untilOnline(signal, (why) => t.told(why));
  if (!t.doubt && t.deps.batcher?.takes(t.file.size, t.path)) {
    const outcome = await putWithOthers(t, signal);
    if (outcome) return outcome;
  }
  if (t.inBatch) await unless(signal, t.inBatch);
  const before = t.doubt ? await t.found(signal) : null; // stopped in the middle of the run before
  if (before) return { kind: "done", node: before };
  const { check } = await hasher.sums(t.file, t.deps.check, signal);
  for (let failures = 0; ; ) {
    try {
      return { kind: "done", node: await putOnce(t, check, signal) };
    } catch (err) {
      signal.throwIfAborted();
      if (err instanceof ProxyError && err.status === 413) return null; // parts may be small enough for what is in between
      if (isProblem(err, "name-taken")) {
        const end = await taken(t, err, signal);
        if (end !== "again") return end;
        continue;
      }
      t.doubt = judge(err).doubtful;
      t.deps.slots.refused(err);
      await waiter.pause(err, ++failures, signal, (why, until) => t.told(why, until));
      const node = t.doubt ? await t.found(signal) : null;
      if (node) return { kind: "done", node };
    }
  }
}

/** putWithOthers sends a file in a batch; null: it is to be sent alone, which finds out what is to be done about it. */
async function putWithOthers(t: Task, signal: AbortSignal): Promise<Outcome | null> {
  try {
    const node = await t.deps.batcher?.put(t, signal);
    return node ? { kind: "done", node } : null;
  } catch (err) {
    signal.throwIfAborted();
    if (err instanceof Problem && (err.code === "name-taken" || judge(err).again)) return null;
    throw err;
  }
}

async function putOnce(t: Task, check: string, signal: AbortSignal) {
  const { api, slots } = t.deps;
  const headers = {
    "Content-Type": t.file.type || "application/octet-stream",
    "Content-Digest": check,
    "X-Mtime": String(t.file.lastModified),
  };
  const release = await slots.acquire(t.priority(), signal);
  try {
    t.hooks.stage({ kind: "sending" });
    t.doubt = true;
    const query = { conflict: t.conflict === "replace" ? "replace" : "fail", parents: "true" };
    const answer = await api.putFile(t.path, query, t.file, headers, t.scope(signal), (sent) => t.progress(0, sent));
    t.progress(0, t.file.size);
    t.landed(0, true);
    slots.moved(requestWorth);
    t.doubt = false;
    return answer.value;
  } finally {
    release();
    t.landed(0, false);
  }
}

const requestWorth = 64 << 10; // bytes that a request costs as much as: many small files are bound by answers, not by bytes

/** taken decides about a name that is taken. */
async function taken(t: Task, err: unknown, signal: AbortSignal): Promise<Outcome | null | "again"> {
  if (t.conflict === "rename") return null;
  const node = await t.found(signal);
  if (node) return { kind: "done", node };
  const next = await t.decide(err, signal);
  if (next === null) return { kind: "skipped" };
  return next === "rename" ? null : "again";
}
