// Calls the server. Every address is relative to <base>, so that a sub-path works.

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
  raw?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A creation: it carries an Idempotency-Key, and a lost reply is asked for again. */
  once?: boolean;
}

let language = "en";
let onUnauthenticated = () => {};

/** Sets the language that problems are asked for in. */
export function speak(lang: string): void {
  language = lang;
}

/** Sets what happens when a call finds that nobody is logged in. */
export function whenUnauthenticated(act: () => void): void {
  onUnauthenticated = act;
}

/** A random key. crypto.randomUUID would need a secure context, getRandomValues does not. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

const attemptsOnce = 3;

/** Calls and returns the parsed answer; undefined for an empty one. Throws a Problem. */
export async function call<T = void>(method: string, path: string, c: Call = {}): Promise<T> {
  return (await callWithResponse<T>(method, path, c)).value;
}

export async function callWithResponse<T>(method: string, path: string, c: Call = {}): Promise<{ value: T; response: Response }> {
  const headers: Record<string, string> = { "Accept-Language": language, Accept: "application/json", ...c.headers };
  if (c.body !== undefined) headers["Content-Type"] = "application/json";
  if (c.once) headers["Idempotency-Key"] = randomKey();
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (c.body !== undefined) init.body = JSON.stringify(c.body);
  if (c.raw !== undefined) {
    headers["Content-Type"] = "application/octet-stream";
    init.body = c.raw;
  }
  if (c.signal) init.signal = c.signal;
  const response = await send(apiURL(path, c.query), init, c.once || method === "GET" ? attemptsOnce : 1);
  if (!response.ok) {
    const problem = await problemOf(response);
    if (problem.status === 401 && !c.headers?.["Authorization"]) onUnauthenticated();
    throw problem;
  }
  const text = await response.text();
  return { value: (text ? JSON.parse(text) : undefined) as T, response };
}

/** Repeats what was lost on the way, a few times. */
async function send(url: string, init: RequestInit, attempts: number): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetch(url, init);
    } catch (error) {
      if (init.signal?.aborted) throw error;
      if (attempt >= attempts) throw new Problem(0, "network", "", "");
      await new Promise((resolve) => setTimeout(resolve, 300 * 2 ** attempt * (0.5 + Math.random())));
    }
  }
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
