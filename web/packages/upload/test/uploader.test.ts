import { afterEach, describe, expect, it } from "vitest";
import { type Internals, type ItemView, type State, Uploader, type UploaderOptions, localHasher, noHandles } from "../src/index.ts";
import { FakeServer, FakeWorld, bytesOf, digestOf, fileOf, random, same } from "./fake.ts";

const open: Uploader[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((u) => u.close()));
});

function start(server: FakeServer, o: Partial<UploaderOptions> = {}, world = new FakeWorld(random(1)), more: Internals = {}) {
  const up = new Uploader(
    { auth: { token: "t" }, base: "http://fake/api/v1", smallFile: 0, together: false, ...o },
    { transport: server.transport, surroundings: world, hasher: localHasher, handles: noHandles, ...more },
  );
  open.push(up);
  return { up, world };
}

function arrives<K extends State["kind"]>(up: Uploader, item: ItemView, kind: K): Promise<Extract<State, { kind: K }>> {
  return new Promise((resolve) => {
    const look = () => item.state.kind === kind && (off(), resolve(item.state as Extract<State, { kind: K }>));
    const off = up.on("state", look);
    look();
  });
}

const kib = 1024;

describe("one file", () => {
  it("arrives byte for byte, through upload and in one request", async () => {
    const server = new FakeServer();
    const bytes = bytesOf(200 * kib + 7, 1);
    for (const smallFile of [0, 1 << 20]) {
      const { up } = start(server, { smallFile });
      const [item] = up.add([{ file: fileOf(bytes, `a${smallFile}.bin`), path: `deep/a${smallFile}.bin` }], { folder: "/in/" });
      await up.idle();
      expect(item!.state.kind).toBe("done");
      expect(same(server.files.get(`/in/deep/a${smallFile}.bin`)!.bytes, bytes)).toBe(true);
      expect(item!.moved).toBe(bytes.length);
    }
    expect(server.needless).toBe(0);
  });

  it("goes to a space, whose name is no part of a URL's path", async () => {
    const server = new FakeServer();
    for (const smallFile of [0, 1 << 20]) {
      const { up } = start(server, { smallFile });
      const [item] = up.add([{ file: fileOf(bytesOf(kib, 3), `a${smallFile}.bin`) }], { folder: "//设计 1/plans" });
      await up.idle();
      expect(item!.state.kind).toBe("done");
      expect(server.files.has(`//设计 1/plans/a${smallFile}.bin`)).toBe(true);
    }
    expect(server.requests.filter((r) => r.includes("//"))).toEqual([]);
  });

  it("of no bytes and of exactly whole parts", async () => {
    const server = new FakeServer();
    const { up } = start(server);
    const sizes = [0, 1, server.partSize, 2 * server.partSize];
    up.add(sizes.map((n) => ({ file: fileOf(bytesOf(n, n), `f${n}`) })), { folder: "/" });
    await up.idle();
    expect(up.items.map((i) => i.state.kind)).toEqual(sizes.map(() => "done"));
    for (const n of sizes) expect(server.files.get(`/f${n}`)?.bytes.length).toBe(n);
  });

  it("is sent with at most 4 requests at once over HTTP/1.1, 8 over HTTP/2", async () => {
    for (const [speaks, most] of [["http/1.1", 4], ["h2", 8]] as const) {
      const server = new FakeServer();
      server.delay = () => 5;
      const { up, world } = start(server, {}, new FakeWorld(random(1), 20));
      world.speaks = speaks;
      up.add([{ file: fileOf(bytesOf(400 * server.partSize, 2), "big") }], { folder: "/" });
      await up.idle();
      expect(server.files.has("/big")).toBe(true);
      expect(server.mostInFlight).toBeLessThanOrEqual(most);
      expect(server.mostInFlight).toBeGreaterThanOrEqual(3);
    }
  });

  it("says truthfully how far it is", async () => {
    const server = new FakeServer();
    server.delay = () => 1;
    const { up } = start(server);
    const seen: string[] = [];
    up.on("state", ({ item }) => seen.push(item.state.kind));
    let most = 0;
    up.on("progress", ({ items }) => items.forEach((i) => i.state.kind === "sending" && (most = Math.max(most, i.state.bytes))));
    const [item] = up.add([{ file: fileOf(bytesOf(60 * server.partSize, 3), "x") }], { folder: "/" });
    expect(item!.state).toEqual({ kind: "waiting", why: "queue" });
    await up.idle();
    expect(seen.filter((k) => k !== "waiting")).toEqual(["sending", "verifying", "done"]);
    expect(most).toBeLessThanOrEqual(item!.size);
    expect(up.summary()).toMatchObject({ items: 1, finished: 1, failed: 0, bytes: item!.size, size: item!.size });
  });
});

