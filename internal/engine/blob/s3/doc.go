// Package s3 implements blob.Store and blob.Staging on a bucket of any S3-compatible store, with
// the journals of staged uploads in Redis.
//
//	<prefix>/installation                        the installation mark, see blob.Mark
//	<prefix>/blobs/c9/<upload id>                sealed content, named by its upload
//	<prefix>/blobs/c9/put-<generation>-<id>      a small file that arrived in one request
//	<prefix>/blobs/c9/put-<generation>-<id>.pack several small contents of batches: package pack
//	<prefix>/tails/<upload id>/...               pieces of parts that are not complete
//	<prefix>/quarantine/2026-11-20/...           entries that no row explains
//	<prefix>/probe/...                           while Check runs
//
// A staged upload is a multipart upload with the key of the future content. Part n is part n+1 of
// the multipart upload, and Seal completes the multipart upload. Bytes are copied only by Unseal,
// and by the store itself.
//
// # The journal
//
// The journal has two Redis keys under one hash tag (scripts.go, docs/formats/redis.md): the
// accepted parts with their ETags, and the leases of the parts being written. A part is accepted
// when its bytes are in the store and its entry is in the journal (P2). Bytes without an entry only
// count as held.
//
//	Write:  claim (Redis) ──► UploadPart (S3), the last byte only when all is verified ──► append (Redis)
//
// The store is the source of truth and Redis the fast index. A lost journal is rebuilt from
// ListMultipartUploads and ListParts, with all parts Unread. A Redis that has restarted or failed
// over may have lost acknowledged writes. Its run id reveals this, and the next Load, Fence or Seal
// compares the journal with the store. Fences cannot be rebuilt. A rebuilt journal therefore
// refuses every gen until a caller that has read the row fences one. If only the last fence was
// lost, a Write under its gen may be accepted before the next fence, which then charges those
// bytes.
//
// # Leases
//
// A lease lets one instance at a time write a part. It is renewed while bytes flow, checked again
// before the last byte is sent, and required to enter the part in the journal. The lease of a dead
// instance expires after Options.Lease. An instance that freezes between the last check and its
// last byte may overwrite the part of the next lease holder. The ETag then differs from the
// journal's, so Seal gets InvalidPart and returns PartsMissing: wrong bytes never become content.
//
// # Strays
//
// Remove aborts every multipart upload with the upload's key, including those missing from the
// journal, and a late Write aborts once more. ListStaged shows what the store has besides the
// journals. Aborting destroys bytes, so QuarantineStaged completes and moves the upload instead
// (B3), and leaves alone what cannot be completed.
package s3
