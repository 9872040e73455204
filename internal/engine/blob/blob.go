// Package blob defines where bytes live: the Store of sealed content and the Staging of uploads on
// their way in.
//
// It is two ports, their contracts, and Body, the checked front door that every byte enters
// through. A port is one interface, and what an adapter cannot do is data (StoreCaps, Caps), so
// that a decorator of a port cannot lose a part of it. Adapters are neighbours (local: a directory,
// s3: a bucket); blobtest is the conformance suite that all of them pass.
//
// Invariants kept here: P2 (an accepted part survives kill -9), B1 (bytes of a blob never change),
// B3 (bytes that nobody can explain are moved aside, never deleted).
package blob
