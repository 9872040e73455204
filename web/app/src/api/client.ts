// Calls the server. Every address is relative to <base>, so that a sub-path works.
import { forgetKeys, intentOf, randomKey, somethingElse } from "./intent";

export { randomKey };

export const baseURL = new URL(document.baseURI);

/** The address of something under /api/v1, with query parameters; those that are undefined are left out. */
export function apiURL(path: string, query: Query = {}): string {
  const url = new URL(`api/v1${path}`, baseURL);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

export type Query = Record<string, string | number | boolean | null | undefined>;

/** What an RFC 9457 problem says, in the language of the page. `code` 0 statuses are the network's own. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly members: Record<string, unknown> = {},
  ) {
    super(detail || title || code);
  }
  get retryAfter(): number {
    return Number(this.members["retry_after"] ?? 0);
  }
}

export interface Call {
  query?: Query;
  body?: unknown;
  /** A body that is no JSON. */
  raw?: string | Blob;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A creation: it carries an Idempotency-Key, and a lost reply is asked for again. */
  once?: boolean;
}

let language = "en";
let user: string | undefined;
let onUnauthenticated = () => {};

/** Sets the language that problems are asked for in. */
export function speak(lang: string): void {
  language = lang;
}

/** Sets whose page this is, by id: the cookie may become somebody else's, who logs in in another tab. */
export function callFor(id: string): void {
  user = id;
}

/** The id of whom this page is about; undefined: nobody has logged in on it. */
export const calledFor = (): string | undefined => user;

/** Sets what happens when a call finds that nobody is logged in. */
export function whenUnauthenticated(act: () => void): void {
  onUnauthenticated = act;
}

let running = 0; // calls

/** Waits until the page has what it asks for first, so that what can wait does not share a slow line with it. */
export async function whenQuiet(): Promise<void> {
  do await new Promise((resolve) => setTimeout(resolve, 300));
  while (running > 0);
}

const attemptsOnce = 3;

/** Calls and returns the parsed answer; undefined for an empty one. Throws a Problem. */
export async function call<T = void>(method: string, path: string, c: Call = {}): Promise<T> {
  return (await callWithResponse<T>(method, path, c)).value;
}

export async function callWithResponse<T>(method: string, path: string, c: Call = {}): Promise<{ value: T; response: Response }> {
  running++;
  try {
    return await ask<T>(method, path, c);
  } finally {
    running--;
  }
}

async function ask<T>(method: string, path: string, c: Call): Promise<{ value: T; response: Response }> {
  const headers: Record<string, string> = { "Accept-Language": language, Accept: "application/json", ...c.headers };
  if (user) headers["X-Smartdrive-User"] = user;
  if (c.body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (c.body !== undefined) init.body = JSON.stringify(c.body);
  if (c.raw !== undefined) {
    headers["Content-Type"] = "application/octet-stream";
    init.body = c.raw;
  }
  if (c.signal) init.signal = c.signal;
  const url = apiURL(path, c.query);
  const what = `${method} ${url} ${c.raw ?? (init.body as string | undefined) ?? ""}`;
  if (method !== "GET") somethingElse(what);
  const intent = c.once ? intentOf(what, prepare) : undefined;
  if (intent) headers["Idempotency-Key"] = await intent.key;
  let worked = false;
  try {
    const response = await send(url, init, c.once || method === "GET" ? attemptsOnce : 1);
    if (!response.ok) {
      const problem = await problemOf(response);
      if (problem.status === 401 && !c.headers?.["Authorization"]) {
        forgetKeys();
        onUnauthenticated();
      }
      throw problem;
    }
    const text = await response.text();
    worked = true;
    return { value: (text ? JSON.parse(text) : undefined) as T, response };
  } finally {
    intent?.ended(worked);
  }
}

/** Has the server hand out a key. Who is not logged in gets none. */
async function prepare(): Promise<string> {
  const response = await fetch(apiURL("/prepare"), { method: "POST", headers: user ? { "X-Smartdrive-User": user } : {}, credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw await problemOf(response);
  return ((await response.json()) as { pre_id: string }).pre_id;
}

const longestWait = 30; // seconds that the page waits because the server asks for it; longer is said instead
const mostWaits = 6;

/** Repeats what was lost on the way, a few times, and what the server asks to be sent again later. */
async function send(url: string, init: RequestInit, attempts: number): Promise<Response> {
  let waits = 0;
  for (let attempt = 1; ; ) {
    let response: Response;
    try {
      response = await fetch(url, init);
    } catch (error) {
      if (init.signal?.aborted) throw error;
      if (attempt >= attempts) throw new Problem(0, "network", "", "");
      await pause(300 * 2 ** attempt++ * (0.5 + Math.random()), init.signal);
      continue;
    }
    const after = retryAfter(response);
    if (after === undefined || after > longestWait || ++waits > mostWaits) return response;
    void response.body?.cancel();
    await pause(after * 1000 * (1 + Math.random() / 10), init.signal);
  }
}

/** After how many seconds the server asks to be sent the same again; undefined: it does not. It has done nothing then. */
export function retryAfter(response: Response): number | undefined {
  if (![409, 429, 503].includes(response.status)) return undefined;
  const text = response.headers.get("Retry-After");
  if (!text) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000; // RFC 9110 §10.2.3
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function pause(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

export async function problemOf(response: Response): Promise<Problem> {
  let body: Record<string, unknown> = {};
  try {
    body = (await response.json()) as Record<string, unknown>;
  } catch {
    // A proxy's own page: the status is all there is.
  }
  const after = response.headers.get("Retry-After");
  if (after && body["retry_after"] === undefined) body["retry_after"] = Number(after);
  const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : "");
  return new Problem(response.status, text("code") || `http-${response.status}`, text("title"), text("detail"), body);
}

export function isProblem(error: unknown, ...codes: string[]): error is Problem {
  return error instanceof Problem && (codes.length === 0 || codes.includes(error.code));
}

export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

/** Reads all pages of a list, up to `most` items. */
export async function listAll<T>(path: string, query: Query = {}, most = 5000): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null | undefined;
  do {
    const page: Page<T> = await call("GET", path, { query: { limit: 1000, ...query, cursor } });
    all.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && all.length < most);
  return all;
}
