import type { Challenge, Digests } from "../types.ts";

/** Check is what a part is checked with on its way. */
export type Check = "crc32c" | "sha-256";

/** Sums of a part. */
export interface Sums {
  /** Value of Content-Digest (RFC 9530) */
  check: string;
  /** of IEEE 802.3, as the server lists it; null where it was not asked for */
  crc32: number | null;
}

export interface ScanOptions {
  /** bytes */
  partSize: number;
  check: Check;
  /** CRC-32s are wanted as well: to compare with parts that the server has. */
  crc32: boolean;
  md5: boolean;
}

/** Hasher reads files. It never holds more than a few pieces of one in memory. It rejects with LocalError where that fails. */
export interface Hasher {
  /** Names a file well enough to find its upload again, without reading all of it: as the Go client does. */
  fingerprint(file: File, signal: AbortSignal): Promise<string>;
  /** Reads once from front to end; tells the sums of each part as it passes, and returns the digests. */
  scan(file: Blob, o: ScanOptions, onPart: (n: number, sums: Sums) => void, signal: AbortSignal): Promise<Digests>;
  /** Sums of one part. */
  sums(part: Blob, check: Check, signal: AbortSignal): Promise<Sums>;
  /** Keyed BLAKE3 over uint64le(offset) | uint32le(length) | bytes of each range. */
  answer(file: Blob, c: Challenge, signal: AbortSignal): Promise<string>;
  close(): void;
}
