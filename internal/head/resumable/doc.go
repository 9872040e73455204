// Package resumable is the HTTP head for Resumable Uploads for HTTP, an Internet-Draft
// (draft-ietf-httpbis-resumable-upload-12, interop version 8), over upload.Sessions. Drafts change
// incompatibly, so the head is off unless --resumable-draft is set; then none of its routes exist.
//
//	/api/v1/files/{path...}  PUT, POST with Upload-Complete   creates a resumable upload of a file
//	                         OPTIONS                          announces support and limits
//	/resumable/{id}          HEAD                             reports the offset
//	                         PATCH                            appends bytes
//	                         DELETE                           cancels the upload
//
// A PUT is answered as in the native API, whether it took one request or many; package rest parses
// the request and writes the response. Creation announces the upload's address in an interim
// response, 104, before it reads the body.
//
// Further interim responses report the offset while a long body arrives. If the client wants it
// (Want-Repr-Digest) and one request brings the whole file, the response has its SHA-256. A file
// from several requests would have to be read again for that, so its response has none.
package resumable
