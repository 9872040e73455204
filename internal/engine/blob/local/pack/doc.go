// Package pack keeps many small contents in one file, each in a slot of its own: to make a file
// costs more than to write what a small one has, and to sync many costs a write of each one's
// inode.
//
//	<blobs>/blobs/c9/put-<generation>-<id>.pack     named by what its first content would have been named
//
// A pack is written by one process, from its beginning on, and never again after that process or
// once it is full. What is laid is written to the next free blocks; one sync of the pack makes all
// durable that was written before. Contents that are removed are punched out of it, which frees
// their blocks; a pack that has nothing left is removed itself. So nothing has to be moved together
// ever, and what a slot has never changes.
//
// A slot begins at a block and takes whole ones. The name of the content says where
// (blob.Slot), so that nothing else needs to know. Integers are little-endian
// (docs/formats/pack.md):
//
//	 0       4         8      12            28        32           36         40
//	┌───────┬─────────┬──────┬─────────────┬─────────┬────────────┬──────────┬──────────────────┐
//	│ SDPK  │ version │ size │ id of the   │ block   │ CRC-32C of │ CRC-32C  │ content          │
//	│       │ u32     │ u32  │ pack        │ u32     │ content    │ of these │ size bytes       │
//	└───────┴─────────┴──────┴─────────────┴─────────┴────────────┴──────────┴──────────────────┘
//
// A slot whose head is not whole has no content: it was never written, was torn by a crash before
// anybody was told of it, or was removed.
package pack
