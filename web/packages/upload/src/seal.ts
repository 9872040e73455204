import { numbers } from "./board.ts";
import { type Flight, Sealing } from "./flight.ts";
import { LocalError, isProblem } from "./problem.ts";

const firstLook = 500; // ms
const longestLook = 5_000; // ms
const mostUnfit = 5; // answers in a row that fit no state

/**
 * seal completes the upload and waits until the file is there. The digest that goes with it makes the server refuse anything
 * that is not what was read here. It throws Ended when the file is there.
 */
export async function seal(f: Flight, signal: AbortSignal): Promise<never> {
  const { t } = f;
  t.hooks.stage({ kind: "verifying" });
  const digests = await t.digest(signal);
  for (let pause = firstLook, unfit = 0; ; pause = Math.min(2 * pause, longestLook)) {
    try {
      // A conflict is named only where the upload could not be told before: naming it chooses once more, among what is there by now,
      // and would overwrite a version that nobody has seen.
      const conflict = t.conflict !== f.told && t.conflict;
      const up = await t.deps.api.complete(f.uploadId, { digests, ...(conflict && { conflict }) }, t.scope(signal));
      f.judge(up);
      unfit++;
    } catch (err) {
      if (isProblem(err, "state", "not-found", "gone")) await f.follow(signal);
      else if (!(err instanceof Sealing)) throw err;
      unfit = err instanceof Sealing ? 0 : unfit + 1;
    }
    if (unfit === mostUnfit) throw new LocalError("internal", "the upload does not end");
    t.hooks.stage({ kind: "verifying" });
    await t.deps.env.sleep(pause, signal);
  }
}

/** mend deals with a refused seal: when it returns, what is missing is to be sent and the seal tried again. */
export async function mend(f: Flight, err: unknown, signal: AbortSignal): Promise<void> {
  if (!f.id) throw err;
  if (isProblem(err, "parts-missing")) {
    const spans = err.args["missing"] as [number, number][] | undefined;
    for (const n of numbers(spans ?? [], f.board.count)) f.board.lose(n);
    return;
  }
  if (isProblem(err, "digest-mismatch")) return mismatch(f, err);
  if (isProblem(err, "parent-gone")) return newParent(f, err, signal);
  if (isProblem(err, "version-changed")) return f.overtaken(err, signal);
  await f.taken(err, signal);
}

/**
 * mismatch deals with a digest that is not the one of the parts: a part was damaged, or the file changed while it was sent. It is
 * read again and every part compared; parts that differ are sent again. The second time the file is what changes.
 */
function mismatch(f: Flight, err: unknown): void {
  if (++f.mismatches > 1) {
    throw new LocalError("file-changed", "the file is being written to: its digest is not the one of what was sent", { cause: err });
  }
  f.t.digests = null;
  f.claimed = true;
  f.strict = false;
  f.found = true;
  f.sums.clear();
  f.server.clear();
  for (const n of f.board.in("there")) f.board.set(n, "unsure");
  f.first = [];
}

/** newParent makes the folder again and points the upload to it. */
async function newParent(f: Flight, err: unknown, signal: AbortSignal): Promise<void> {
  const { api, lookUp } = f.t.deps;
  if (!lookUp) throw err;
  const at = f.t.path.lastIndexOf("/");
  const folder = await api.makeFolder(f.t.path.slice(0, at) || "/", f.t.scope(signal));
  f.judge(await api.amend(f.uploadId, { parent: folder.id, name: f.t.path.slice(at + 1) }, f.t.scope(signal)));
}

