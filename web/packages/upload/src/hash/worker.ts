/** The worker: hashes off the page's thread. See remote.ts for the other end. */
import { LocalError } from "../problem.ts";
import { localHasher } from "./local.ts";
import type { FromWorker, ToWorker } from "./remote.ts";

const jobs = new Map<number, AbortController>();
const port = globalThis as unknown as { postMessage(m: FromWorker): void; onmessage: ((e: MessageEvent<ToWorker>) => void) | null };

port.onmessage = ({ data }) => {
  if (data.op === "stop") return jobs.get(data.id)?.abort();
  const stop = new AbortController();
  jobs.set(data.id, stop);
  run(data, stop.signal)
    .then(
      (value) => port.postMessage({ id: data.id, value }),
      (err: unknown) => port.postMessage({ id: data.id, error: { code: err instanceof LocalError ? err.code : "internal", text: String(err) } }),
    )
    .finally(() => jobs.delete(data.id));
};

function run(m: Exclude<ToWorker, { op: "stop" }>, signal: AbortSignal): Promise<unknown> {
  switch (m.op) {
    case "fingerprint":
      return localHasher.fingerprint(m.file, signal);
    case "scan":
      return localHasher.scan(m.file, m.options, (n, sums) => port.postMessage({ id: m.id, part: n, sums }), signal);
    case "sums":
      return localHasher.sums(m.part, m.check, signal);
    case "answer":
      return localHasher.answer(m.file, m.challenge, signal);
  }
}
