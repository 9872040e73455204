// Package local keeps staged uploads and sealed content in a directory of a local file system.
//
//	<blobs>/installation                          whose bytes these are: {id, generation}, see Mark
//	<blobs>/staging/2026/11/20/<upload id>/data   UTC date of begin; sparse, parts at their final offsets
//	<blobs>/staging/2026/11/20/<upload id>/journal
//	<blobs>/blobs/c9/<upload id>                  sealed content, named by the upload that brought it
//	<blobs>/blobs/c9/put-<generation>-<id>        a small file that came in one request
//	<blobs>/wal/0, 1                              small contents whose files are not synced yet: package wal
//	<blobs>/quarantine/2026-11-20/...             what the auditor could not explain
//	<blobs>/incoming/<name>                       content that another store sends, until it is whole
//
// The directory below blobs is the last two hex digits of the id. A UUIDv7 begins with the time, so
// its first two digits would be the same for years; the last ones are random. Directories are 0700,
// files 0600. Sealing is a rename, so staging and blobs must be on one file system; Open checks it.
//
// # The journal
//
// It says which parts have arrived and is only ever appended to. Bytes of a part are written before
// its record, and before an accepted part is overwritten or freed a drop record takes it back: the
// process may die between any two writes and the journal never names a part whose bytes are not
// there (P2). It is a sequence of frames; integers are little-endian (docs/formats/journal.md has
// every record):
//
//	 0       2      3       4                4+size        8+size
//	┌───────┬──────┬───────┬────────────────┬─────────────┐
//	│ size  │ kind │ since │ payload        │ CRC-32C     │   since: the format version that brought this kind
//	│ u16   │ u8   │ u8    │ size bytes     │ of the rest │
//	└───────┴──────┴───────┴────────────────┴─────────────┘
//
//	header   magic, version, upload id, begun, part size, size, boot id     first frame, once
//	part     n, flags, gen, size, crc32, time, session, cv [, root]         part n is accepted
//	drop     n, gen                                                         part n is not there any more
//	fence    gen                                                            this gen and smaller ones are refused
//	boot     boot id                                                        what follows was written under this boot
//	synced   -                                                              all parts before it are durable
//	verified -                                                              and none of them is suspect
//	doubt    reason                                                         all parts before it are suspect
//	tail     n, size, flags, gen, crc32, time, session, cv [, root]         the first bytes of part n have arrived (tail.go)
//
// A file that does not end with a whole frame is cut back to the last whole one, and a doubt record
// takes the place of what was cut: it may have been a drop. One that has grown long with drops is
// rewritten under another name and renamed.
//
// # Suspicion
//
// A process may die at any time: its writes are in the page cache. When the machine dies, parts
// that no synced record follows may have lost bytes. The boot id tells the two apart. Such parts
// are suspect, and so is everything after a failed sync, which the kernel reports only once; Verify
// reads them back and drops what is wrong. With Durability Part there are none.
//
// No file stays open between calls. What an active upload has accepted is cached from its first
// Write until Fence, Seal or Remove.
package local
