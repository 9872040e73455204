// Package client speaks SmartDrive's native API. It has a typed method for each endpoint, and the
// transfers that the command line is built on: Uploader and Downloader, for single files and for
// trees.
//
// It is not a sync engine. The only local state is a partial file and its sidecar beside a
// download. The server keeps the state of an upload; a client finds an interrupted upload by its
// fingerprint.
//
// Terms: a problem is an error reported by SmartDrive (RFC 9457). A proxy error is a reply that did
// not come from SmartDrive. The store is the object store to which the server may redirect a
// download. A failed request is in doubt if the server may have carried out the request although
// the client got no reply. A retry budget bounds how long a transfer retries without progress.
//
// Every call is safe to repeat. A request that creates something carries an Idempotency-Key; before
// a retry that would replace something, the client compares what the server has. Cancelling the
// caller's context ends a call at once.
package client
