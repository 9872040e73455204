import type { Flight } from "./flight.ts";
import type { Sums } from "./hash/hasher.ts";
import { LocalError, isProblem } from "./problem.ts";
import { BeginAnew } from "./task.ts";

const ahead = 64 << 20; // bytes that the scan is waited for rather than reading a part a second time
const claimWorth = 4 << 20; // bytes: less than this unsent is not worth a claim
const lookEvery = 2_000; // ms: between looks at what other tabs have sent

/**
 * scan reads the file once, beside the sending: it computes the digest, and on its way the sums of the parts, which the senders
 * wait for where it is near them.
 */
export async function scan(f: Flight, signal: AbortSignal): Promise<void> {
  const { t } = f;
  if (t.digests) return;
  const { hasher, check, md5 } = t.deps;
  f.scanned = 0;
  try {
    const digests = await hasher.scan(
      t.file,
      { partSize: f.partSize, check, crc32: f.found, md5 },
      (n, sums) => {
        f.sums.set(n, sums);
        f.scanned = n + 1;
        f.board.rouse();
      },
      signal,
    );
    signal.throwIfAborted();
    t.digests = digests;
  } finally {
    f.scanned = null;
    f.board.rouse();
  }
}

/** claim tells the server, in the middle of the upload, what the content is. It may have it. */
export async function claim(f: Flight, signal: AbortSignal): Promise<void> {
  const { t } = f;
  const left = f.board.many("missing") + f.board.many("sending");
  if (f.claimed || !t.digests || left * f.partSize < claimWorth) return;
  f.claimed = true;
  try {
    const up = await t.deps.api.amend(f.uploadId, { digests: t.digests }, t.scope(signal));
    await f.take(up, signal);
  } catch (err) {
    if (!isProblem(err)) throw err; // an offer: the parts go on, and find out by themselves what has become of the upload
  }
}

/** sumsOf returns the sums of part n: from the scan where that is near, else by reading the part. */
export async function sumsOf(f: Flight, n: number, crc32: boolean, signal: AbortSignal): Promise<Sums> {
  const known = () => {
    const s = f.sums.get(n);
    return s && (!crc32 || s.crc32 !== null) ? s : null;
  };
  const coming = () => {
    if (f.scanned === null || f.scanned > n || (crc32 && !f.found)) return false;
    return (n - f.scanned) * f.partSize <= ahead;
  };
  await f.board.until(() => known() !== null || !coming(), signal);
  const sums = known() ?? (await f.t.deps.hasher.sums(f.part(n), f.t.deps.check, signal));
  f.sums.set(n, sums);
  return sums;
}

/** compare settles the parts that the server has from elsewhere: by their CRC-32s. The whole digest at the end decides. */
export async function compare(f: Flight, signal: AbortSignal): Promise<void> {
  const { board } = f;
  const first = new Set(f.first);
  if (board.many("unsure") > 0) f.t.hooks.stage({ kind: "hashing" });
  for (;;) {
    await board.until(() => board.complete || board.many("unsure") > 0, signal);
    if (board.complete) return;
    const unsure = board.in("unsure");
    if (unsure.some((n) => !f.server.has(n))) await list(f, signal);
    for (const n of [...unsure.filter((i) => first.has(i)), ...unsure.filter((i) => !first.has(i))]) await settle(f, n, signal);
  }
}

async function settle(f: Flight, n: number, signal: AbortSignal): Promise<void> {
  if (f.board.at(n) !== "unsure") return;
  const part = f.server.get(n);
  if (!part) return f.board.lose(n); // taken back meanwhile
  const { crc32 } = await sumsOf(f, n, true, signal);
  f.t.hooks.moved(0);
  if (part.crc32 === crc32 && part.size === f.span(n)[1]) return f.board.set(n, "there");
  if (f.strict) {
    const [offset] = f.span(n);
    throw new LocalError("file-changed", `the file is not the one that was begun: it differs at byte ${offset} or after`);
  }
  f.board.lose(n, true);
}

async function list(f: Flight, signal: AbortSignal): Promise<void> {
  try {
    for await (const part of f.t.deps.api.parts(f.uploadId, f.t.scope(signal))) f.server.set(part.n, part);
  } catch (err) {
    if (isProblem(err, "not-found", "gone")) throw new BeginAnew();
    if (isProblem(err, "state")) return f.follow(signal); // it says where the upload has got to
    throw err;
  }
}

/** watch looks now and then whether somebody else sends the same upload, or has ended it. */
export async function watch(f: Flight, signal: AbortSignal): Promise<void> {
  const { env } = f.t.deps;
  for (;;) {
    await env.sleep(f.shared ? lookEvery / 2 : lookEvery, signal);
    const before = f.board.many("unsure");
    if (f.board.complete || !env.online()) continue;
    await f.follow(signal);
    if (f.board.many("unsure") > before) f.shared = true;
  }
}
