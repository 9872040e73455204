import { CutError, Problem, ProxyError, isProblem, judge } from "./problem.ts";
import { type Waiter, retryAfter } from "./retry.ts";
import { unless } from "./together.ts";
import type { Reply, Transport } from "./transport.ts";
import type { Auth, Conflict, Digests, Node, OpenUpload, WaitReason } from "./types.ts";

/** Part is a part that the server has. */
export interface Part {
  n: number;
  size: number;
  crc32: number;
  cv: string | null;
}

/** Begin describes an upload to be begun. */
export interface Begin {
  path: string;
  size: number;
  fingerprint?: string;
  digests?: Digests;
  conflict?: Conflict;
  parents?: boolean;
  part_size?: number;
  mtime?: string;
  mime?: string;
}

/** Amend changes an open upload. */
export interface Amend {
  digests?: Digests;
  name?: string;
  parent?: string;
  conflict?: Conflict;
}

/** BatchLine is the answer to an item of a batch; without n, how the batch ended. */
export interface BatchLine {
  n?: number;
  node?: Node;
  problem?: Problem;
}

/** Told hears why a call waits. */
export type Told = (why: WaitReason, until?: number) => void;

/** Scope is under what a call is made: what ends it, who hears of its waiting. */
export interface Scope {
  signal: AbortSignal;
  told: Told;
}

export interface ApiOptions {
  base: string;
  auth: Auth;
  language?: string | undefined;
  stall: number;
  transport: Transport;
  waiter: Waiter;
  /** Asked when the server does not know the user; true: try again. */
  onLogin?: (() => boolean | Promise<boolean>) | undefined;
}

interface Call {
  method: string;
  path: string;
  json?: unknown;
  body?: Blob;
  headers?: Record<string, string>;
  /** An Idempotency-Key, the same in every attempt. */
  key?: boolean;
  onProgress?: (sent: number) => void;
}

/** Answer is a 2xx reply. doubt: an earlier attempt of the same call had no answer and may have been carried out. */
export interface Answer<T> {
  value: T;
  status: number;
  doubt: boolean;
}

/** Api is the part of the API that uploading needs. Every call is repeated until it is answered or patience is over. */
export class Api {
  #login: Promise<boolean> | null = null;

  constructor(readonly opt: ApiOptions) {}

  begin(b: Begin, s: Scope): Promise<Answer<OpenUpload>> {
    return this.#do<OpenUpload>({ method: "POST", path: "/uploads", json: b, key: true }, s);
  }

