import { Api } from "./api.ts";
import { Batcher, batchedAtOnce } from "./batch.ts";
import { Conflicts } from "./conflicts.ts";
import { Emitter } from "./emitter.ts";
import { fromDrop, fromInput } from "./folder.ts";
import { type Handles, fileOf, noHandles, openHandles } from "./handles.ts";
import type { Hasher } from "./hash/hasher.ts";
import { defaultHasher } from "./hash/remote.ts";
import { Item, type Owner } from "./item.ts";
import { Rate, eta } from "./meter.ts";
import { isProblem } from "./problem.ts";
import { Waiter } from "./retry.ts";
import { Schedule } from "./schedule.ts";
import { Slots } from "./slots.ts";
import { type Surroundings, browser } from "./surroundings.ts";
import type { Deps } from "./task.ts";
import { type Transport, defaultTransport } from "./transport.ts";
import type { AddOptions, Events, ItemView, Need, OpenUpload, Pick, State, Summary, UploaderOptions } from "./types.ts";

/** Internals may be replaced by tests, and by programs that are no browser. */
export interface Internals {
  transport?: Transport;
  surroundings?: Surroundings;
  hasher?: Hasher;
  handles?: Handles;
}

const tick = 200; // ms between progress events
const mostAsked = 100; // uploads of which restore asks how much has arrived

/**
 * Uploader sends files to SmartDrive. It has a queue; items are added to it, seen as ItemView, and steered by their id.
 *
 * Nothing that interrupts it costs more than the parts that were on their way: what has arrived is kept by the server and found
 * again, by this page, the next visit, another tab, or the command line.
 */
export class Uploader extends Emitter<Events> {
  readonly #opt: Required<Omit<UploaderOptions, "partSize" | "language" | "onConflict" | "onLogin">> & UploaderOptions;
  readonly #env: Surroundings;
  readonly #deps: Deps;
  readonly #conflicts: Conflicts;
  readonly #handles: Handles;
  readonly #items = new Map<string, Item>();
  readonly #unfinished = new Map<string, Item>(); // by path
  readonly #schedule: Schedule;
  readonly #closed = new AbortController();
  readonly #rate: Rate;
  readonly #owner: Owner;
  #next = 1;
  #timer: ReturnType<typeof setInterval> | undefined;
  #protocol = { known: "", asked: -Infinity };

