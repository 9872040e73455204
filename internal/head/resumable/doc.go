// Package resumable is the head of Resumable Uploads for HTTP, an Internet-Draft
// (draft-ietf-httpbis-resumable-upload-12, interop version 8), on upload.Sessions. It is a draft
// that has changed with each version and will again, so it is off unless --resumable-draft says
// otherwise; with it off nothing of this package is there.
//
//	/api/v1/files/{path...}  PUT, POST with Upload-Complete   creation: the file as the API takes it, but it may be resumed
//	                         OPTIONS                          what there is, and limits
//	/resumable/{id}          HEAD                             how far it has come
//	                         PATCH                            bytes for its end
//	                         DELETE                           give it up
//
// A PUT is answered as the API answers it, after one request or many: what rest reads from it and
// says about it comes from rest. Creation announces the address of the upload by an interim
// response, 104, before a byte is read.
//
// While a long body comes further ones say how far it has come. Where all of a file comes in one
// request its SHA-256 is in the answer, if the client wants it (Want-Repr-Digest); one that comes
// in several would have to be read for it, and has none.
package resumable
