package stream

import "slices"

// Topic is a log of records with one meaning. The list is closed: Append refuses others.
type Topic string

// Type says what happened; it is the CloudEvents attribute of that name. Each belongs to one topic.
type Type string

// The topics.
const (
	TopicUploads   Topic = "smartdrive.uploads"   // the arrows of an upload's life
	TopicPark      Topic = "smartdrive.park"      // fired timers whose work is in the ledger only
	TopicReclaim   Topic = "smartdrive.reclaim"   // fired timers whose work is I/O
	TopicExports   Topic = "smartdrive.exports"   // batches of documents that were sealed
	TopicBundles   Topic = "smartdrive.bundles"   // bundles of documents that were sealed
	TopicDocuments Topic = "smartdrive.documents" // documents that were taken in
	TopicNotices   Topic = "smartdrive.notices"   // what somebody is to be told of
)

// The types; the subject is the id of the upload, the bundle, the document or the export, or the
// key of the timer. What nobody publishes is not listed: a test looks.
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
	DocumentConflict Type = "document.conflict" // a document came that contradicts this one
	DocumentRejected Type = "document.rejected" // a document of a bundle was not accepted; the subject is the bundle
	ExportSealed     Type = "export.sealed"
	ExportFailed     Type = "export.failed" // for good
	ExportEnding     Type = "export.ending" // its zip expires within a day
	ExportLate       Type = "export.late"   // it runs for longer than expected
	NoticeDue        Type = "notice.due"
)

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

// Types returns the types of records that a topic carries; none for a topic that does not exist.
func (t Topic) Types() []Type { return slices.Clone(types[t]) }

func (t Topic) carries(typ Type) bool { return slices.Contains(types[t], typ) }
