/** What only browsers have, with stand-ins: drops, file handles, workers. */
import { describe, expect, it } from "vitest";
import { type Handles, RemoteHasher, Uploader, fromDrop, fromInput, localHasher } from "../src/index.ts";
import { LocalError } from "../src/problem.ts";
import { FakeServer, FakeWorld, bytesOf, fileOf, random, same } from "./fake.ts";

const never = new AbortController().signal;

/** A Tree is a directory; null is what cannot be read, an error what cannot be listed. */
type Tree = { [name: string]: Tree | string | null | Error };

/** entry is a FileSystemEntry over a tree; directories hand out two at a time. */
function entry(name: string, what: Tree[string]): FileSystemEntry {
  if (what === null) return { isFile: true, name, file: (_: unknown, no: (e: Error) => void) => no(new Error("gone")) } as unknown as FileSystemEntry;
  if (what instanceof Error) return { isFile: false, name, createReader: () => ({ readEntries: (_: unknown, no: (e: Error) => void) => no(what) }) } as unknown as FileSystemEntry;
  if (typeof what === "string") return { isFile: true, name, file: (ok: (f: File) => void) => ok(new File([what], name)) } as unknown as FileSystemEntry;
  const createReader = () => {
    const left = Object.entries(what).map(([n, w]) => entry(n, w));
    return { readEntries: (ok: (some: FileSystemEntry[]) => void) => ok(left.splice(0, 2)) };
  };
  return { isFile: false, name, createReader } as unknown as FileSystemEntry;
}

describe("what is dropped", () => {
  it("keeps its structure, however many entries a directory hands out at a time", async () => {
    const tree: Tree = { a: "1", b: "2", c: "3", d: { e: "4", f: {}, g: { h: "5" } } };
    const items = [
      { kind: "file", webkitGetAsEntry: () => entry("top", tree), getAsFile: () => null },
      { kind: "string", webkitGetAsEntry: () => null, getAsFile: () => null },
      { kind: "file", webkitGetAsEntry: () => null, getAsFile: () => new File(["x"], "plain") },
    ];
    const found = await fromDrop({ items } as unknown as DataTransfer);
    expect(found.files.map((f) => f.path)).toEqual(["top/a", "top/b", "top/c", "top/d/e", "top/d/g/h", "plain"]);
    expect(found.empty).toEqual(["top/d/f"]);
  });

  it("goes without what cannot be read, which is said", async () => {
    const server = new FakeServer();
    const up = new Uploader({ auth: { cookie: true }, base: "/api/v1", together: false }, { transport: server.transport, surroundings: new FakeWorld(random(1)), hasher: localHasher });
    const items = [{ kind: "file", webkitGetAsEntry: () => entry("top", { a: "1", gone: null, shut: new Error("no leave"), z: "2" }), getAsFile: () => null }];
    const added = await up.addDrop({ items } as unknown as DataTransfer, { folder: "/" });
    await up.idle();
    expect([...server.files.keys()].sort()).toEqual(["/top/a", "/top/z"]);
    expect(added.map((i) => [i.path, i.state.kind])).toEqual([["/top/a", "done"], ["/top/z", "done"], ["/top/gone", "failed"], ["/top/shut", "failed"]]);
    await up.cancel(added[2]!.id);
    expect(added[2]!.state.kind).toBe("cancelled");
    await up.close();
  });

  it("of an input with webkitdirectory likewise", () => {
    const file = fileOf(bytesOf(1, 1), "x");
    Object.defineProperty(file, "webkitRelativePath", { value: "dir/sub/x" });
    expect(fromInput([file])[0]!.path).toBe("dir/sub/x");
  });
});

