// Package local implements blob.Store and blob.Staging in a directory of a local file system.
//
//	<blobs>/installation                          the installation mark: {id, generation}, see Mark
//	<blobs>/staging/2026/11/20/<upload id>/data   UTC date of creation; sparse, parts at their final offsets
//	<blobs>/staging/2026/11/20/<upload id>/journal
//	<blobs>/blobs/c9/<upload id>                  sealed content, named by its upload
//	<blobs>/blobs/c9/put-<generation>-<id>        a small file that arrived in one request
//	<blobs>/blobs/c9/put-<generation>-<id>.pack   several small contents: package pack
//	<blobs>/wal/0, 1                              write-ahead log of small contents: package wal
//	<blobs>/quarantine/2026-11-20/...             entries that no row explains
//	<blobs>/incoming/<name>                       content being received from another store
//
// The directory below blobs is the last two hex digits of the id. They are random, whereas a UUIDv7
// begins with the time. Directories have mode 0700, files 0600. Sealing is a rename, so staging and
// blobs must be on one file system; Open checks this.
//
// # The journal
//
// The journal lists the accepted parts of an upload and is append-only. Bytes of a part are written
// before its record. Before an accepted part is overwritten or freed, a drop record removes it. The
// process may therefore die between any two writes, and the journal never names a part whose bytes
// are missing (P2). It is a sequence of frames; integers are little-endian (docs/formats/journal.md
// describes every record):
//
//	 0       2      3       4                4+size        8+size
//	┌───────┬──────┬───────┬────────────────┬─────────────┐
//	│ size  │ kind │ since │ payload        │ CRC-32C     │   since: the format version that introduced this kind
//	│ u16   │ u8   │ u8    │ size bytes     │ of the rest │
//	└───────┴──────┴───────┴────────────────┴─────────────┘
//
//	header   magic, version, upload id, begun, part size, size, boot id     first frame, once
//	part     n, flags, gen, size, crc32, time, session, cv [, root]         part n is accepted
//	drop     n, gen                                                         part n is removed
//	fence    gen                                                            this gen and smaller ones are refused
//	boot     boot id                                                        the following frames were written under this boot
//	synced   -                                                              all parts before it are durable
//	verified -                                                              and none of them is suspect
//	doubt    reason                                                         all parts before it are suspect
//	tail     n, size, flags, gen, crc32, time, session, cv [, root]         the first bytes of part n have arrived (tail.go)
//
// A file that does not end with a whole frame is truncated to the last whole one, and a doubt
// record replaces the lost frame, which may have been a drop. A journal that has grown long with
// drops is rewritten and renamed into place.
//
// # Suspect parts
//
// If the process dies, its writes survive in the page cache. If the machine dies, parts without a
// later synced record may have lost bytes. The boot id distinguishes the two. Such parts are
// suspect, and so are all parts after a failed sync, which the kernel reports only once. Verify
// reads suspect parts back and drops the wrong ones. With Durability DurabilityPart there are none.
//
// No file stays open between calls. The journal of an active upload is cached from its first Write
// until Fence, Seal or Remove.
package local
