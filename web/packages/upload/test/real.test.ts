import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CutError, type Transport, Uploader, type UploaderOptions, fetchTransport, localHasher, noHandles } from "../src/index.ts";
import { sleep } from "../src/surroundings.ts";
import { bytesOf, fileOf, readAll, same } from "./fake.ts";
import { RealServer } from "./server.ts";

const binary = process.env["SMARTDRIVE_BIN"];
const mib = 1 << 20;

/** slow lets a body wait before it goes. */
function slow(ms: number): Transport {
  return async (r) => {
    if (r.body instanceof Blob) await sleep(ms, r.signal);
    return fetchTransport(r);
  };
}

describe.skipIf(!binary)("against the real server (SMARTDRIVE_BIN)", () => {
  let server: RealServer;
  let token: string;
  beforeAll(async () => {
    server = await RealServer.start(binary!, "--upload-idle", "2s");
    token = await server.login();
  });
  afterAll(() => server.stop());

  const start = (o: Partial<UploaderOptions> = {}, transport: Transport = fetchTransport) =>
    new Uploader({ auth: { token }, base: `${server.url}/api/v1`, partSize: mib, ...o }, { transport, hasher: localHasher, handles: noHandles });

  it("files of all sizes, in folders, with names that need care", async () => {
    const up = start({ md5: true, check: "sha-256" });
    const sizes = [0, 1, 300_000, 4 * mib, 4 * mib + 1, 9 * mib, 20 * mib + 12345];
    const picks = sizes.map((n, i) => ({ file: fileOf(bytesOf(n, i), `f${n}`), path: `目录 ${i}/a+b & c#%?${n}.bin` }));
    up.add(picks, { folder: "/all kinds" });
    await up.idle();
    expect(up.items.map((i) => i.state.kind)).toEqual(sizes.map(() => "done"));
    for (const [i, n] of sizes.entries()) {
      const got = await server.content(`/all kinds/目录 ${i}/a+b & c#%?${n}.bin`, token);
      expect(same(got, bytesOf(n, i)), String(n)).toBe(true);
    }
    await up.close();
  });

  it("content that the account has is linked in the middle; that of others after a proof", async () => {
    const bytes = bytesOf(24 * mib, 50);
    const first = start();
    first.add([{ file: fileOf(bytes, "one") }], { folder: "/" });
    await first.idle();
    await first.close();
    const other = await server.login("other");
    for (const who of [token, other]) {
      let bodies = 0;
      let landed = 0;
      const held: Transport = async (r) => {
        if (!(r.body instanceof Blob)) {
          while (r.method === "PATCH" && landed < 4) await sleep(5, r.signal); // the claim: one that meets a part on its way makes it look like another tab's
          return fetchTransport(r);
        }
        if (++bodies > 4) await sleep(600_000, r.signal); // the claim ends them
        const reply = await fetchTransport(r);
        landed++;
        return reply;
      };
      const up = start({ auth: { token: who } }, held);
      const [item] = up.add([{ file: fileOf(bytes, "two") }], { folder: "/" });
      await up.idle();
      expect(item!.state.kind).toBe("instant");
      expect(item!.moved).toBeLessThan(bytes.length / 2);
      expect(same(await server.content("/two", who), bytes)).toBe(true);
      await up.close();
    }
  });

  it("a server that is killed in the middle and comes back", async () => {
    const bytes = bytesOf(16 * mib, 51);
    const up = start({}, slow(50));
    const [item] = up.add([{ file: fileOf(bytes, "killed") }], { folder: "/" });
    while ((item!.state.kind !== "sending" || item!.state.bytes < 5 * mib) && item!.state.kind !== "done") await new Promise((r) => setTimeout(r, 5));
    await server.kill();
    await new Promise((r) => setTimeout(r, 300));
    await server.restart();
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(item!.moved).toBeLessThanOrEqual(bytes.length + 4 * mib); // what was on its way
    expect(same(await server.content("/killed", token), bytes)).toBe(true);
    await up.close();
  });

  it("a server that is killed again and again loses nothing and takes nothing twice", async () => {
    const up = start({ smallFile: mib });
    const sizes = [20 * mib, 12 * mib + 1, ...Array.from({ length: 60 }, (_, n) => n * 5000)];
    up.add(sizes.map((n, i) => ({ file: fileOf(bytesOf(n, 70 + i), `k${i}`) })), { folder: "/kills" });
    let over = false;
    const idle = up.idle().then(() => (over = true));
    for (let n = 0; n < 6 && !over; n++) {
      await new Promise((r) => setTimeout(r, 150 + 100 * n));
      await server.kill();
      await server.restart();
    }
    await idle;
    expect(up.items.filter((i) => i.state.kind !== "done").map((i) => i.state)).toEqual([]);
    for (const [i, n] of sizes.entries()) expect(same(await server.content(`/kills/k${i}`, token), bytesOf(n, 70 + i)), `k${i}`).toBe(true);
    const node = await server.call<{ id: string }>("GET", "/nodes?path=/kills", token);
    const all = await server.call<{ items: unknown[] }>("GET", `/nodes/${node.id}/children?limit=1000`, token);
    expect(all.items).toHaveLength(sizes.length);
    await up.close();
  });

  it("a folder of small files in a few requests", async () => {
    const { hasher, read } = readAll(500);
    let requests = 0;
    const counted: Transport = async (r) => {
      requests++;
      await read;
      return fetchTransport(r);
    };
    const up = new Uploader({ auth: { token }, base: `${server.url}/api/v1` }, { transport: counted, hasher, handles: noHandles });
    const picks = Array.from({ length: 500 }, (_, i) => ({ file: fileOf(bytesOf(1000 + i, i), `${i}`), path: `many/${i % 7}/${i}` }));
    up.add(picks, { folder: "/" });
    await up.idle();
    expect(up.items.filter((i) => i.state.kind !== "done").map((i) => i.state)).toEqual([]);
    expect(requests).toBeLessThan(10);
    for (const i of [0, 250, 499]) expect(same(await server.content(`/many/${i % 7}/${i}`, token), bytesOf(1000 + i, i))).toBe(true);
    await up.close();
  });

  it("a second visit goes on where the first one stopped, after the upload was parked", async () => {
    const bytes = bytesOf(12 * mib, 52);
    const first = start({}, slow(200));
    const [before] = first.add([{ file: fileOf(bytes, "resumed") }], { folder: "/" });
    while (before!.state.kind !== "sending" || before!.state.bytes < 5 * mib) await new Promise((r) => setTimeout(r, 5));
    await first.close();
    await new Promise((r) => setTimeout(r, 3000)); // longer than --upload-idle
    const up = start();
    const found = await up.restore();
    const item = found.find((i) => i.path === "/resumed");
    expect(item!.state).toMatchObject({ kind: "parked", needs: "file" });
    up.provide(item!.id, fileOf(bytes, "resumed"));
    await up.idle();
    expect(item!.state.kind).toBe("done");
    expect(item!.moved).toBeLessThanOrEqual(8 * mib);
    expect(same(await server.content("/resumed", token), bytes)).toBe(true);
    await up.close();
  });

  it("two at once share one upload", async () => {
    const bytes = bytesOf(24 * mib, 53);
    const [one, two] = [start({}, slow(1000)), start({}, slow(1000))];
    const [a] = one.add([{ file: fileOf(bytes, "shared") }], { folder: "/" });
    while (a!.state.kind !== "sending" || a!.state.bytes < 3 * mib) await new Promise((r) => setTimeout(r, 5));
    const [b] = two.add([{ file: fileOf(bytes, "shared") }], { folder: "/" });
    await Promise.all([one.idle(), two.idle()]);
    expect([a!.state.kind, b!.state.kind]).toEqual(["done", "done"]);
    expect(a!.uploadId).toBe(b!.uploadId);
    expect(a!.moved + b!.moved).toBeLessThanOrEqual(bytes.length + 18 * mib); // apart it would be 24
    expect(same(await server.content("/shared", token), bytes)).toBe(true);
    await Promise.all([one.close(), two.close()]);
  });

  it("no space is said with what is missing; conflicts are asked", async () => {
    const poor = await server.login("poor", 8 * mib);
    const up = start({ auth: { token: poor }, onConflict: () => ({ action: "rename", forAll: true }) });
    const [big] = up.add([{ file: fileOf(bytesOf(10 * mib, 54), "big") }], { folder: "/" });
    await up.idle();
    expect(big!.state).toEqual({ kind: "no-space", missing: 2 * mib, of: "quota" });
    up.add([{ file: fileOf(bytesOf(10, 1), "x") }], { folder: "/" });
    await up.idle();
    const [again] = up.add([{ file: fileOf(bytesOf(20, 1), "x") }], { folder: "/" });
    await up.idle();
    expect(again!.path).toBe("/x (2)");
    await up.close();
  });

  it("a collect link takes files from who has no account, each once although answers are lost", async () => {
    const folder = await server.call<{ id: string }>("POST", "/nodes", token, { path: "/collected", type: "folder" });
    const link = await server.call<{ token: string }>("POST", "/collects", token, { folder: folder.id, title: "Bring them" });
    const sender = await server.call<{ token: string }>("POST", `/public/collects/${link.token}/open`, "", { sender: "Li" });
    let n = 0;
    const losing: Transport = async (r) => {
      const reply = await fetchTransport(r);
      if (++n % 4 === 0) throw new CutError("lost");
      return reply;
    };
    const up = start({ auth: { token: sender.token }, lookUp: false, flat: true }, losing);
    const sizes = [10, 100_000, 3 * mib];
    up.add(sizes.map((size) => ({ file: fileOf(bytesOf(size, 60), `f${size}`), path: `dir/f${size}` })), { folder: "/", conflict: "rename" });
    await up.idle();
    expect(up.items.map((i) => i.state.kind)).toEqual(["done", "done", "done"]);
    const there = await server.call<{ items: { name: string; size: number }[] }>("GET", `/nodes/${folder.id}/children`, token);
    expect(there.items.map((i) => i.size).sort((a, b) => a - b)).toEqual(sizes);
    await up.close();
  });
});
