/** together runs tasks at once. The first that fails stops the others; it returns when all have ended, with the first error. */
export async function together(signal: AbortSignal, tasks: ((signal: AbortSignal) => Promise<void>)[]): Promise<void> {
  const stop = new AbortController();
  const inner = AbortSignal.any([signal, stop.signal]);
  let failed = false;
  let first: unknown;
  const ends = tasks.map(async (task) => {
    try {
      await task(inner);
    } catch (err) {
      if (failed) return;
      failed = true;
      first = err;
      stop.abort(err);
    }
  });
  await Promise.all(ends);
  if (failed) throw first;
}

/** unless returns what a promise brings, unless the signal ends first: for what may take as long as a person does. */
export function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
