/** A SmartDrive in memory, as far as uploading sees it, with a network in front that fails as it is told to. */
import type { Hasher } from "../src/hash/hasher.ts";
import { localHasher } from "../src/hash/local.ts";
import { CutError } from "../src/problem.ts";
import { type Surroundings, sleep } from "../src/surroundings.ts";
import type { Reply, Request, Transport } from "../src/transport.ts";
import type { Conflict, Node, OpenUpload } from "../src/types.ts";

const never = new AbortController().signal;

export interface Stored {
  bytes: Uint8Array;
  blake3: string;
  node: Node;
}

interface Staged {
  id: string;
  path: string;
  size: number;
  fingerprint: string;
  conflict: Conflict;
  /** of the file that a replace is of; null: none is there */
  replaces: string | null;
  state: "active" | "parked" | "done" | "gone";
  parts: Map<number, Uint8Array>;
  claim: string;
  challenge: { nonce: string; ranges: [number, number][]; of: Uint8Array } | null;
  node: Node | null;
}

/** Fault is what happens to one request. */
export type Fault =
  | { kind: "none" }
  /** the request never arrives */
  | { kind: "lost-request" }
  /** it is carried out, and nobody hears of it */
  | { kind: "lost-reply" }
  | { kind: "answer"; status: number; code?: string; retryAfter?: number; args?: Record<string, unknown> };

/** FakeServer holds files by path, and uploads. */
export class FakeServer {
  files = new Map<string, Stored>();
  folders = new Set<string>(["/"]);
  uploads = new Map<string, Staged>();
  /** content of other people, that a claim may hit */
  others: Uint8Array[] = [];
  partSize = 16 << 10;
  quota = Infinity;
  /** whole part and file bodies that came although they were there already */
  needless = 0;
  /** bodies that arrived whole */
  bodies = 0;
  requests: string[] = [];
  /** whether batches are taken */
  batches = true;
  /** how many items came in batches, and how many files were stored, replaced ones included */
  items = 0;
  stored = 0;
  inFlight = 0;
  mostInFlight = 0;
  fault: (r: Request) => Fault = () => ({ kind: "none" });
  delay: (r: Request) => number = () => 0;
  /** what happens before a request is carried out */
  before: (r: Request) => Promise<unknown> | undefined = () => undefined;
  #keys = new Map<string, Reply>();
  #lines = new Map<string, string>(); // answers to items, by key and number
  #ids = 0;

  transport: Transport = async (r) => {
    const path = new URL(r.url, "http://fake").pathname.replace(/^\/api\/v1/, "");
    this.requests.push(`${r.method} ${path}`);
    const hasBytes = r.body instanceof Blob;
    if (hasBytes) this.mostInFlight = Math.max(this.mostInFlight, ++this.inFlight);
    try {
      const fault = this.fault(r);
      await sleep(this.delay(r), r.signal);
      if (hasBytes) r.onProgress?.(Math.floor((r.body as Blob).size / 2));
      if (fault.kind === "lost-request") throw new CutError("lost");
      if (fault.kind === "answer") return answer(fault);
      await this.before(r);
      const reply = await this.#once(r, path);
      r.signal.throwIfAborted();
      if (fault.kind === "lost-reply") throw new CutError("lost");
      return reply;
    } finally {
      if (hasBytes) this.inFlight--;
    }
  };