describe("a file handle from the last visit", () => {
  /** visit starts an upload that does not end, and returns what the next visit finds. */
  async function interrupted(leave: PermissionState) {
    const server = new FakeServer();
    server.delay = () => 2;
    const bytes = bytesOf(40 * server.partSize, 3);
    const kept = new Map<string, FileSystemFileHandle>();
    const handles: Handles = {
      get: async (id) => kept.get(id) ?? null,
      put: async (id, h) => void kept.set(id, h),
      delete: async (id) => void kept.delete(id),
      tidy: async () => {},
    };
    const handle = { kind: "file", getFile: async () => fileOf(bytes, "x"), queryPermission: async () => leave, requestPermission: async () => "granted" };
    const visit = () =>
      new Uploader({ auth: { cookie: true }, base: "/api/v1", smallFile: 0 }, { transport: server.transport, surroundings: new FakeWorld(random(1)), hasher: localHasher, handles });
    const first = visit();
    first.add([{ file: fileOf(bytes, "x"), handle: handle as unknown as FileSystemFileHandle }], { folder: "/" });
    while (server.bodies < 10) await new Promise((resolve) => setTimeout(resolve, 1));
    await first.close();
    expect(kept.size).toBe(1);
    return { server, bytes, kept, up: visit() };
  }

  it("lets the upload go on by itself where it may be read", async () => {
    const { server, bytes, kept, up } = await interrupted("granted");
    await up.restore();
    await new Promise((resolve) => setTimeout(resolve, 0));
    await up.idle();
    expect(up.items[0]!.state.kind).toBe("done");
    expect(same(server.files.get("/x")!.bytes, bytes)).toBe(true);
    expect(server.needless).toBe(0);
    expect(kept.size).toBe(0);
    await up.close();
  });

  it("asks for leave first where it must", async () => {
    const { up } = await interrupted("prompt");
    const [item] = await up.restore();
    expect(item!.state).toMatchObject({ kind: "parked", needs: "permission" });
    expect(await up.permit(item!.id)).toBe(true);
    await up.idle();
    expect(item!.state.kind).toBe("done");
    await up.close();
  });
});

/** HereWorker runs the worker's own script in this thread, with its messages going through structuredClone. */
class HereWorker {
  onmessage: ((e: { data: unknown }) => void) | null = null;
  onerror: (() => void) | null = null;
  terminate() {}
  postMessage(data: unknown) {
    const inner = globalThis as unknown as { onmessage(e: { data: unknown }): void; postMessage(m: unknown): void };
    inner.postMessage = (m) => queueMicrotask(() => this.onmessage?.({ data: structuredClone(m) }));
    queueMicrotask(() => inner.onmessage({ data }));
  }
}

describe("the worker", () => {
  it("gives the same answers as hashing here, stops when told, and reports what it cannot read", async () => {
    await import("../src/hash/worker.ts");
    const hasher = new RemoteHasher(() => new HereWorker() as unknown as Worker);
    const file = fileOf(bytesOf(100_000, 9), "x");
    const o = { partSize: 30_000, check: "crc32c", crc32: true, md5: true } as const;
    const all = async (h: typeof localHasher | RemoteHasher) => {
      const parts: unknown[] = [];
      return [await h.scan(file, o, (n, s) => parts.push([n, s]), never), parts, await h.sums(file, "sha-256", never), await h.fingerprint(file, never)];
    };
    expect(await all(hasher)).toEqual(await all(localHasher));
    const challenge = { nonce: "ab".repeat(32), ranges: [[5, 10]] as [number, number][], expires_at: "" };
    expect(await hasher.answer(file, challenge, never)).toBe(await localHasher.answer(file, challenge, never));

    const stop = new AbortController();
    const scan = hasher.scan(file, o, () => {}, stop.signal);
    stop.abort(new Error("enough"));
    await expect(scan).rejects.toThrow("enough");
    const bad = { ...challenge, ranges: [[0, 1 << 30]] as [number, number][] };
    await expect(hasher.answer(file, bad, never)).rejects.toBeInstanceOf(LocalError);
  });

  it("that does not start is replaced by hashing on the page", async () => {
    class Dead extends HereWorker {
      override postMessage() {
        queueMicrotask(() => this.onerror?.());
      }
    }
    const file = fileOf(bytesOf(1000, 9), "x");
    const dead = new RemoteHasher(() => new Dead() as unknown as Worker);
    expect(await dead.fingerprint(file, never)).toBe(await localHasher.fingerprint(file, never));
    const none = new RemoteHasher(() => {
      throw new Error("no workers here");
    });
    expect(await none.fingerprint(file, never)).toBe(await localHasher.fingerprint(file, never));
  });
});