describe("content that the server has", () => {
  it("is proved in the middle and ends early", async () => {
    const server = new FakeServer();
    server.partSize = 1 << 20;
    const bytes = new Uint8Array(24 << 20).fill(9);
    server.others.push(bytes);
    let n = 0;
    server.delay = (r) => (r.body instanceof Blob && ++n > 3 ? 600_000 : 0); // the claim ends them
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytes, "film") }], { folder: "/" });
    await up.idle();
    expect(item!.state.kind).toBe("instant");
    expect(item!.moved).toBeLessThan(bytes.length / 2);
    expect(same(server.files.get("/film")!.bytes, bytes)).toBe(true);
  });

  it("is sent all the same when the claim is refused or its answer lost", async () => {
    const server = new FakeServer();
    server.partSize = 1 << 20;
    const bytes = new Uint8Array(12 << 20).fill(7);
    server.delay = (r) => (r.body instanceof Blob ? 60 : 0);
    server.fault = (r) => (r.method === "PATCH" ? { kind: "answer", status: 409, code: "state", args: { state: "active" } } : { kind: "none" });
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytes, "film") }], { folder: "/" });
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(server.needless).toBe(0);
  });
});

describe("trouble", () => {
  it("waits as long as Retry-After says", async () => {
    const server = new FakeServer();
    let refused = 0;
    server.fault = (r) => (r.body instanceof Blob && refused++ === 0 ? { kind: "answer", status: 503, code: "stopping", retryAfter: 7 } : { kind: "none" });
    const { up, world } = start(server);
    up.add([{ file: fileOf(bytesOf(kib, 4), "x") }], { folder: "/" });
    await up.idle();
    expect(Math.max(...world.slept.filter((ms) => ms < 8000))).toBeGreaterThanOrEqual(7000);
    expect(server.files.has("/x")).toBe(true);
  });

  it("pauses when offline and goes on when online, without using patience up", async () => {
    const server = new FakeServer();
    const { up, world } = start(server, { giveUp: 1000 });
    server.fault = () => (world.up ? { kind: "none" } : { kind: "lost-request" });
    server.delay = () => 1;
    const [item] = up.add([{ file: fileOf(bytesOf(100 * server.partSize, 5), "x") }], { folder: "/" });
    await arrives(up, item!, "sending");
    world.plug(false);
    // Each of up to four senders tells it anew after half a minute of the fake world; patience is a second.
    let told = 0;
    await new Promise<void>((resolve) => up.on("state", ({ item: i }) => i.state.kind === "waiting" && i.state.why === "offline" && ++told > 8 && resolve()));
    world.plug(true);
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(server.needless).toBe(0);
  });

  it("gives up in words when nothing succeeds, and goes on when asked", async () => {
    const server = new FakeServer();
    let dead = true;
    server.fault = (r) => (dead && r.body instanceof Blob ? { kind: "lost-request" } : { kind: "none" });
    const { up } = start(server, { giveUp: 20_000 });
    const [item] = up.add([{ file: fileOf(bytesOf(5 * server.partSize, 6), "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state).toMatchObject({ kind: "failed", why: "gave-up", retryable: true });
    dead = false;
    up.retry(item!.id);
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect([...server.uploads.values()]).toHaveLength(1);
  });

  it("tells how much space is missing, keeps what was sent, and goes on when there is room", async () => {
    const server = new FakeServer();
    server.quota = 100 * kib;
    const { up } = start(server);
    const bytes = bytesOf(150 * kib, 7);
    const [item] = up.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state).toEqual({ kind: "no-space", missing: 50 * kib, of: "quota" });
    server.quota = Infinity;
    up.retry();
    await up.idle();
    expect(item!.state.kind).toBe("done");
  });

  it("tells that room which was made is not there yet", async () => {
    const server = new FakeServer();
    const args = { needed: 90, available: 20, owed: 180 };
    server.fault = (r) => (r.method === "POST" ? { kind: "answer", status: 507, code: "quota", args } : { kind: "none" });
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytesOf(90, 7), "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state).toEqual({ kind: "no-space", missing: 70, of: "quota", owed: 180 });
  });

  it("keeps what was sent when space runs out in the middle", async () => {
    const server = new FakeServer();
    let full = true;
    server.fault = (r) => (full && server.bodies >= 5 && r.body instanceof Blob ? { kind: "answer", status: 507, code: "disk-full" } : { kind: "none" });
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytesOf(20 * server.partSize, 23), "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state).toEqual({ kind: "no-space", missing: null, of: "disk" });
    full = false;
    up.retry();
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(server.bodies).toBe(20);
  });

  it("makes folder and parts again that the server has lost", async () => {
    const server = new FakeServer();
    const bytes = bytesOf(10 * server.partSize, 8);
    let once = true;
    let gone = true;
    server.fault = (r) => {
      if (!r.url.endsWith("/complete")) return { kind: "none" };
      if (once) {
        once = false;
        [...server.uploads.values()][0]!.parts.delete(3);
      } else if (gone) {
        gone = false;
        return { kind: "answer", status: 409, code: "parent-gone" };
      }
      return { kind: "none" };
    };
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytes, "x") }], { folder: "/a/b" });
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(server.folders.has("/a/b")).toBe(true);
    expect(same(server.files.get("/a/b/x")!.bytes, bytes)).toBe(true);
  });

  it("begins anew when the upload is gone from the server", async () => {
    const server = new FakeServer();
    server.delay = () => 1;
    let n = 0;
    server.fault = (r) => {
      if (r.body instanceof Blob && ++n === 8) for (const u of server.uploads.values()) u.state = "gone";
      return { kind: "none" };
    };
    const { up } = start(server);
    const bytes = bytesOf(30 * server.partSize, 9);
    const [item] = up.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(same(server.files.get("/x")!.bytes, bytes)).toBe(true);
  });

  it("repairs a part that was damaged on the server's side, by the digest at the end", async () => {
    const server = new FakeServer();
    server.delay = (r) => (r.method === "DELETE" ? 50 : 0); // longer than from one look at the server to the next
    const bytes = bytesOf(10 * server.partSize, 10);
    let once = true;
    server.fault = (r) => {
      if (once && r.url.endsWith("/complete")) {
        once = false;
        [...server.uploads.values()][0]!.parts.get(4)![17]! ^= 1;
      }
      return { kind: "none" };
    };
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(same(server.files.get("/x")!.bytes, bytes)).toBe(true);
    expect(server.bodies).toBe(11);
  });

  it("sends smaller parts where a proxy takes no large bodies", async () => {
    const server = new FakeServer();
    server.partSize = 8 << 20;
    server.fault = (r) => {
      if (r.method === "POST" && typeof r.body === "string") server.partSize = (JSON.parse(r.body) as { part_size?: number }).part_size ?? server.partSize;
      return r.body instanceof Blob && r.body.size > 1 << 20 ? { kind: "answer", status: 413 } : { kind: "none" };
    };
    const bytes = bytesOf(5 << 20, 21);
    for (const smallFile of [0, 64 << 20]) {
      server.partSize = 8 << 20;
      const { up } = start(server, { smallFile });
      const [item] = up.add([{ file: fileOf(bytes, `p${smallFile}`) }], { folder: "/" });
      await up.idle();
      expect(item!.state.kind).toBe("done");
      expect(same(server.files.get(`/p${smallFile}`)!.bytes, bytes)).toBe(true);
    }
  });

  it("says done where cancel comes too late", async () => {
    const server = new FakeServer();
    const bytes = bytesOf(2 * server.partSize, 22);
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    server.fault = (r) => (r.url.endsWith("/complete") ? { kind: "lost-reply" } : { kind: "none" });
    while (!server.files.has("/x")) await new Promise((resolve) => setTimeout(resolve, 1));
    await up.cancel(item!.id);
    expect(item!.state.kind).toBe("done");
  });

  it("logs in again and goes on", async () => {
    const server = new FakeServer();
    let token = "old";
    server.fault = (r) => (r.headers["Authorization"] === "Bearer new" ? { kind: "none" } : { kind: "answer", status: 401, code: "unauthenticated" });
    let asked = 0;
    const { up } = start(server, { auth: { token: () => token }, onLogin: () => (asked++, (token = "new"), true) });
    const [item] = up.add([{ file: fileOf(bytesOf(kib, 11), "x") }], { folder: "/" });
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(asked).toBe(1);
  });
});

