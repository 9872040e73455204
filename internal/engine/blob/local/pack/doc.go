// Package pack stores many small contents in one file, each in its own slot. Creating a file costs
// more than writing a small content, and syncing many files costs an inode write each.
//
//	<blobs>/blobs/c9/put-<generation>-<id>.pack     named after its first content
//
// One process appends to a pack, and never again after the process has ended or the pack is full. A
// content is written to the next free blocks; one sync makes all contents written so far durable. A
// removed content is punched out, which frees its blocks, and an empty pack is deleted. Contents
// therefore never move, and a slot never changes.
//
// A slot consists of whole blocks. The content's name encodes its position (blob.Slot). Integers
// are little-endian (docs/formats/pack.md):
//
//	 0       4         8      12            28        32           36         40
//	┌───────┬─────────┬──────┬─────────────┬─────────┬────────────┬──────────┬──────────────────┐
//	│ SDPK  │ version │ size │ id of the   │ block   │ CRC-32C of │ CRC-32C  │ content          │
//	│       │ u32     │ u32  │ pack        │ u32     │ content    │ of these │ size bytes       │
//	└───────┴─────────┴──────┴─────────────┴─────────┴────────────┴──────────┴──────────────────┘
//
// A slot without an intact header has no content: it was never written, was torn by a crash before
// it was acknowledged, or was removed.
package pack
