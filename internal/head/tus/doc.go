// Package tus is the HTTP head for the tus resumable upload protocol, version 1.0.0
// (https://tus.io/protocols/resumable-upload), over upload.Sessions: core, creation,
// creation-with-upload, creation-defer-length, termination, checksum, checksum-trailer, expiration
// and concatenation.
//
//	/tus/        OPTIONS  announces version, extensions and limits
//	             POST     creates an upload, with or without its first bytes; or concatenates partial uploads
//	/tus/{id}    HEAD     reports the offset
//	             PATCH    appends bytes
//	             DELETE   cancels the upload
//	             GET      redirects to the file once it exists
//
// Quota, timers, digests and crash recovery are those of upload.Sessions. Where the protocol leaves
// a choice, the head behaves as follows:
//
//   - The last byte completes the upload. The response to that request comes when the file exists, or reports why it does not. A HEAD
//     of an upload that has all its bytes completes it too: its client may have crashed, and takes a full offset for "done".
//   - HEAD or PATCH interrupts a running request of the same upload, because a client sends it after its connection has hung.
//   - Errors are problem documents (package problem). A refused creation leaves no upload, because its client never learns the URL.
package tus
