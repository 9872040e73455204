// Package wal is a write-ahead log of small contents. Syncing each small file costs a disk wait and
// writes of its inode, directory and free space. The log makes the contents of all concurrent
// callers durable with one sequential write and one sync. The files themselves are written as usual
// and reach the disk later, by one sync for thousands of them. After a power loss Open rewrites the
// files from the log, so each content is durable in its file or in the log.
//
// # Segments
//
// There are two segments, <dir>/0 and <dir>/1, of at most 32 MiB each. The active one takes
// records. When it is full or old, the other one becomes active, and the first is settled: all
// files are synced, its header is zeroed, and it is free again. If the active segment is full
// before the other one is free, the log accepts nothing, and callers sync their files. A closed log
// leaves no segments.
//
// A segment reserves disk space for the files of its contents, behind its frames. If a start finds
// the disk full, it releases that space to rewrite the files.
//
// Integers are little-endian (docs/formats/wal.md). A segment consists of a header and frames:
//
//	 0          8         10       18            22
//	┌──────────┬─────────┬────────┬─────────────┐
//	│ SDCONLOG │ version │ number │ CRC-32C of  │   number: counts the segments since the start of the server
//	│          │ u16     │ u64    │ all before  │
//	└──────────┴─────────┴────────┴─────────────┘
//	 0        4      5       6      8        16     16+n      16+n+size  20+n+size
//	┌────────┬──────┬───────┬──────┬────────┬──────┬─────────┬────────────┐
//	│ size   │ kind │ since │ n    │ number │ name │ content │ CRC-32C of │   kind: 1 content, 2 forgotten, which has no content
//	│ u32    │ u8   │ u8    │ u16  │ u64    │      │         │ all before │   since: the format version that introduced this kind
//	└────────┴──────┴───────┴──────┴────────┴──────┴─────────┴────────────┘
//
// The first bytes that are not a whole frame with the segment's number end the segment: the rest
// was not acknowledged, or belongs to an earlier use of the file.
package wal
