import { describe, expect, it } from "vitest";
import { Uploader, localHasher, noHandles } from "../src/index.ts";
import { type Fault, FakeServer, FakeWorld, bytesOf, fileOf, random, same } from "./fake.ts";

/** faults draws what happens to a request; none of it may cost more than time. */
function faults(next: () => number, often: number): Fault {
  if (next() >= often) return { kind: "none" };
  const all: Fault[] = [
    { kind: "lost-request" },
    { kind: "lost-reply" },
    { kind: "lost-reply" },
    { kind: "answer", status: 503, code: "stopping", retryAfter: 1 },
    { kind: "answer", status: 429, code: "rate", retryAfter: 2 },
    { kind: "answer", status: 503 },
    { kind: "answer", status: 502 },
    { kind: "answer", status: 409, code: "in-progress", retryAfter: 1 },
    { kind: "answer", status: 400, code: "bad-request", args: { reason: "cut" } },
    { kind: "answer", status: 408, code: "too-slow" },
  ];
  return all[Math.floor(next() * all.length)]!;
}

describe("whatever the network does", () => {
  const seeds = Array.from({ length: 40 }, (_, n) => n + 1);
  it.each(seeds)("files arrive byte for byte and no body is sent twice without need (seed %i)", async (seed) => {
    const next = random(seed);
    const server = new FakeServer();
    const often = next() * 0.35;
    server.fault = () => faults(next, often);
    server.delay = () => (next() < 0.3 ? next() * 4 : 0); // so that answers overtake each other
    const files = Array.from({ length: 1 + Math.floor(next() * 6) }, (_, n) => ({
      path: `f${n}`,
      bytes: bytesOf(Math.floor(next() ** 2 * 40 * server.partSize), seed * 100 + n),
    }));
    const smallFile = next() < 0.5 ? 0 : 64 << 10;
    const world = new FakeWorld(next, 600);
    const visit = () =>
      new Uploader({ auth: { token: "t" }, base: "http://fake/api/v1", smallFile, giveUp: 1e9, lookUp: true }, {
        transport: server.transport,
        surroundings: world,
        hasher: localHasher,
        handles: noHandles,
      });
    const picks = () => files.filter((f) => !server.files.has(`/in/${f.path}`)).map((f) => ({ file: fileOf(f.bytes, f.path) }));

    let up = visit();
    up.add(picks(), { folder: "/in" });
    for (let turns = Math.floor(next() * 4); turns > 0; turns--) {
      await new Promise((resolve) => setTimeout(resolve, next() * 40));
      const what = next();
      if (what < 0.3) {
        await up.pause();
        up.resume();
      } else if (what < 0.6) {
        world.plug(false);
        setTimeout(() => world.plug(true), next() * 20);
      } else {
        await up.close(); // the tab was closed; in the next visit the same files are picked
        up = visit();
        up.add(picks(), { folder: "/in" });
      }
    }
    await up.idle();
    const states = up.items.map((i) => i.state);
    await up.close();
    expect(states.filter((s) => s.kind !== "done")).toEqual([]);
    for (const f of files) expect(same(server.files.get(`/in/${f.path}`)!.bytes, f.bytes), f.path).toBe(true);
    expect(server.files.size).toBe(files.length);
    expect(server.needless).toBe(0);
  });
});