  async #once(r: Request, path: string): Promise<Reply> {
    const key = r.headers["Idempotency-Key"];
    const known = key && path !== "/batch" && this.#keys.get(key);
    if (known) return known;
    const reply = await this.#handle(r, path);
    if (key && reply.status < 300) this.#keys.set(key, reply);
    return reply;
  }

  async #handle(r: Request, path: string): Promise<Reply> {
    const query = new URL(r.url, "http://fake").searchParams;
    const body = typeof r.body === "string" ? JSON.parse(r.body) : {};
    const [, head, id, tail, n] = path.split("/");
    if (head === "batch") return this.batches ? this.#batch(r) : problem(404, "not-found");
    const place = query.get("space");
    if (head === "files") return this.#putFile(r, (place ? `//${place}` : "") + decodeURIComponent(path.slice("/files".length)), query);
    if (head === "nodes" && r.method === "GET") {
      const at = this.files.get(query.get("path") ?? "");
      return at ? json(200, at.node) : problem(404, "not-found");
    }
    if (head === "nodes") {
      this.folders.add(body.path);
      return json(201, { type: "folder", id: `f${this.folders.size}`, path: body.path });
    }
    if (!id) return r.method === "POST" ? this.#begin(body) : json(200, { items: this.#open().map((u) => ({ ...view(u, this.partSize), received: [] })), next_cursor: null });
    const up = this.uploads.get(id);
    if (!up) return problem(404, "not-found");
    if (up.state === "gone") return problem(410, "gone");
    if (!tail) return this.#one(r, up, body);
    if (tail === "complete") return this.#complete(up, body);
    if (tail === "proof") return this.#prove(up, body);
    if (n === undefined) {
      const items = [];
      for (const [i, bytes] of up.parts) items.push({ n: i, size: bytes.length, crc32: (await localHasher.sums(blob(bytes), "crc32c", never)).crc32, cv: null });
      return json(200, { items, next_cursor: null });
    }
    return this.#part(r, up, Number(n));
  }

  #open(): Staged[] {
    return [...this.uploads.values()].filter((u) => u.state === "active" || u.state === "parked");
  }

  #begin(b: { path: string; size: number; fingerprint?: string; conflict?: Conflict }): Reply {
    for (const u of this.#open()) {
      if (u.path === b.path && u.size === b.size && b.fingerprint && u.fingerprint === b.fingerprint) return json(200, view(u, this.partSize));
    }
    const conflict = b.conflict ?? "fail";
    if (conflict === "fail" && this.files.has(b.path)) return problem(409, "name-taken");
    const used = [...this.files.values()].reduce((sum, f) => sum + f.bytes.length, 0) + this.#open().reduce((sum, u) => sum + u.size, 0);
    if (used + b.size > this.quota) return problem(507, "quota", { needed: b.size, available: this.quota - used });
    const up: Staged = {
      id: `u${++this.#ids}`, path: b.path, size: b.size, fingerprint: b.fingerprint ?? "", conflict, replaces: this.#there(b.path),
      state: "active", parts: new Map(), claim: "", challenge: null, node: null,
    };
    this.uploads.set(up.id, up);
    return json(201, view(up, this.partSize));
  }

  async #one(r: Request, up: Staged, body: { digests?: { blake3?: string }; conflict?: Conflict; parent?: string }): Promise<Reply> {
    if (r.method === "DELETE") {
      if (up.state === "done") return problem(409, "state", { state: "done" });
      up.state = "gone";
      return empty();
    }
    if (r.method === "PATCH" && up.state !== "done") {
      this.#choose(up, body.conflict);
      const claim = body.digests?.blake3;
      for (const bytes of claim ? this.others : []) {
        if ((await digestOf(bytes)) !== claim) continue;
        up.claim = claim ?? "";
        up.challenge = { nonce: "5a".repeat(32), ranges: [[0, 100], [bytes.length - 50, 50]], of: bytes };
      }
    }
    return json(200, view(up, this.partSize));
  }

  async #prove(up: Staged, body: { answer: string }): Promise<Reply> {
    const c = up.challenge;
    up.challenge = null;
    if (!c || up.state === "done") return json(200, view(up, this.partSize));
    const right = await localHasher.answer(blob(c.of), { ...c, expires_at: "" }, never);
    if (right !== body.answer) return json(200, view(up, this.partSize));
    return json(201, await this.#finish(up, c.of));
  }

  async #part(r: Request, up: Staged, n: number): Promise<Reply> {
    if (up.state === "done") return problem(409, "state", { state: "done" });
    if (r.method === "DELETE") {
      up.parts.delete(n);
      return empty();
    }
    const bytes = new Uint8Array(await (r.body as Blob).arrayBuffer());
    const want = Math.min(this.partSize, up.size - n * this.partSize);
    if (bytes.length !== want) return problem(400, "part-size", { sent: bytes.length, limit: want });
    const { check } = await localHasher.sums(blob(bytes), "crc32c", never);
    if (r.headers["Content-Digest"] !== check) return problem(422, "digest-mismatch");
    r.signal.throwIfAborted();
    this.bodies++;
    up.state = "active";
    const have = up.parts.get(n);
    if (have) {
      this.needless++;
      return same(have, bytes) ? empty() : problem(409, "part-differs");
    }
    up.parts.set(n, bytes);
    return empty();
  }

  async #complete(up: Staged, body: { digests?: { blake3?: string }; conflict?: Conflict }): Promise<Reply> {
    if (up.state === "done") return json(200, view(up, this.partSize));
    const count = Math.ceil(up.size / this.partSize);
    const missing = Array.from({ length: count }, (_, n) => n).filter((n) => !up.parts.has(n)).map((n) => [n, n]);
    if (missing.length > 0) return problem(409, "parts-missing", { missing });
    const bytes = new Uint8Array(up.size);
    for (const [n, part] of up.parts) bytes.set(part, n * this.partSize);
    if (body.digests?.blake3 !== (await digestOf(bytes))) return problem(422, "digest-mismatch");
    if ((body.conflict ?? up.conflict) === "fail" && this.files.has(up.path)) return problem(409, "name-taken");
    this.#choose(up, body.conflict);
    if (up.conflict === "replace" && up.replaces !== this.#there(up.path)) return problem(409, "version-changed");
    return json(201, await this.#finish(up, bytes));
  }

  /** choose notes what a replace is of: what is there when it is asked for. */
  #choose(up: Staged, conflict: Conflict | undefined): void {
    if (!conflict) return;
    up.conflict = conflict;
    up.replaces = this.#there(up.path);
  }

  #there(path: string): string | null {
    return this.files.get(path)?.node.id ?? null;
  }

  /** store puts a file, as somebody else does. */
  store(path: string, bytes: Uint8Array): Promise<Node> {
    return this.#store(path, bytes);
  }

  async #finish(up: Staged, bytes: Uint8Array): Promise<OpenUpload> {
    up.node ??= await this.#store(up.conflict === "rename" ? this.#free(up.path) : up.path, bytes);
    up.state = "done";
    return view(up, this.partSize);
  }

  async #putFile(r: Request, path: string, query: URLSearchParams): Promise<Reply> {
    const bytes = new Uint8Array(await (r.body as Blob).arrayBuffer());
    if (r.headers["Content-Digest"] !== (await localHasher.sums(blob(bytes), "crc32c", never)).check) return problem(422, "digest-mismatch");
    r.signal.throwIfAborted();
    this.bodies++;
    const there = this.files.get(path);
    if (there && same(there.bytes, bytes)) this.needless++;
    if (there && query.get("conflict") === "fail") return problem(409, "name-taken");
    return json(201, await this.#store(path, bytes));
  }

  /** batch is that of docs/formats/batch.md, of put alone. */
  async #batch(r: Request): Promise<Reply> {
    const bytes = new Uint8Array(await (r.body as Blob).arrayBuffer());
    const key = r.headers["Idempotency-Key"];
    let text = "";
    for (let at = 0; at < bytes.length; ) {
      const end = bytes.indexOf(10, at);
      const item = JSON.parse(new TextDecoder().decode(bytes.subarray(at, end))) as { n: number; op: string; path: string; size: number; conflict: string; digests: { blake3: string } };
      const content = bytes.slice(end + 1, end + 1 + item.size);
      at = end + 1 + item.size;
      const id = `${key} ${item.n}`;
      if (!this.#lines.has(id)) this.#lines.set(id, await this.#item(r, item, content));
      text += this.#lines.get(id) + "\n";
    }
    return reply(200, "application/x-ndjson", text + JSON.stringify({ status: 200 }) + "\n");
  }

  async #item(r: Request, item: { n: number; path: string; conflict: string; digests: { blake3: string } }, content: Uint8Array): Promise<string> {
    this.items++;
    const refuse = (status: number, code: string) => JSON.stringify({ n: item.n, status, problem: { code, status, title: code } });
    if ((await digestOf(content)) !== item.digests.blake3) return refuse(422, "digest-mismatch");
    r.signal.throwIfAborted();
    if (this.files.has(item.path) && item.conflict === "fail") return refuse(409, "name-taken");
    return JSON.stringify({ n: item.n, status: 201, node: await this.#store(item.path, content) });
  }

  async #store(path: string, bytes: Uint8Array): Promise<Node> {
    const blake3 = await digestOf(bytes);
    this.stored++;
    const name = path.slice(path.lastIndexOf("/") + 1);
    const node: Node = { id: `n${++this.#ids}`, parent_id: "", name, path, type: "file", size: bytes.length, mime: "", mtime: "", digests: { blake3 } };
    this.files.set(path, { bytes, blake3, node });
    return node;
  }

  #free(path: string): string {
    for (let n = 2, at = path; ; n++) {
      if (!this.files.has(at)) return at;
      at = `${path} (${n})`;
    }
  }
}

