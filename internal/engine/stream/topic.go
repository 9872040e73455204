package stream

import "slices"

// Topic is a log of records with one meaning. The list is closed: Append refuses others.
type Topic string

// Type says what happened; it is the CloudEvents attribute of that name. Each belongs to one topic.
type Type string

// The topics.
const (
	TopicUploads Topic = "smartdrive.uploads" // the arrows of an upload's life
	TopicNodes   Topic = "smartdrive.nodes"   // changes of a tree, one for each seq
	TopicPark    Topic = "smartdrive.park"    // fired timers whose work is in the ledger only
	TopicReclaim Topic = "smartdrive.reclaim" // fired timers whose work is I/O
	TopicExports Topic = "smartdrive.exports" // batches of documents that were sealed
	TopicBundles Topic = "smartdrive.bundles" // bundles of documents that were sealed
)

// The types; the subject is the id of the upload, the node, the bundle or the export, or the key of
// the timer.
const (
	UploadBegun   Type = "upload.begun"
	UploadParked  Type = "upload.parked"
	UploadResumed Type = "upload.resumed"
	UploadDone    Type = "upload.done"
	UploadGone    Type = "upload.gone"
	NodeChanged   Type = "node.changed" // made, moved, renamed, given a version, restored
	NodeTrashed   Type = "node.trashed"
	NodeDeleted   Type = "node.deleted"
	ParkDue       Type = "park.due"
	ReclaimDue    Type = "reclaim.due"
	BundleSealed  Type = "bundle.sealed"
	ExportSealed  Type = "export.sealed"
)

var types = map[Topic][]Type{
	TopicUploads: {UploadBegun, UploadParked, UploadResumed, UploadDone, UploadGone},
	TopicNodes:   {NodeChanged, NodeTrashed, NodeDeleted},
	TopicPark:    {ParkDue},
	TopicReclaim: {ReclaimDue},
	TopicBundles: {BundleSealed},
	TopicExports: {ExportSealed},
}

// Topics returns all topics.
func Topics() []Topic {
	return []Topic{TopicUploads, TopicNodes, TopicPark, TopicReclaim, TopicBundles, TopicExports}
}

// Types returns the types of records that a topic carries; none for a topic that does not exist.
func (t Topic) Types() []Type { return slices.Clone(types[t]) }

func (t Topic) carries(typ Type) bool { return slices.Contains(types[t], typ) }
