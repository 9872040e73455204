// Package s3 keeps sealed content and staged uploads in a bucket of any S3-compatible store, and
// the journals of the latter in Redis.
//
//	<prefix>/installation                        whose bytes these are, see blob.Mark
//	<prefix>/blobs/c9/<upload id>                sealed content, named by the upload that brought it
//	<prefix>/blobs/c9/put-<generation>-<id>      a small file that came in one request
//	<prefix>/blobs/c9/put-<generation>-<id>.pack several small contents of batches: package pack
//	<prefix>/quarantine/2026-11-20/...           what the auditor could not explain
//	<prefix>/probe/...                           for the length of Check
//
// A staged upload is a multipart upload whose key is that of the content to be. Part n is its part
// n+1; to seal is to complete it. No byte is copied, but for Unseal, and that copy is the store's.
//
// # The journal
//
// It is in Redis, two keys under one hash tag (scripts.go, docs/formats/redis.md): what has been
// accepted, by ETag, and who writes what. A part is accepted when its bytes are at the store and
// its entry is in the journal (P2). The bytes alone count as held.
//
//	Write:  claim (Redis) ──► UploadPart (S3), the last byte only when all is verified ──► append (Redis)
//
// Redis is speed, the store is the truth: a journal that is gone is made again from
// ListMultipartUploads and ListParts. Its parts are Unread then. A Redis that has started again, or
// failed over, may have lost what it acknowledged last; its run id tells, and the journal is
// compared with the store at the next Load, Fence or Seal. What neither knows are fences: a journal
// that was made again refuses every gen until one is fenced by somebody who has read the row. Where
// only the last fence was lost, a Write under its gen may get in before the next one; the bytes are
// charged with that.
//
// # Leases
//
// One instance writes a part at a time. Its lease is extended while bytes flow, looked at once more
// before the last byte goes out, and needed to enter the part. An instance that dies loses it after
// Options.Lease. One that is frozen just between that look and its last byte may still write over
// the part of whoever took over; the ETag in the journal is another then, and Seal finds
// InvalidPart and says PartsMissing: wrong bytes never become content.
//
// # Strays
//
// Remove aborts every multipart upload with the upload's key, also those that no journal knows, and
// a Write that comes late aborts once more. ListStaged shows what is at the store besides journals.
// To abort destroys bytes, so QuarantineStaged completes and moves (B3), and leaves alone what
// cannot be completed.
package s3
