// What is in a zip or a tar, without fetching it: a zip has its list at its end (APPNOTE.TXT 6.3.10 §4.3), a tar has a header of 512 bytes before
// each file (POSIX.1-2024, pax). Nothing is unpacked.

export interface Entry {
  name: string;
  size: number; // bytes, unpacked
  folder: boolean;
}

/** Reads some bytes of the file; fewer at its end. */
export type Read = (from: number, length: number) => Promise<Uint8Array>;

export interface Listing {
  entries: Entry[];
  more: boolean; // there are others that are not listed
}

export const mostEntries = 2000;
const mostDirectory = 4 << 20; // bytes of a zip's list
const mostReads = 400; // requests for a tar

export class Damaged extends Error {}

const utf8 = new TextDecoder();
/** Names in a zip without the mark of UTF-8 are in the encoding of who made it: UTF-8 if they can be, else GB 18030. */
function nameOf(raw: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return new TextDecoder("gb18030").decode(raw);
  }
}
const view = (b: Uint8Array) => new DataView(b.buffer, b.byteOffset, b.byteLength);

export async function listZip(read: Read, size: number): Promise<Listing> {
  const tailSize = Math.min(size, 22 + 0xffff);
  const tail = await read(size - tailSize, tailSize);
  const v = view(tail);
  let at = tail.length - 22;
  while (at >= 0 && v.getUint32(at, true) !== 0x06054b50) at--;
  if (at < 0) throw new Damaged();
  let count = v.getUint16(at + 10, true);
  let length = v.getUint32(at + 12, true);
  let start = v.getUint32(at + 16, true);
  if ((start === 0xffffffff || count === 0xffff || length === 0xffffffff) && at >= 20 && v.getUint32(at - 20, true) === 0x07064b50) {
    const end64 = view(await read(Number(v.getBigUint64(at - 12, true)), 56));
    if (end64.byteLength < 56 || end64.getUint32(0, true) !== 0x06064b50) throw new Damaged();
    count = Number(end64.getBigUint64(32, true));
    length = Number(end64.getBigUint64(40, true));
    start = Number(end64.getBigUint64(48, true));
  }
  const entries = directory(await read(start, Math.min(length, mostDirectory)));
  if (entries.length === 0 && count > 0) throw new Damaged();
  return { entries, more: entries.length < count };
}

function directory(raw: Uint8Array): Entry[] {
  const v = view(raw);
  const entries: Entry[] = [];
  for (let at = 0; at + 46 <= raw.length && entries.length < mostEntries && v.getUint32(at, true) === 0x02014b50; ) {
    const [nameLength, extraLength, commentLength] = [v.getUint16(at + 28, true), v.getUint16(at + 30, true), v.getUint16(at + 32, true)];
    const end = at + 46 + nameLength;
    if (end + extraLength > raw.length) break;
    let size = v.getUint32(at + 24, true);
    if (size === 0xffffffff) size = size64(v, end, end + extraLength) ?? size;
    const name = nameOf(raw.subarray(at + 46, end));
    entries.push({ name, size, folder: name.endsWith("/") });
    at = end + extraLength + commentLength;
  }
  return entries;
}

/** The size of a zip64 entry, which is the first number of its extra field 1. */
function size64(v: DataView, at: number, end: number): number | undefined {
  while (at + 4 <= end) {
    const [id, length] = [v.getUint16(at, true), v.getUint16(at + 2, true)];
    if (id === 1 && length >= 8 && at + 12 <= end) return Number(v.getBigUint64(at + 4, true));
    at += 4 + length;
  }
  return undefined;
}

const block = 512; // bytes

export async function listTar(read: Read, size: number): Promise<Listing> {
  const entries: Entry[] = [];
  let long: string | undefined; // a name that comes in an entry of its own
  let reads = 0;
  for (let at = 0; at + block <= size; ) {
    if (entries.length >= mostEntries || ++reads > mostReads) return { entries, more: true };
    const head = await read(at, block);
    if (head.length < block || head.every((b) => b === 0)) break;
    if (!sums(head)) throw new Damaged();
    const length = number(head.subarray(124, 136));
    const kind = String.fromCharCode(head[156]!);
    at += block;
    if ((kind === "L" || kind === "x") && length <= 64 << 10) {
      const body = await read(at, length);
      reads++;
      long = kind === "L" ? text(body) : (/(?:^|\n)\d+ path=([^\n]*)\n/.exec(utf8.decode(body))?.[1] ?? long);
    } else if (kind !== "g" && kind !== "K") {
      const prefix = utf8.decode(head.subarray(257, 262)) === "ustar" ? text(head.subarray(345, 500)) : "";
      const name = long ?? [prefix, text(head.subarray(0, 100))].filter(Boolean).join("/");
      long = undefined;
      entries.push({ name, size: kind === "5" ? 0 : length, folder: kind === "5" || name.endsWith("/") });
    }
    at += Math.ceil(length / block) * block;
  }
  return { entries, more: false };
}

function text(raw: Uint8Array): string {
  const end = raw.indexOf(0);
  return nameOf(end < 0 ? raw : raw.subarray(0, end));
}

/** Octal digits, or a number in base 256 where the first bit is set (GNU tar). */
function number(raw: Uint8Array): number {
  if (raw[0]! & 0x80) return raw.subarray(1).reduce((sum, b) => sum * 256 + b, 0);
  return parseInt(utf8.decode(raw).replace(/[\0 ]+/g, "") || "0", 8);
}

/** Whether a header's sum is right: it counts its own eight bytes as spaces. */
function sums(head: Uint8Array): boolean {
  const sum = head.reduce((all, b, i) => all + (i >= 148 && i < 156 ? 32 : b), 0);
  return sum === number(head.subarray(148, 156));
}
