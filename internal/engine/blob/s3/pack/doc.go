// Package pack keeps many small contents in one object of a bucket: a request costs both sides more
// than the bytes of a small content do.
//
//	<prefix>/blobs/c9/put-<generation>-<id>.pack     named by what its first content would have been named
//
// Contents are gathered in memory, in the pack that takes them, until somebody wants one of them to
// be durable or the pack is full. Then it is put, once, as a whole. So it is in memory alone that a
// pack grows; in the bucket it only loses contents: what is left is put as another object, with
// random digits behind its name, and the one before is deleted. No object ever changes, so whoever
// keeps what is deleted, as a backup does, can bring all of it back. See remove.go for what several
// instances do at the same time.
//
// An object is an index of IndexSize bytes and the slots (docs/formats/pack.md). The name of a
// content says where its slot begins, in units of 512 bytes from the beginning of the first object,
// and how long it is, so one request reads it. The slots of a pack that was rewritten have moved
// together: the index says where they are now, and the head of a slot whose it is. Nobody who sends
// contents knows the id of their pack before it is put, so what looks like a head is one.
//
// What is named and not durable takes memory, and that has a bound: beyond it contents get no place
// in a pack, and are objects of their own.
package pack