  constructor(options: UploaderOptions, internals: Internals = {}) {
    super();
    const o = (this.#opt = { ...defaults, ...options });
    const env = (this.#env = internals.surroundings ?? browser);
    const base = o.base.replace(/\/+$/, "");
    const waiter = new Waiter(env, o.giveUp);
    const api = new Api({
      base,
      auth: o.auth,
      language: o.language,
      stall: o.stall,
      transport: internals.transport ?? defaultTransport,
      waiter,
      onLogin: o.onLogin,
    });
    const slots = new Slots(env, () => (this.#speaksH2(base) ? o.connectionsH2 : o.connections));
    const batcher = o.together && o.lookUp ? new Batcher(api, slots, waiter, this.#closed.signal) : null;
    this.#deps = {
      api,
      hasher: internals.hasher ?? defaultHasher(),
      slots,
      waiter,
      batcher,
      env,
      smallFile: o.smallFile,
      partSize: o.partSize,
      check: o.check,
      md5: o.md5,
      lookUp: o.lookUp,
    };
    const tiny = {
      is: (item: Item) => item.uploadId === null && (batcher?.takes(item.size, item.target) ?? false),
      most: () => (batcher?.able ? batchedAtOnce : 0),
    };
    this.#schedule = new Schedule(o.smallFile, () => slots.limit, tiny, () => this.#busy());
    this.#conflicts = new Conflicts(o.onConflict);
    this.#handles = o.remember ? (internals.handles ?? openHandles()) : noHandles;
    this.#rate = new Rate(env.now());
    this.#owner = {
      deps: this.#deps,
      changed: (item, from) => this.#changed(item, from),
      moved: (_, bytes) => this.#rate.add(bytes),
      upload: (item, id) => this.#known(item, id),
      ask: (item, signal) => this.#conflicts.ask({ itemId: item.id, path: item.path, size: item.size, file: item.file }, signal),
    };
  }

  /** items in the order in which they were added. They are live: what they say changes. */
  get items(): readonly ItemView[] {
    return [...this.#items.values()];
  }

  get(id: string): ItemView | undefined {
    return this.#items.get(id);
  }

  /** add puts files into the queue. A file that is in it already, at the same place, is not added again. */
  add(picks: Iterable<Pick>, o: AddOptions): ItemView[] {
    const folder = o.folder.replace(/\/+$/, "");
    const items: Item[] = [];
    const added: Item[] = [];
    for (const { file, path, handle } of picks) {
      const at = `${folder}/${(o.flat ?? this.#opt.flat) ? file.name : (path ?? file.name)}`;
      const same = this.#unfinished.get(at);
      if (same?.file && same.size === file.size && same.file.lastModified === file.lastModified) {
        items.push(same);
        continue;
      }
      const item = this.#make(at, file.size, file, { kind: "waiting", why: "queue" }, o);
      item.handle = handle ?? null;
      this.#unfinished.set(at, item);
      items.push(item);
      added.push(item);
    }
    if (added.length > 0) this.emit("added", { items: added });
    for (const item of added) this.#enqueue(item);
    return items;
  }

  /** addFiles puts the files of an <input type="file"> into the queue, with webkitdirectory their folders too. */
  addFiles(files: Iterable<File>, o: AddOptions): ItemView[] {
    return this.add(fromInput(files), o);
  }

  /**
   * addDrop puts what was dropped into the queue, folders with their structure. What the browser cannot read has failed at once. Call it
   * in the drop event itself.
   */
  async addDrop(data: DataTransfer, o: AddOptions): Promise<ItemView[]> {
    const found = await fromDrop(data);
    const items = this.add(found.files, o);
    const folder = o.folder.replace(/\/+$/, "");
    const lost: State = { kind: "failed", why: "file-unreadable", detail: "the browser cannot read it", retryable: false };
    const unread = found.unreadable.map((path) => this.#make(`${folder}/${path}`, 0, null, lost, o));
    if (unread.length > 0) this.emit("added", { items: unread });
    items.push(...unread);
    const scope = { signal: this.#closed.signal, told: () => {} };
    for (const path of (o.flat ?? this.#opt.flat) ? [] : found.empty) await this.#deps.api.makeFolder(`${folder}/${path}`, scope);
    return items;
  }

  /**
   * restore finds the uploads that the server keeps open: of an earlier visit, another browser, another program. They become
   * parked items. Where the browser remembers the file and may read it, they go on by themselves. places are spaces, by name or id,
   * in which the user may have sent something, too; one that is not there any more has nothing.
   */
  async restore(places: readonly string[] = []): Promise<ItemView[]> {
    const scope = { signal: this.#closed.signal, told: () => {} };
    const open: OpenUpload[] = [];
    for (const place of ["", ...places]) {
      try {
        for await (const up of this.#deps.api.uploads(scope, place)) if (up.size !== null && up.state !== "waiting") open.push(up);
      } catch (err) {
        if (!place || !isProblem(err, "not-found", "forbidden")) throw err;
      }
    }
    const ids = new Set(open.map((up) => up.id));
    await this.#handles.tidy();
    const known = new Map([...this.#items.values()].map((item) => [item.uploadId, item]));
    for (const [id, item] of known) if (id && !ids.has(id) && item.state.kind === "parked") this.remove(item.id);
    const added: Item[] = [];
    for (const up of open) {
      if (known.has(up.id)) continue;
      const handle = await this.#handles.get(up.id);
      const file = handle && (await fileOf(handle, false));
      const full = open.length <= mostAsked ? await this.#deps.api.upload(up.id, scope).catch(() => up) : up;
      const needs: Need = handle ? "permission" : "file";
      const item = this.#make(up.path, up.size ?? 0, null, { kind: "parked", needs, bytes: arrived(full), until: full.expires_at }, {});
      item.uploadId = up.id;
      item.handle = handle;
      added.push(item);
      if (file) queueMicrotask(() => this.provide(item.id, file));
    }
    if (added.length > 0) this.emit("added", { items: added });
    return added;
  }

  /** provide gives a parked item its file. It is compared with what the server has before more is sent. */
  provide(id: string, file: File, handle?: FileSystemFileHandle): void {
    const item = this.#need(id);
    if (item.state.kind !== "parked" && item.state.kind !== "failed") return;
    if (file.size !== item.size) {
      const detail = `the file has ${file.size} bytes, the upload ${item.size}`;
      return item.set({ kind: "failed", why: "file-changed", detail, retryable: false });
    }
    item.give(file);
    if (handle) this.#remember(item, handle);
    this.#enqueue(item);
  }

  /** permit asks for leave to read the file of a parked item; call it in a click. false: it was not given. */
  async permit(id: string): Promise<boolean> {
    const item = this.#need(id);
    const file = item.handle && (await fileOf(item.handle, true));
    if (file) this.provide(id, file);
    return file !== null;
  }

  /** pause stops items; what has arrived stays on the server. Without an id: all. */
  async pause(id?: string): Promise<void> {
    await Promise.all(this.#some(id).map((item) => this.#halt(item)));
  }

  /** resume lets paused items go on. Without an id: all. */
  resume(id?: string): void {
    for (const item of this.#some(id)) if (item.state.kind === "paused" && item.file) this.#enqueue(item);
  }

  /** retry lets items go on that have failed or found no space. Without an id: all. Those that wait try at once. */
  retry(id?: string): void {
    this.#deps.waiter.wake();
    for (const item of this.#some(id)) {
      const { state } = item;
      if (item.file && (state.kind === "no-space" || (state.kind === "failed" && (state.retryable || id)))) this.#enqueue(item);
    }
  }

  /**
   * cancel stops an item and takes back what the server has of it. Where that comes too late the item is done. It rejects when the
   * server cannot be told.
   */
  async cancel(id: string): Promise<void> {
    const item = this.#need(id);
    if (item.final) return;
    this.#schedule.drop(item);
    await item.halt({ kind: "cancelled" });
    if (item.state.kind === "cancelled") await item.withdraw(this.#closed.signal);
  }

  /** setPriority: the higher, the earlier; of a running item its next parts go first. */
  setPriority(id: string, priority: number): void {
    const item = this.#need(id);
    const queued = this.#schedule.drop(item);
    item.priority = priority;
    if (queued) this.#enqueue(item);
  }

  /** remove takes an item off the list that is not running. */
  remove(id: string): void {
    const item = this.#items.get(id);
    if (!item || item.running) return;
    this.#schedule.drop(item);
    this.#forget(item);
    this.#items.delete(id);
    this.emit("removed", { item });
  }

  /** clear takes everything off the list that has ended well or was given up. */
  clear(): void {
    for (const item of [...this.#items.values()]) if (item.final) this.remove(item.id);
  }

  summary(): Summary {
    const now = this.#env.now();
    const total: Summary = { items: this.#items.size, finished: 0, failed: 0, size: 0, bytes: 0, rate: this.#rate.at(now), eta: null };
    for (const item of this.#items.values()) {
      const { kind } = item;
      if (kind === "failed" || kind === "no-space") total.failed++;
      if (item.final) total.finished++;
      if (kind === "cancelled" || kind === "skipped") continue;
      total.size += item.size;
      total.bytes += item.bytes;
    }
    total.eta = eta(total.size - total.bytes, total.rate);
    return total;
  }

  /** idle resolves when nothing is left to do by itself. */
  async idle(): Promise<void> {
    while (!this.#schedule.idle) {
      await new Promise<void>((resolve) => {
        const off = this.on("idle", () => {
          off();
          resolve();
        });
      });
    }
  }

  /** close stops everything. What has arrived stays on the server. */
  async close(): Promise<void> {
    await this.pause();
    this.#closed.abort(new Error("the uploader was closed"));
    await this.#deps.batcher?.rest();
    clearInterval(this.#timer);
    this.#deps.waiter.close();
    this.#deps.hasher.close();
  }

  #make(path: string, size: number, file: File | null, state: State, o: Partial<AddOptions>): Item {
    const item = new Item(String(this.#next++), this.#owner, path, size, o.conflict ?? null, o.priority ?? 0, file, state);
    this.#items.set(item.id, item);
    return item;
  }

  #need(id: string): Item {
    const item = this.#items.get(id);
    if (!item) throw new RangeError(`there is no item ${id}`);
    return item;
  }

  #some(id: string | undefined): Item[] {
    return id === undefined ? [...this.#items.values()] : [this.#need(id)];
  }

  #enqueue(item: Item): void {
    item.set({ kind: "waiting", why: "queue" });
    this.#schedule.push(item);
  }

  async #halt(item: Item): Promise<void> {
    const queued = this.#schedule.drop(item);
    if (queued || item.running) await item.halt({ kind: "paused", bytes: item.bytes });
  }

  /** busy is told by the schedule whenever it has started what may be started. */
  #busy(): void {
    if (this.#schedule.running.size > 0) {
      this.#timer ??= setInterval(() => this.#tell(), tick);
      return;
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#conflicts.reset();
    this.emit("idle", { total: this.summary() });
  }

  #tell(): void {
    this.emit("progress", { items: [...this.#schedule.running], total: this.summary() });
  }

  #changed(item: Item, from: State): void {
    if (item.final) this.#forget(item);
    this.emit("state", { item, from: from.kind });
  }

  /** forget drops what is kept for an item that has ended. */
  #forget(item: Item): void {
    if (this.#unfinished.get(item.target) === item) this.#unfinished.delete(item.target);
    if (item.final && item.uploadId) void this.#handles.delete(item.uploadId);
  }

  /** known: an item's upload has an id. A parked item of the same upload is the same file. */
  #known(item: Item, id: string | null): void {
    if (!id) return;
    if (item.handle) this.#remember(item, item.handle);
    for (const other of this.#items.values()) {
      if (other !== item && other.uploadId === id && other.state.kind === "parked") this.remove(other.id);
    }
  }

  #remember(item: Item, handle: FileSystemFileHandle): void {
    item.handle = handle;
    if (item.uploadId) void this.#handles.put(item.uploadId, handle);
  }

  #speaksH2(base: string): boolean {
    const now = this.#env.now();
    if (!this.#protocol.known && now - this.#protocol.asked > 2000) {
      this.#protocol = { known: this.#env.protocol(base), asked: now };
    }
    return /^h[23]/.test(this.#protocol.known);
  }
}

const defaults = {
  base: "/api/v1",
  connections: 4,
  connectionsH2: 8,
  smallFile: 4 << 20,
  together: true,
  check: "crc32c",
  md5: false,
  giveUp: 15 * 60_000,
  stall: 30_000,
  lookUp: true,
  flat: false,
  remember: true,
} as const;

function arrived(up: OpenUpload): number {
  let bytes = 0;
  for (const [first, last] of up.received) {
    bytes += (last - first + 1) * up.part_size;
    if (last === up.parts - 1 && up.size !== null) bytes += up.size - up.parts * up.part_size;
  }
  return bytes;
}
