// Package wal is a write-ahead log of small contents. To sync each small file costs a wait for the
// disk and a write of its inode, its directory and the free space; the log makes the contents of
// all who wait at the same time durable with one write in a row and one sync. The files themselves
// are written as always, and reach the disk later, by one sync for thousands of them. After a loss
// of power Open writes again what the log has, so a content is either in its file or in the log.
//
// # Segments
//
// There are two, <dir>/0 and <dir>/1, of at most 32 MiB each. One takes records; when it is full or
// old, the other goes on, and the first is settled: all files are synced, then its header is
// overwritten with zeros, and it is free again. While it is not, and the other is full,
// the log takes nothing, and whoever stores a content syncs its file. A log that was closed leaves
// no segments.
//
// A segment reserves room on the disk for the files of its contents, behind its frames. A start
// that finds the disk full gives it back, and so can write them again.
//
// Integers are little-endian (docs/formats/wal.md). A segment begins with a header, and a frame
// follows another:
//
//	 0          8         10       18            22
//	┌──────────┬─────────┬────────┬─────────────┐
//	│ SDCONLOG │ version │ number │ CRC-32C of  │   number: counts the segments since the start of the server
//	│          │ u16     │ u64    │ all before  │
//	└──────────┴─────────┴────────┴─────────────┘
//	 0        4      5       6      8        16     16+n      16+n+size  20+n+size
//	┌────────┬──────┬───────┬──────┬────────┬──────┬─────────┬────────────┐
//	│ size   │ kind │ since │ n    │ number │ name │ content │ CRC-32C of │   kind: 1 content, 2 forgotten, which has no content
//	│ u32    │ u8   │ u8    │ u16  │ u64    │      │         │ all before │   since: the format version that brought this kind
//	└────────┴──────┴───────┴──────┴────────┴──────┴─────────┴────────────┘
//
// The first bytes that are not a whole frame of the segment's number are the end: what follows was
// not acknowledged, or is of an earlier use of the file.
package wal
