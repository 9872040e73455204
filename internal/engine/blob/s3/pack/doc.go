// Package pack keeps many small contents in one object of a bucket: a request costs both sides more
// than the bytes of a small content do.
//
//	<prefix>/blobs/c9/put-<generation>-<id>.pack     named by what its first content would have been named
//
// Contents are gathered in memory, in the pack that takes them, until somebody wants one of them to
// be durable or the pack is full. Then it is put, once, as a whole. So it is in memory alone that a
// pack grows; in the bucket it only loses contents: one that has lost some is replaced by one
// without them, one that has lost all is deleted. Of two instances that do so at the same time one
// finds the object changed, and begins again. Where a store cannot compare, the later one wins, and
// may bring back what the earlier one has removed, but it has everything that nobody has removed.
//
// An object is an index of IndexSize bytes and the slots (docs/formats/pack.md). The name of a
// content says where its slot begins, in units of 512 bytes from the beginning of the object, and
// how long it is, so one request reads it. The slots of a pack that was replaced have moved
// together: the index says where they are now, and the head of a slot whose it is. Nobody who sends
// contents knows the id of their pack before it is put, so what looks like a head is one.
//
// What is named and not durable takes memory, and that has a bound: beyond it contents get no place
// in a pack, and are objects of their own.
package pack
