import { CutError } from "./problem.ts";

/** Request is one attempt of one request. */
export interface Request {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: Blob | string;
  /** Send and accept cookies. */
  cookies: boolean;
  /** ms without any movement after which the attempt is given up */
  stall: number;
  signal: AbortSignal;
  /** Told how many bytes of the body have gone out, as far as that can be known. */
  onProgress?: (sent: number) => void;
}

/** Reply is any answer, refusals included. */
export interface Reply {
  status: number;
  header(name: string): string | null;
  text: string;
}

/**
 * Transport carries one attempt out. It rejects with CutError where there is no answer, and with the signal's reason when that
 * ends it. It is an interface because a browser tells the progress of a body by XMLHttpRequest alone, while Node has only fetch.
 */
export type Transport = (r: Request) => Promise<Reply>;

/** xhrTransport is for browsers, workers included. */
export const xhrTransport: Transport = (r) =>
  new Promise((resolve, reject) => {
    if (r.signal.aborted) return reject(r.signal.reason);
    const x = new XMLHttpRequest();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = () => {
      clearTimeout(timer);
      r.signal.removeEventListener("abort", abort);
    };
    const abort = () => {
      end();
      x.abort();
      reject(r.signal.reason);
    };
    const stalled = () => {
      end();
      x.abort();
      reject(new CutError("nothing moved for too long"));
    };
    const moved = () => {
      clearTimeout(timer);
      timer = setTimeout(stalled, r.stall);
    };
    x.open(r.method, r.url);
    x.withCredentials = r.cookies;
    for (const [name, value] of Object.entries(r.headers)) x.setRequestHeader(name, value);
    if (r.body !== undefined) {
      x.upload.onprogress = (e) => {
        moved();
        r.onProgress?.(e.loaded);
      };
      x.upload.onload = moved;
    }
    x.onload = () => {
      end();
      resolve({ status: x.status, header: (name) => x.getResponseHeader(name), text: x.responseText });
    };
    x.onerror = x.onabort = () => {
      end();
      reject(new CutError("no answer from the server"));
    };
    r.signal.addEventListener("abort", abort, { once: true });
    moved();
    x.send(r.body ?? null);
  });

/** fetchTransport is for Node. It knows of no progress but the end. */
export const fetchTransport: Transport = async (r) => {
  const stall = new AbortController();
  // Without progress a large body would look stalled: it gets time by its size, at 64 KiB/s.
  const size = r.body instanceof Blob ? r.body.size : 0;
  const timer = setTimeout(() => stall.abort(new CutError("nothing moved for too long")), r.stall + size / 65.536);
  try {
    const res = await fetch(r.url, {
      method: r.method,
      headers: r.headers,
      body: r.body ?? null,
      credentials: r.cookies ? "include" : "omit",
      signal: AbortSignal.any([r.signal, stall.signal]),
    });
    const text = await res.text();
    r.onProgress?.(size);
    return { status: res.status, header: (name) => res.headers.get(name), text };
  } catch (err) {
    if (r.signal.aborted) throw r.signal.reason;
    throw err instanceof CutError ? err : new CutError("no answer from the server", { cause: err });
  } finally {
    clearTimeout(timer);
  }
};

/** defaultTransport is what the surroundings offer. */
export const defaultTransport: Transport = typeof XMLHttpRequest === "undefined" ? fetchTransport : xhrTransport;
