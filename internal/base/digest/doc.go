// Package digest computes what identifies and protects content: BLAKE3 as a tree of parts that may
// come in any order, the alias digests that clients declare, CRC-32 that can be combined, the
// Content-Digest and Repr-Digest fields of RFC 9530, and the challenge by which a client proves
// that it holds a file.
//
// It does no I/O of its own: bytes come from a Write or from an io.ReaderAt that the caller owns.
// Nothing in it is safe for concurrent use unless it says so; functions are.
//
// Words:
//   - A part is a slice of a file that begins at a multiple of its size, a power of two of at least 16 KiB; only the last part
//     of a file may be shorter. Such a part is a complete subtree of BLAKE3's tree.
//   - Its chaining value (CV) is the subtree's 32 bytes. Fold makes the digest of a file from the CVs of its parts alone.
//   - The canonical digest is BLAKE3-256 (Sum). An alias is SHA-256, MD5 or SM3, computed only when a client declared it.
//   - A strong digest is one that nobody can make collide: all of them but MD5, which alone never links content.
//
// It carries half of invariant P3 (a version is visible only when its bytes are verified) and the
// check behind B1 (bytes of a blob never change): docs/invariants.md.
package digest