describe("going on", () => {
  it("after pause, without sending again what is there", async () => {
    const server = new FakeServer();
    server.delay = () => 1;
    const { up } = start(server);
    const bytes = bytesOf(80 * server.partSize, 12);
    const [item] = up.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    for (const some of [10, 30, 50]) {
      while (server.bodies < some) await new Promise((resolve) => setTimeout(resolve, 1));
      await up.pause();
      expect(item!.state.kind).toBe("paused");
      up.resume();
    }
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(same(server.files.get("/x")!.bytes, bytes)).toBe(true);
    expect(server.needless).toBe(0);
  });

  it("after a reload: the open upload is found, the file picked again is compared first", async () => {
    const server = new FakeServer();
    server.delay = () => 2;
    const bytes = bytesOf(60 * server.partSize, 13);
    const first = start(server).up;
    first.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    while (server.bodies < 20) await new Promise((resolve) => setTimeout(resolve, 1));
    await first.close();
    const sent = server.bodies;

    const { up } = start(server);
    const [parked] = await up.restore();
    expect(parked!.state).toMatchObject({ kind: "parked", needs: "file" });
    expect(Date.parse((parked!.state as { until: string }).until)).not.toBeNaN();
    expect((parked!.state as { bytes: number }).bytes).toBeGreaterThanOrEqual(20 * server.partSize);
    up.provide(parked!.id, fileOf(bytes, "copy of x", 5)); // another name and time: the parts tell
    await up.idle();
    expect(parked!.state.kind).toBe("done");
    expect(server.bodies - sent).toBeLessThanOrEqual(60 - sent + 4);
    expect(server.needless).toBe(0);
    expect(same(server.files.get("/x")!.bytes, bytes)).toBe(true);
  });

  it("refuses a changed file in words, before anything is sent, and starts over when asked", async () => {
    const server = new FakeServer();
    const bytes = bytesOf(10 * server.partSize, 14);
    const first = start(server);
    server.fault = (r) => (/parts\/[6-9]$/.test(r.url) ? { kind: "lost-request" } : { kind: "none" });
    first.up.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    while (server.bodies < 6) await new Promise((resolve) => setTimeout(resolve, 1));
    await first.up.close();
    server.fault = () => ({ kind: "none" });

    const changed = bytes.slice();
    changed[5 * server.partSize + 3]! ^= 1;
    const { up } = start(server);
    const [item] = await up.restore();
    up.provide(item!.id, fileOf(changed, "x"));
    await up.idle();
    expect(item!.state).toMatchObject({ kind: "failed", why: "file-changed", retryable: true });
    expect(server.bodies).toBe(6);
    up.retry(item!.id);
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(same(server.files.get("/x")!.bytes, changed)).toBe(true);
  });

  it("refuses a file of another size without asking the server", async () => {
    const server = new FakeServer();
    server.fault = (r) => (r.body instanceof Blob ? { kind: "lost-request" } : { kind: "none" });
    const first = start(server);
    first.up.add([{ file: fileOf(bytesOf(kib, 15), "x") }], { folder: "/" });
    while (server.uploads.size === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await first.up.close();
    const { up } = start(server);
    const [item] = await up.restore();
    up.provide(item!.id, fileOf(bytesOf(kib + 1, 15), "x"));
    expect(item!.state).toMatchObject({ kind: "failed", why: "file-changed", retryable: false });
  });

  it("in two tabs at once: one upload, no part sent whole twice", async () => {
    const server = new FakeServer();
    server.delay = () => 10;
    const bytes = bytesOf(120 * server.partSize, 16);
    const one = start(server).up;
    const two = start(server).up;
    const [a] = one.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    while (server.bodies < 10) await new Promise((resolve) => setTimeout(resolve, 1));
    const [b] = two.add([{ file: fileOf(bytes, "x") }], { folder: "/" });
    await Promise.all([one.idle(), two.idle()]);
    expect([a!.state.kind, b!.state.kind], JSON.stringify([a!.state, b!.state])).toEqual(["done", "done"]);
    expect(server.uploads.size).toBe(1);
    expect(b!.moved).toBeGreaterThan(0);
    expect(server.needless).toBeLessThanOrEqual(30); // where they meet, and what each sends before it hears of the other; apart it would be 120
    expect(same(server.files.get("/x")!.bytes, bytes)).toBe(true);
  });

  it("cancel takes the upload back", async () => {
    const server = new FakeServer();
    server.delay = () => 2;
    const { up } = start(server);
    const [item] = up.add([{ file: fileOf(bytesOf(50 * server.partSize, 17), "x") }], { folder: "/" });
    while (server.bodies < 5) await new Promise((resolve) => setTimeout(resolve, 1));
    await up.cancel(item!.id);
    expect(item!.state.kind).toBe("cancelled");
    expect([...server.uploads.values()].map((u) => u.state)).toEqual(["gone"]);
  });
});

describe("many files", () => {
  it("a thousand small ones, several at once, each exactly once", async () => {
    const server = new FakeServer();
    server.delay = () => 1;
    const { up } = start(server, { smallFile: 1 << 20 });
    const files = Array.from({ length: 1000 }, (_, n) => ({ file: fileOf(bytesOf(n % 50, n), `${n}`), path: `d${n % 7}/${n}` }));
    up.add(files, { folder: "/all" });
    await up.idle();
    expect(up.summary()).toMatchObject({ items: 1000, finished: 1000, failed: 0 });
    expect(server.bodies).toBe(1000);
    expect(server.mostInFlight).toBe(4);
    expect(server.files.size).toBe(1000);
  });

  it("conflicts are asked once for all", async () => {
    const server = new FakeServer();
    const old = bytesOf(10, 1);
    for (const smallFile of [0, 1 << 20]) {
      const first = start(server, { smallFile }).up;
      first.add([1, 2, 3].map((n) => ({ file: fileOf(old, `f${n}`) })), { folder: `/${smallFile}` });
      await first.idle();
      let asked = 0;
      const { up } = start(server, { smallFile, onConflict: () => (asked++, { action: "rename", forAll: true }) });
      up.add([1, 2, 3].map((n) => ({ file: fileOf(bytesOf(20, n), `f${n}`) })), { folder: `/${smallFile}` });
      await up.idle();
      expect(asked).toBe(1);
      expect(up.items.map((i) => i.state.kind)).toEqual(["done", "done", "done"]);
      expect(up.items.map((i) => i.path).sort()).toEqual([1, 2, 3].map((n) => `/${smallFile}/f${n} (2)`));
    }
  });

  it("skip, replace, and nobody to ask", async () => {
    const server = new FakeServer();
    const before = start(server, { smallFile: 1 << 20 }).up;
    before.add([{ file: fileOf(bytesOf(10, 1), "f") }], { folder: "/" });
    await before.idle();
    const results: string[] = [];
    for (const action of ["skip", "replace", undefined] as const) {
      const { up } = start(server, { smallFile: 1 << 20, ...(action && { onConflict: () => ({ action }) }) });
      const [item] = up.add([{ file: fileOf(bytesOf(20, results.length + 2), "f") }], { folder: "/" });
      await up.idle();
      results.push(item!.state.kind === "failed" ? item!.state.why : item!.state.kind);
    }
    expect(results).toEqual(["skipped", "done", "name-taken"]);
    expect(same(server.files.get("/f")!.bytes, bytesOf(20, 3))).toBe(true);
  });

  // What the command line does: client/put_replace_test.go.
  for (const [what, first, second, between, during, want, path] of [
    ["nobody comes", "replace", "replace", false, false, "done", "/f"],
    ["somebody comes between the visits", "replace", "replace", true, false, "version-changed", ""],
    ["somebody comes during the second visit", "replace", "replace", false, true, "version-changed", ""],
    ["told to replace what is there now", "rename", "replace", true, false, "done", "/f"],
    ["told to, and somebody comes while it sends", "rename", "replace", false, true, "version-changed", ""],
    ["told to keep both", "replace", "rename", true, false, "done", "/f (2)"],
    ["told to replace nothing", "replace", "fail", true, false, "name-taken", ""],
  ] as const) {
    it(`an upload that goes on replaces only what was meant: ${what}`, async () => {
      const server = new FakeServer();
      const [bytes, other] = [bytesOf(10 * server.partSize + 1, 20), bytesOf(6000, 22)];
      await server.store("/f", bytesOf(5000, 21));
      let sent = 0;
      server.fault = (r) => (r.body instanceof Blob && ++sent > 5 ? { kind: "answer", status: 403, code: "forbidden" } : { kind: "none" });
      const before = start(server).up;
      before.add([{ file: fileOf(bytes, "f") }], { folder: "/", conflict: first });
      await before.idle();
      expect(before.items[0]!.state.kind).toBe("failed");
      if (between) await server.store("/f", other);
      server.fault = () => ({ kind: "none" });
      let come = during;
      server.before = (r) => {
        if (!come || !r.url.endsWith("/complete")) return;
        come = false;
        return server.store("/f", other);
      };
      const { up } = start(server);
      const [item] = up.add([{ file: fileOf(bytes, "f") }], { folder: "/", conflict: second });
      await up.idle();
      expect(item!.state.kind === "failed" ? item!.state.why : item!.state.kind).toBe(want);
      if (path) {
        expect(same(server.files.get(path)!.bytes, bytes)).toBe(true);
        return;
      }
      expect(same(server.files.get("/f")!.bytes, other)).toBe(true);
      if (want !== "version-changed") return;
      up.retry(item!.id); // told of it, and asked once more
      await up.idle();
      expect(item!.state.kind).toBe("done");
      expect(same(server.files.get("/f")!.bytes, bytes)).toBe(true);
    });
  }

  it("an answer that is given at the end replaces what was there then, and nothing that comes after it", async () => {
    const server = new FakeServer();
    const { up } = start(server, {
      onConflict: async () => {
        await server.store("/f", bytesOf(7, 2)); // while the question stood, so before the answer
        return { action: "replace" };
      },
    });
    const named: boolean[] = [];
    server.before = (r) => {
      if (!r.url.endsWith("/complete")) return;
      named.push(String(r.body).includes("conflict"));
      return named.length === 1 ? server.store("/f", bytesOf(5, 1)) : undefined;
    };
    const [item] = up.add([{ file: fileOf(bytesOf(40 * kib, 3), "f") }], { folder: "/" });
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(same(server.files.get("/f")!.bytes, bytesOf(40 * kib, 3))).toBe(true);
    expect(named).toEqual([false, false]);
  });

  it("pause and cancel do not wait for an answer", async () => {
    const server = new FakeServer();
    const before = start(server).up;
    before.add([{ file: fileOf(bytesOf(10, 1), "f") }], { folder: "/" });
    await before.idle();
    const { up } = start(server, { onConflict: () => new Promise(() => {}) });
    const [item] = up.add([{ file: fileOf(bytesOf(20, 1), "f") }], { folder: "/" });
    while (item!.state.kind !== "waiting" || item!.state.why !== "conflict") await new Promise((resolve) => setTimeout(resolve, 1));
    await up.pause();
    expect(item!.state.kind).toBe("paused");
    await up.cancel(item!.id);
    expect(item!.state.kind).toBe("cancelled");
  });

  it("the same content at a taken name is no conflict", async () => {
    const server = new FakeServer();
    for (const smallFile of [0, 1 << 20, 0]) {
      const { up } = start(server, { smallFile });
      const [item] = up.add([{ file: fileOf(bytesOf(40 * kib, 1), "f") }], { folder: "/" });
      await up.idle();
      expect(item!.state.kind).toBe("done");
    }
    expect(server.files.size).toBe(1);
  });

  it("a higher priority goes first", async () => {
    const server = new FakeServer();
    const { up } = start(server, { smallFile: 1 << 20, connections: 1 });
    const order: string[] = [];
    up.on("state", ({ item }) => item.state.kind === "done" && order.push(item.name));
    up.add(["a", "b", "c", "d"].map((n) => ({ file: fileOf(bytesOf(5, 1), n) })), { folder: "/" });
    up.add([{ file: fileOf(bytesOf(5, 1), "first") }], { folder: "/", priority: 9 });
    await up.idle();
    expect(order.indexOf("first")).toBeLessThanOrEqual(1);
    expect(order).toHaveLength(5);
  });

  it("a collect link: small files whose answers are lost arrive once, without looking at nodes", async () => {
    const server = new FakeServer();
    let n = 0;
    server.fault = () => (++n % 3 === 0 ? { kind: "lost-reply" } : { kind: "none" });
    const { up } = start(server, { smallFile: 1 << 20, lookUp: false });
    up.add([1, 2, 3, 4].map((i) => ({ file: fileOf(bytesOf(100, i), `f${i}`) })), { folder: "", conflict: "rename" });
    await up.idle();
    expect([...server.files.keys()].sort()).toEqual(["/f1", "/f2", "/f3", "/f4"]);
    expect(server.requests.some((r) => r.includes("/nodes"))).toBe(false);
  });
});

describe("digests", () => {
  it("fingerprints are those of the Go client, so that each finds the other's uploads", async () => {
    const bytes = Uint8Array.from({ length: 200_000 }, (_, n) => n * 7);
    const file = fileOf(bytes, '报告 "a".pdf', 1_700_000_000_123);
    expect(await localHasher.fingerprint(file, new AbortController().signal)).toBe("v1-5318dd00bb75c429f08cb4d79ebd04f6e063fcbe");
  });

  it("are those of the Go client", async () => {
    expect(await digestOf(new TextEncoder().encode("abc"))).toBe("6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    const { check, crc32 } = await localHasher.sums(new Blob(["123456789"]), "crc32c", new AbortController().signal);
    expect(check).toBe("crc32c=:4waSgw==:"); // 0xe3069283
    expect(crc32).toBe(0xcbf43926);
  });
});
