import { expect, test } from "vitest";
import { Damaged, listTar, listZip, type Read } from "./archive";

const utf8 = new TextEncoder();
function reader(file: Uint8Array): Read & { asked: number } {
  const read = (from: number, length: number) => {
    read.asked += length;
    return Promise.resolve(file.slice(from, from + length));
  };
  read.asked = 0;
  return read as Read & { asked: number };
}
function joined(parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

/** The end of a zip: its list, and where that is. Contents before it are zeros. */
function zip(entries: { name: Uint8Array; size: number }[], contents = 100_000): Uint8Array {
  const list = joined(
    entries.map(({ name, size }) => {
      const raw = new Uint8Array(46 + name.length);
      const v = new DataView(raw.buffer);
      v.setUint32(0, 0x02014b50, true);
      v.setUint32(24, size, true);
      v.setUint16(28, name.length, true);
      raw.set(name, 46);
      return raw;
    }),
  );
  const end = new Uint8Array(22);
  const v = new DataView(end.buffer);
  v.setUint32(0, 0x06054b50, true);
  v.setUint16(10, entries.length, true);
  v.setUint32(12, list.length, true);
  v.setUint32(16, contents, true);
  return joined([new Uint8Array(contents), list, end]);
}

/** A tar of one header and its content. */
function tarEntry(name: string, size: number, kind = "0", body: Uint8Array = new Uint8Array(Math.ceil(size / 512) * 512)): Uint8Array {
  const head = new Uint8Array(512);
  head.set(utf8.encode(name).slice(0, 100), 0);
  head.set(utf8.encode(size.toString(8).padStart(11, "0")), 124);
  head[156] = kind.charCodeAt(0);
  head.set(utf8.encode("ustar\0"), 257);
  const sum = head.reduce((all, b, i) => all + (i >= 148 && i < 156 ? 32 : b), 0);
  head.set(utf8.encode(sum.toString(8).padStart(6, "0") + "\0 "), 148);
  return joined([head, body]);
}

test("a zip is listed by its end, whatever its names are in", async () => {
  const gbk = new Uint8Array([0xc4, 0xe3, 0xba, 0xc3]); // 你好
  const file = zip([{ name: utf8.encode("docs/"), size: 0 }, { name: utf8.encode("docs/说明.txt"), size: 12 }, { name: gbk, size: 3 }]);
  const read = reader(file);
  expect(await listZip(read, file.length)).toEqual({
    entries: [{ name: "docs/", size: 0, folder: true }, { name: "docs/说明.txt", size: 12, folder: false }, { name: "你好", size: 3, folder: false }], more: false,
  });
  expect(read.asked).toBeLessThan(70_000);
});

test("a tar is listed by its headers, long names too, and its contents are not read", async () => {
  const long = `${"deep/".repeat(40)}name.txt`;
  const body = utf8.encode(long);
  const padded = joined([body, new Uint8Array(512 - (body.length % 512))]);
  const file = joined([tarEntry("a/", 0, "5"), tarEntry("a/b.txt", 700_000), tarEntry("././@LongLink", body.length, "L", padded), tarEntry("cut", 5), new Uint8Array(1024)]);
  const read = reader(file);
  expect((await listTar(read, file.length)).entries).toEqual([
    { name: "a/", size: 0, folder: true }, { name: "a/b.txt", size: 700_000, folder: false }, { name: long, size: 5, folder: false },
  ]);
  expect(read.asked).toBeLessThan(10_000);
});

test("what is neither is said to be damaged", async () => {
  const noise = new Uint8Array(5000).fill(7);
  await expect(listZip(reader(noise), noise.length)).rejects.toThrow(Damaged);
  await expect(listTar(reader(noise), noise.length)).rejects.toThrow(Damaged);
  const lost = zip([{ name: utf8.encode("a"), size: 1 }]).slice(100_000); // its beginning is gone
  await expect(listZip(reader(lost), lost.length)).rejects.toThrow(Damaged);
});