/** readAll is a hasher, and what resolves when it has read so many files. */
export function readAll(files: number): { hasher: Hasher; read: Promise<void> } {
  let all = () => {};
  const read = new Promise<void>((resolve) => (all = resolve));
  const scan: Hasher["scan"] = async (...args) => {
    const digests = await localHasher.scan(...args);
    if (--files === 0) all();
    return digests;
  };
  return { hasher: { ...localHasher, scan }, read };
}

export const blob = (bytes: Uint8Array): Blob => new Blob([bytes as BlobPart]);

export async function digestOf(bytes: Uint8Array): Promise<string> {
  const d = await localHasher.scan(blob(bytes), { partSize: 1 << 30, check: "crc32c", crc32: false, md5: false }, () => {}, never);
  return d.blake3 ?? "";
}

export function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

function view(u: Staged, partSize: number): OpenUpload {
  const v: OpenUpload = {
    id: u.id, state: u.state, path: u.path, size: u.size, part_size: partSize, parts: Math.ceil(u.size / partSize),
    received: [...u.parts.keys()].sort((a, b) => a - b).map((n) => [n, n]), reserved: 0, expires_at: "2026-12-01T00:00:00.000Z", conflict: u.conflict,
  };
  if (u.challenge) v.challenge = { nonce: u.challenge.nonce, ranges: u.challenge.ranges, expires_at: "" };
  if (u.node) v.node = u.node;
  return v;
}

