import { afterEach, describe, expect, it } from "vitest";
import { Uploader, type UploaderOptions, localHasher, noHandles } from "../src/index.ts";
import { type Fault, FakeServer, FakeWorld, bytesOf, fileOf, random, readAll, same } from "./fake.ts";

const open: Uploader[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((u) => u.close()));
});

function start(server: FakeServer, o: Partial<UploaderOptions> = {}, hasher = localHasher) {
  const world = new FakeWorld(random(1));
  const up = new Uploader({ auth: { token: "t" }, base: "http://fake/api/v1", ...o }, { transport: server.transport, surroundings: world, hasher, handles: noHandles });
  open.push(up);
  return up;
}

const contentOf = (i: number) => bytesOf(100 + i, i);
const picks = (n: number) => Array.from({ length: n }, (_, i) => ({ file: fileOf(contentOf(i), `${i}`), path: `f/${i}` }));
const of = (server: FakeServer, path: string) => server.requests.filter((r) => r.startsWith(path)).length;

async function sent(server: FakeServer, up: Uploader, n: number) {
  await up.idle();
  expect(up.items.map((i) => i.state.kind)).toEqual(Array(n).fill("done"));
  for (let i = 0; i < n; i++) expect(same(server.files.get(`/in/f/${i}`)!.bytes, contentOf(i))).toBe(true);
  expect(up.summary().bytes).toBe(up.summary().size);
}

describe("small files", () => {
  it("go many in one request", async () => {
    const server = new FakeServer();
    const { hasher, read } = readAll(600);
    server.before = () => read; // until then one request holds what is there
    const up = start(server, {}, hasher);
    up.add(picks(600), { folder: "/in" });
    await sent(server, up, 600);
    expect(server.requests.length).toBeLessThan(10);
    expect(server.stored).toBe(600);
  });

  it("go alone when they come alone, when they are told to, and where batches are not taken", async () => {
    const lone = new FakeServer();
    const up = start(lone);
    up.add(picks(1), { folder: "/in" });
    await sent(lone, up, 1);
    expect(of(lone, "PUT /files")).toBe(1);

    const told = new FakeServer();
    const single = start(told, { together: false });
    single.add(picks(30), { folder: "/in" });
    await sent(told, single, 30);
    expect(of(told, "POST /batch")).toBe(0);

    const old = new FakeServer();
    old.batches = false;
    old.delay = () => 5;
    const other = start(old);
    other.add(picks(60), { folder: "/in" });
    await sent(old, other, 60);
    expect(of(old, "PUT /files")).toBe(60);
    expect(of(old, "POST /batch")).toBeLessThan(4);
  });

  it.each<[string, Fault]>([
    ["a reply that is lost", { kind: "lost-reply" }],
    ["a request that is lost", { kind: "lost-request" }],
    ["a server that is stopping", { kind: "answer", status: 503, code: "stopping", retryAfter: 1 }],
    ["a proxy's error", { kind: "answer", status: 502 }],
    ["a proxy that takes no more than a little", { kind: "answer", status: 413 }],
  ])("arrive once, whatever befalls a batch: %s", async (_, fault) => {
    for (const every of [2, 1]) {
      const server = new FakeServer();
      server.delay = () => 5;
      let n = 0;
      server.fault = (r) => (r.url.endsWith("/batch") && n++ % every === 0 && n < 10 ? fault : { kind: "none" });
      const up = start(server);
      up.add(picks(200), { folder: "/in" });
      await sent(server, up, 200);
      expect(server.stored).toBe(200);
    }
  });

  it("whose names are taken are asked about, as alone", async () => {
    const server = new FakeServer();
    server.delay = () => 5;
    await server.store("/in/f/3", bytesOf(10, 99));
    await server.store("/in/f/4", bytesOf(10, 99));
    await server.store("/in/f/5", contentOf(5));
    const asked: string[] = [];
    const up = start(server, {
      onConflict: (q) => {
        asked.push(q.path);
        return { action: q.path.endsWith("3") ? "replace" : "rename" };
      },
    });
    up.add(picks(40), { folder: "/in" });
    await up.idle();
    expect(asked.sort()).toEqual(["/in/f/3", "/in/f/4"]);
    expect(up.items.map((i) => i.state.kind)).toEqual(Array(40).fill("done"));
    expect(same(server.files.get("/in/f/3")!.bytes, contentOf(3))).toBe(true);
    expect(same(server.files.get("/in/f/4 (2)")!.bytes, contentOf(4))).toBe(true);
  });

  it("can be stopped in the middle and go on", async () => {
    const server = new FakeServer();
    server.delay = () => 20;
    const up = start(server);
    up.add(picks(300), { folder: "/in" });
    await new Promise<void>((resolve) => up.on("state", ({ item }) => item.state.kind === "done" && resolve()));
    await up.pause();
    expect(up.items.some((i) => i.state.kind === "paused")).toBe(true);
    up.resume();
    await sent(server, up, 300);
  });
});
