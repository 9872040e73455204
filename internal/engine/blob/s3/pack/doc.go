// Package pack stores many small contents in one object of a bucket, because a request costs more
// than the bytes of a small content.
//
//	<prefix>/blobs/c9/put-<generation>-<id>.pack     named after its first content
//
// Contents are gathered in memory in the current pack until a caller wants one of them durable or
// the pack is full. The pack is then put once, as one object. In the bucket a pack only shrinks:
// the remaining contents are put as a new object with random digits after its name, and the
// previous object is deleted. No object ever changes, so a backup that keeps deleted objects can
// restore everything. See remove.go for concurrent removals by several instances.
//
// An object consists of an index of IndexSize bytes and the slots (docs/formats/pack.md). A
// content's name encodes the beginning of its slot, in units of 512 bytes from the beginning of the
// first object, and its length, so that one request reads it. In a rewritten pack the slots have
// moved together; the index has their new offsets, and each slot's header tells which slot it is. A
// client cannot know the id of a pack before it is put, so its content cannot imitate a header.
//
// Contents with a reserved slot use memory until they are durable. Beyond a bound, new contents get
// no slot and become objects of their own.
package pack