function reply(status: number, type: string, text: string, headers: Record<string, string> = {}): Reply {
  const all: Record<string, string> = { "content-type": type, ...headers };
  return { status, text, header: (name) => all[name.toLowerCase()] ?? null };
}

const json = (status: number, value: unknown) => reply(status, "application/json", JSON.stringify(value));
const empty = () => reply(204, "", "");
const problem = (status: number, code: string, args: object = {}, headers = {}) =>
  reply(status, "application/problem+json", JSON.stringify({ type: `/problems/${code}`, title: code, status, detail: `it is ${code}`, code, request_id: "r", ...args }), headers);

function answer(f: Extract<Fault, { kind: "answer" }>): Reply {
  const headers: Record<string, string> = f.retryAfter ? { "retry-after": String(f.retryAfter) } : {};
  return f.code ? problem(f.status, f.code, f.args, headers) : reply(f.status, "text/html", "<h1>proxy</h1>", headers);
}

/** Random is a small generator with a seed, so that a failing run can be run again (mulberry32). */
export function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** FakeWorld is a world whose time runs two hundred times as fast, with a network that can be unplugged. */
export class FakeWorld implements Surroundings {
  up = true;
  speaks = "http/1.1";
  slept: number[] = [];
  #listeners = new Set<(online: boolean) => void>();

  constructor(
    readonly random: () => number,
    readonly speed = 200,
  ) {}

  now = () => performance.now() * this.speed;
  sleep = (ms: number, signal: AbortSignal) => {
    this.slept.push(ms);
    return sleep(ms / this.speed, signal);
  };
  online = () => this.up;
  onOnline = (fn: (online: boolean) => void) => {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  };
  protocol = () => this.speaks;

  plug(up: boolean): void {
    this.up = up;
    for (const fn of this.#listeners) fn(up);
  }
}

/** bytesOf makes content that is everywhere different (xorshift32). */
export function bytesOf(size: number, seed: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(size / 4));
  let x = (seed + 1) * 2654435761;
  for (let i = 0; i < words.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[i] = x;
  }
  return new Uint8Array(words.buffer, 0, size);
}

export function fileOf(bytes: Uint8Array, name: string, lastModified = 1_700_000_000_000): File {
  return new File([bytes as BlobPart], name, { lastModified, type: "application/x-test" });
}
