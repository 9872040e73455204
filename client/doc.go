// Package client speaks SmartDrive's native API: typed methods for every endpoint, and on top of
// them the transfers that the command line is built on: Uploader, Downloader and their tree forms.
//
// It is not a sync engine and keeps no state but the partial file and its sidecar beside a
// download. What an upload needs to go on after a crash is on the server: the upload itself, found
// again by its fingerprint.
//
// Words: a problem is an error that SmartDrive reports (RFC 9457); a proxy error is a reply that is
// not SmartDrive's; the store is where the server may send a download on to. A failure is doubtful
// when the request may have been carried out although no reply came. Patience is how long a
// transfer goes on trying while nothing succeeds.
//
// Every call may be repeated: what creates something carries an Idempotency-Key, what replaces
// something is compared with what is there before it is sent again. The caller's context ends
// everything at once.
package client
