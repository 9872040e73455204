// Package digest computes the digests and checksums of content: BLAKE3 as a tree of parts that may
// arrive in any order, the alias digests that clients declare, combinable CRC-32, the
// Content-Digest and Repr-Digest fields of RFC 9530, and the challenge by which a client proves
// that it has a file.
//
// The package does no I/O of its own: bytes come from Write or from an io.ReaderAt of the caller.
// Types are not safe for concurrent use unless documented; functions are.
//
// Words:
//   - A part is a slice of a file that begins at a multiple of its size, a power of two of at least 16 KiB; only the last part
//     of a file may be shorter. Such a part is a complete subtree of BLAKE3's tree.
//   - Its chaining value (CV) is the 32-byte output of that subtree. Fold computes the digest of a file from the CVs of its parts.
//   - The canonical digest is BLAKE3-256 (Sum). An alias is SHA-256, SM3, SHA-1 or MD5, computed only if a client declared it.
//   - A strong digest is collision-resistant: BLAKE3, SHA-256 and SM3. A weak digest alone never links content.
//
// It implements half of invariant P3 (a version is visible only when its bytes are verified) and
// the check behind B1 (bytes of a blob never change): docs/invariants.md.
package digest
