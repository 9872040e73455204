// Package tus is the head of the tus resumable upload protocol, version 1.0.0
// (https://tus.io/protocols/resumable-upload), on upload.Sessions: core, creation,
// creation-with-upload, creation-defer-length, termination, checksum, checksum-trailer, expiration
// and concatenation.
//
//	/tus/        OPTIONS  what there is
//	             POST     create an upload, with its first bytes or without; or put partial ones together
//	/tus/{id}    HEAD     how far it has come
//	             PATCH    bytes for its end
//	             DELETE   give it up
//	             GET      the way to the file, once it is there
//
// An upload is one of upload.Sessions: quota, timers, digests, and what a crash leaves are those of
// the native API. What the protocol leaves open is decided so:
//
//   - The last byte completes the upload; the answer to its request comes when the file is there, or says why it is not. So does HEAD
//     of an upload that has all its bytes: its client may have died just then, and takes "everything has arrived" for "done".
//   - HEAD or PATCH ends a request of the same upload that still runs: a client asks again because its connection has hung.
//   - A refusal is a problem document (package problem). Creation that is refused leaves no upload, for its client never learns the
//     address.
package tus
