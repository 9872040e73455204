import { type IHasher, createBLAKE3, createCRC32, createMD5, createSHA256 } from "hash-wasm";
import { LocalError } from "../problem.ts";
import type { Challenge, Digests } from "../types.ts";
import type { Check, Hasher, Sums } from "./hasher.ts";

const castagnoli = 0x82f63b78; // the reversed polynomial of CRC-32C (RFC 3720)
const sample = 64 << 10; // bytes of each end that go into a fingerprint, as in client/source.go

/** localHasher hashes where it is called: in the worker, in Node, or on the page where there are no workers. */
export const localHasher: Hasher = {
  async fingerprint(file, signal) {
    const h = await createBLAKE3(160);
    h.init();
    h.update(`smartdrive fingerprint 1\n${file.size}\n${file.lastModified}\n${JSON.stringify(file.name)}\n`);
    for (const offset of [0, Math.max(0, file.size - sample)]) {
      await read(file.slice(offset, offset + sample), (b) => h.update(b), signal);
    }
    return `v1-${h.digest("hex")}`;
  },

  async scan(file, o, onPart, signal) {
    const [whole, md5] = await Promise.all([idleWhole.pop() ?? createBLAKE3(), o.md5 ? createMD5() : null]);
    const part = await PartSums.take(o.check, o.crc32);
    whole.init();
    md5?.init();
    let n = 0;
    let inPart = 0;
    await read(
      file,
      (bytes) => {
        whole.update(bytes);
        md5?.update(bytes);
        for (let rest = bytes; rest.length > 0; ) {
          const piece = rest.subarray(0, o.partSize - inPart);
          part.update(piece);
          rest = rest.subarray(piece.length);
          if ((inPart += piece.length) < o.partSize) continue;
          onPart(n++, part.end());
          inPart = 0;
        }
      },
      signal,
    );
    if (inPart > 0) onPart(n, part.end());
    const digests: Digests = { blake3: whole.digest("hex") };
    if (md5) digests.md5 = md5.digest("hex");
    if (idleWhole.length < mostIdle) idleWhole.push(whole);
    part.giveBack();
    return digests;
  },

  async sums(part, check, signal) {
    const sums = await PartSums.take(check, true);
    await read(part, (b) => sums.update(b), signal);
    const all = sums.end();
    sums.giveBack();
    return all;
  },

  answer,
  close() {},
};

async function answer(file: Blob, c: Challenge, signal: AbortSignal): Promise<string> {
  const key = Uint8Array.from(c.nonce.match(/../g) ?? [], (hex) => Number.parseInt(hex, 16));
  if (key.length !== 32) throw new LocalError("internal", `a challenge with a nonce of ${c.nonce.length} hex digits`);
  const h = await createBLAKE3(256, key);
  h.init();
  const head = new DataView(new ArrayBuffer(12));
  for (const [offset, length] of c.ranges) {
    if (offset < 0 || length < 0 || offset + length > file.size) {
      throw new LocalError("internal", `a challenge for ${length} bytes at ${offset} of ${file.size}`);
    }
    head.setBigUint64(0, BigInt(offset), true);
    head.setUint32(8, length, true);
    h.update(new Uint8Array(head.buffer));
    await read(file.slice(offset, offset + length), (b) => h.update(b), signal);
  }
  return h.digest("hex");
}

const mostIdle = 8; // as many as there are requests at once

/** idle are kept for the next part or small file: to make one costs more than to hash a few KiB. */
const idle: PartSums[] = [];
const idleWhole: IHasher[] = [];

/** PartSums computes the sums of one part after the other. */
class PartSums {
  private constructor(
    readonly kind: Check,
    private readonly check: IHasher,
    private readonly crc32: IHasher | null,
  ) {
    check.init();
    crc32?.init();
  }

  /** take makes one, or takes one that was given back. */
  static async take(kind: Check, crc32: boolean): Promise<PartSums> {
    const spare = idle.findIndex((s) => s.kind === kind && (s.crc32 !== null) === crc32);
    const [idler] = idle.splice(spare, spare < 0 ? 0 : 1);
    if (idler) return idler;
    const check = kind === "sha-256" ? createSHA256() : createCRC32(castagnoli);
    return new PartSums(kind, await check, crc32 ? await createCRC32() : null);
  }

  update(bytes: Uint8Array): void {
    this.check.update(bytes);
    this.crc32?.update(bytes);
  }

  /** giveBack is called after end, and not after an error. */
  giveBack(): void {
    if (idle.length < mostIdle) idle.push(this);
  }

  end(): Sums {
    const sums: Sums = {
      check: `${this.kind}=:${btoa(String.fromCharCode(...this.check.digest("binary")))}:`,
      crc32: this.crc32 ? Number.parseInt(this.crc32.digest("hex"), 16) : null,
    };
    this.check.init();
    this.crc32?.init();
    return sums;
  }
}

/** read feeds all of a blob to take, piece by piece. A file that changed since it was picked cannot be read any more. */
async function read(blob: Blob, take: (bytes: Uint8Array) => void, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const reader = blob.stream().getReader();
  let got = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((err: unknown) => unreadable(blob, err));
      if (done) break;
      signal.throwIfAborted();
      got += value.length;
      take(value);
    }
  } finally {
    reader.cancel().catch(() => {}); // nothing is lost when that fails
  }
  if (got !== blob.size) throw new LocalError("file-changed", `the file ended after ${got} of ${blob.size} bytes`);
}

/** unreadable says why: a stream of Chromium fails with a TypeError whatever the reason, a plain read names it. */
async function unreadable(blob: Blob, err: unknown): Promise<never> {
  const cause = await blob.slice(0, 1).arrayBuffer().then(
    () => err,
    (why: unknown) => why,
  );
  const name = cause instanceof Error || cause instanceof DOMException ? cause.name : "";
  const changed = name === "NotReadableError" || name === "NotFoundError";
  throw new LocalError(changed ? "file-changed" : "file-unreadable", "the file cannot be read: it was changed, moved or taken from us", { cause });
}