  async upload(id: string, s: Scope): Promise<OpenUpload> {
    return (await this.#do<OpenUpload>({ method: "GET", path: uploadPath(id) }, s)).value;
  }

  async amend(id: string, a: Amend, s: Scope): Promise<OpenUpload> {
    return (await this.#do<OpenUpload>({ method: "PATCH", path: uploadPath(id), json: a }, s)).value;
  }

  async prove(id: string, alg: "blake3" | "hmac-sha256", answer: string, s: Scope): Promise<OpenUpload> {
    return (await this.#do<OpenUpload>({ method: "POST", path: `${uploadPath(id)}/proof`, json: { alg, answer }, key: true }, s)).value;
  }

  /** complete needs no key: the upload itself is one. */
  async complete(id: string, a: Amend, s: Scope): Promise<OpenUpload> {
    return (await this.#do<OpenUpload>({ method: "POST", path: `${uploadPath(id)}/complete`, json: a }, s)).value;
  }

  async cancel(id: string, s: Scope): Promise<void> {
    await this.#delete(uploadPath(id), s);
  }

  /** putPart sends part n once; who calls it decides about the next attempt. */
  async putPart(id: string, n: number, body: Blob, digest: string, s: Scope, onProgress: (sent: number) => void): Promise<void> {
    const headers: Record<string, string> = { "Content-Type": "application/octet-stream" };
    if (digest) headers["Content-Digest"] = digest;
    await this.#try({ method: "PUT", path: `${uploadPath(id)}/parts/${n}`, body, headers, onProgress }, s);
  }

  async dropPart(id: string, n: number, s: Scope): Promise<void> {
    await this.#delete(`${uploadPath(id)}/parts/${n}`, s);
  }

  /** parts lists what has arrived, page by page. */
  async *parts(id: string, s: Scope): AsyncGenerator<Part> {
    yield* this.#list<Part>(`${uploadPath(id)}/parts`, s);
  }

  /** uploads lists one's open uploads: in one's own drive, or in a place. */
  async *uploads(s: Scope, place = ""): AsyncGenerator<OpenUpload> {
    yield* this.#list<OpenUpload>("/uploads", s, place ? { space: place } : {});
  }

  /** putFile sends a whole file once; who calls it decides about the next attempt. */
  async putFile(path: string, query: Record<string, string>, body: Blob, headers: Record<string, string>, s: Scope, onProgress: (sent: number) => void): Promise<Answer<Node>> {
    const [place, below] = splitPlace(path);
    const url = `/files${escapePath(below)}?${new URLSearchParams(place ? { ...query, space: place } : query)}`;
    const reply = await this.#try({ method: "PUT", path: url, body, headers, onProgress }, s);
    return { value: parse<Node>(reply), status: reply.status, doubt: false };
  }

  /** batch sends items once, each a line and its bytes; who calls it decides about the next attempt, under the same key. */
  async batch(body: Blob, key: string, s: Scope, onProgress: (sent: number) => void): Promise<BatchLine[]> {
    const headers = { "Content-Type": "application/vnd.smartdrive.batch", "Idempotency-Key": key };
    const reply = await this.#try({ method: "POST", path: "/batch", body, headers, onProgress }, s);
    if (!reply.header("Content-Type")?.startsWith("application/x-ndjson")) throw new ProxyError(404, 0);
    const lines: BatchLine[] = [];
    for (const text of reply.text.split("\n")) {
      if (text === "") continue;
      try {
        const { n, status, node, problem } = JSON.parse(text) as { n?: number; status: number; node?: Node; problem?: Record<string, unknown> };
        const err = problem && readProblem(status, problem, 0);
        lines.push({ ...(n !== undefined && { n }), ...(node && { node }), ...(err && { problem: err }) });
      } catch {
        break; // it broke off here
      }
    }
    return lines;
  }

  /** nodeAt returns what is at a path, null when nothing is, or nothing that the user may see: an uploader of a space sees none. */
  async nodeAt(path: string, s: Scope): Promise<Node | null> {
    try {
      return (await this.#do<Node>({ method: "GET", path: `/nodes?${new URLSearchParams({ path })}` }, s)).value;
    } catch (err) {
      if (isProblem(err, "not-found", "forbidden")) return null;
      throw err;
    }
  }

  /** makeFolder makes a folder and those above it; one that is there is as good. */
  async makeFolder(path: string, s: Scope): Promise<Node> {
    const at = path.lastIndexOf("/");
    try {
      const json = { path, type: "folder", parents: true };
      return (await this.#do<Node>({ method: "POST", path: "/nodes", json, key: true }, s)).value;
    } catch (err) {
      if (!isProblem(err, "name-taken") || at < 0) throw err;
      const there = await this.nodeAt(path, s);
      if (there?.type !== "folder") throw err;
      return there;
    }
  }

  async *#list<T>(path: string, s: Scope, more: Record<string, string> = {}): AsyncGenerator<T> {
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query = new URLSearchParams({ ...more, limit: "1000", ...(cursor ? { cursor } : {}) });
      const page: { items: T[]; next_cursor: string | null } = (await this.#do<typeof page>({ method: "GET", path: `${path}?${query}` }, s)).value;
      yield* page.items;
      cursor = page.next_cursor || null;
    }
  }

  async #delete(path: string, s: Scope): Promise<void> {
    try {
      await this.#do({ method: "DELETE", path }, s);
    } catch (err) {
      if (!isProblem(err, "not-found", "gone")) throw err; // it is away, by whomever
    }
  }

  async #do<T>(c: Call, s: Scope): Promise<Answer<T>> {
    if (c.key) c.headers = { ...c.headers, "Idempotency-Key": randomKey() };
    let doubt = false;
    for (let failures = 0; ; ) {
      try {
        const reply = await this.#try(c, s);
        return { value: parse<T>(reply), status: reply.status, doubt };
      } catch (err) {
        doubt ||= judge(err).doubtful;
        await this.opt.waiter.pause(err, ++failures, s.signal, s.told);
      }
    }
  }

  /** try is one attempt, repeated only after a new log-in. */
  async #try(c: Call, s: Scope): Promise<Reply> {
    for (let first = true; ; first = false) {
      const reply = await this.#send(c, s);
      if (reply.status < 300) {
        if (c.method === "GET") this.opt.waiter.looked();
        else this.opt.waiter.touch();
        return reply;
      }
      const err = readError(reply);
      if (!(first && isProblem(err, "unauthenticated") && this.opt.onLogin)) throw err;
      s.told("login");
      this.#login ??= Promise.resolve(this.opt.onLogin()).finally(() => (this.#login = null));
      if (!(await unless(s.signal, this.#login))) throw err;
    }
  }

  async #send(c: Call, s: Scope): Promise<Reply> {
    const { auth, base, language, stall, transport } = this.opt;
    const headers: Record<string, string> = { ...c.headers };
    if (language) headers["Accept-Language"] = language;
    if ("token" in auth) headers["Authorization"] = `Bearer ${typeof auth.token === "string" ? auth.token : await auth.token()}`;
    const user = "cookie" in auth && auth.user?.();
    if (user) headers["X-Smartdrive-User"] = user;
    let body: Blob | string | undefined = c.body;
    if (c.json !== undefined) {
      headers["Content-Type"] = "application/json";
      body = JSON.stringify(c.json);
    }
    const request = { method: c.method, url: base + c.path, headers, cookies: "cookie" in auth, stall, signal: s.signal };
    return transport({ ...request, ...(body !== undefined && { body }), ...(c.onProgress && { onProgress: c.onProgress }) });
  }
}

function uploadPath(id: string): string {
  return `/uploads/${encodeURIComponent(id)}`;
}

/** escapePath encodes each name by itself. */
/** splitPlace parts a path in a space or shared folder, //NAME/a/b, into the place and /a/b; in one's own drive the place is empty. */
export function splitPlace(path: string): [place: string, below: string] {
  const m = /^\/\/([^/]+)(.*)$/.exec(path);
  return m ? [m[1]!, m[2]!] : ["", path];
}

export function escapePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

function parse<T>(reply: Reply): T {
  if (reply.status === 204 || reply.text === "") return undefined as T;
  if (!reply.header("Content-Type")?.startsWith("application/json")) throw new ProxyError(reply.status, 0);
  try {
    return JSON.parse(reply.text) as T;
  } catch (err) {
    throw new CutError("the answer broke off", { cause: err });
  }
}

function readError(reply: Reply): Problem | ProxyError {
  const wait = retryAfter(reply.header("Retry-After"));
  if (reply.header("Content-Type")?.startsWith("application/problem+json")) {
    try {
      const known = readProblem(reply.status, JSON.parse(reply.text) as Record<string, unknown>, wait);
      if (known) return known;
    } catch {
      // judged by its status
    }
  }
  return new ProxyError(reply.status, wait);
}

function readProblem(status: number, doc: Record<string, unknown>, wait: number): Problem | undefined {
  const { type: _, title, status: __, detail, code, request_id: ___, ...args } = doc;
  return typeof code === "string" && code ? new Problem(status, code, String(detail ?? title ?? code), args, wait) : undefined;
}

/** randomKey needs no secure context. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
