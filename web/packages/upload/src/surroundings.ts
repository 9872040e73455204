/** Surroundings are what the library needs of the world besides requests; tests replace them. */
export interface Surroundings {
  /** ms since some moment, never going back */
  now(): number;
  /** Resolves after ms, or rejects with the signal's reason. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** [0, 1) */
  random(): number;
  online(): boolean;
  /** Calls fn whenever the browser goes on or off line; returns how to stop that. */
  onOnline(fn: (online: boolean) => void): () => void;
  /** Protocol that the server of a URL speaks ("h2", "http/1.1"), empty while it is not known. */
  protocol(url: string): string;
}

/** sleep is a pause that a signal ends. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
  });
}

/** browser are the surroundings of a page; in Node it is always online. */
export const browser: Surroundings = {
  now: () => performance.now(),
  sleep,
  random: Math.random,
  // A browser that says false is right; one that says true may be wrong, which the requests find out.
  online: () => typeof navigator === "undefined" || navigator.onLine !== false,
  onOnline(fn) {
    if (typeof addEventListener !== "function") return () => {};
    const on = () => fn(true);
    const off = () => fn(false);
    addEventListener("online", on);
    addEventListener("offline", off);
    return () => {
      removeEventListener("online", on);
      removeEventListener("offline", off);
    };
  },
  protocol,
};

/**
 * protocol looks for a finished request to the URL's origin. What the page itself came over counts as well. Of another origin a
 * browser tells it only with Timing-Allow-Origin; then it stays unknown.
 */
function protocol(url: string): string {
  if (typeof location === "undefined" || typeof performance.getEntriesByType !== "function") return "";
  const origin = new URL(url, location.href).origin;
  const entries = [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")];
  for (const e of entries.reverse() as PerformanceResourceTiming[]) {
    if (e.nextHopProtocol && new URL(e.name, location.href).origin === origin) return e.nextHopProtocol;
  }
  return "";
}
