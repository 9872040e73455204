// Package blob defines the two ports for file bytes: Store holds sealed content, and Staging holds
// the parts of unfinished uploads.
//
// Body is the checking reader through which every byte enters either port. A port is one interface.
// What an adapter cannot do is data (StoreCaps, Caps), so that a decorator cannot lose a method.
// The adapters are the packages local (a directory) and s3 (a bucket). Package blobtest is the
// conformance suite that every adapter passes.
//
// Words used here and in the adapters: content is sealed bytes under one name. A place is a path in
// the directory or a key in the bucket, relative to the store's root. A shard is one of the 256
// directories of content. A pack is one file or object that holds several small contents, each in a
// slot. A tail is the beginning of a part that has not arrived completely. gen is an upload's
// fencing token. A suspect part is one whose bytes a power loss may have taken.
//
// Invariants kept here: P2 (an accepted part survives kill -9), B1 (bytes of a blob never change),
// B3 (bytes that no row explains are moved to the quarantine, never deleted).
package blob
