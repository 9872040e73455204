package stream

import "slices"

// Topic is a log of records of related types. The list is closed: encoding a record of another
// topic fails.
type Topic string

// Type is the CloudEvents type of a record. Each type belongs to one topic.
type Type string

// The topics.
const (
	TopicUploads   Topic = "smartdrive.uploads"   // state changes of uploads
	TopicPark      Topic = "smartdrive.park"      // fired timers whose work changes only the ledger
	TopicReclaim   Topic = "smartdrive.reclaim"   // fired timers whose work is I/O
	TopicExports   Topic = "smartdrive.exports"   // exports: sealed, failed, expiring, late
	TopicBundles   Topic = "smartdrive.bundles"   // sealed bundles of documents
	TopicDocuments Topic = "smartdrive.documents" // accepted, conflicting and rejected documents
	TopicNotices   Topic = "smartdrive.notices"   // notifications to send
)

// The types. The subject is the id of the upload, bundle, document or export, or the key of the
// timer. A test checks that each type is published.
const (
	UploadBegun      Type = "upload.begun"
	UploadParked     Type = "upload.parked"
	UploadResumed    Type = "upload.resumed"
	UploadDone       Type = "upload.done"
	UploadGone       Type = "upload.gone"
	ParkDue          Type = "park.due"
	ReclaimDue       Type = "reclaim.due"
	BundleSealed     Type = "bundle.sealed"
	DocumentAccepted Type = "document.accepted"
	DocumentConflict Type = "document.conflict" // a document contradicts this accepted one
	DocumentRejected Type = "document.rejected" // a document of a bundle was rejected; the subject is the bundle
	ExportSealed     Type = "export.sealed"
	ExportFailed     Type = "export.failed" // permanently
	ExportEnding     Type = "export.ending" // the zip expires within a day
	ExportLate       Type = "export.late"   // the export runs longer than expected
	NoticeDue        Type = "notice.due"
)

// types lists the types that each topic carries.
var types = map[Topic][]Type{
	TopicUploads:   {UploadBegun, UploadParked, UploadResumed, UploadDone, UploadGone},
	TopicPark:      {ParkDue},
	TopicReclaim:   {ReclaimDue},
	TopicBundles:   {BundleSealed},
	TopicDocuments: {DocumentAccepted, DocumentConflict, DocumentRejected},
	TopicExports:   {ExportSealed, ExportFailed, ExportEnding, ExportLate},
	TopicNotices:   {NoticeDue},
}

// Topics returns all topics.
func Topics() []Topic {
	return []Topic{TopicUploads, TopicPark, TopicReclaim, TopicBundles, TopicDocuments, TopicExports, TopicNotices}
}

// Types returns the types that a topic carries; nil for an unknown topic.
func (t Topic) Types() []Type { return slices.Clone(types[t]) }

// carries reports whether the topic carries records of the type.
func (t Topic) carries(typ Type) bool { return slices.Contains(types[t], typ) }
