// Package history defines the logs of the clients in the kill loop: the requests they sent and the
// responses they got. The independent checker (test/check) verifies that the server kept every
// promise.
//
// A log is a file of JSON lines, one Record each. A change is an intent, written before the request
// is sent, followed by one outcome with the same Op:
//
//	done     the server acknowledged the change
//	refused  the server refused it, or the request was not sent: nothing has changed
//	unsure   the connection broke, or the response is ambiguous: the change happened completely or not at all
//
// An intent without an outcome is unsure: the client died as well. A record "seen" holds what a
// client observes later, and resolves what was unsure. A client changes files one after the other,
// in folders that no other client touches; it sends the parts of an upload in parallel. The
// server's own events (ready, killed, stopped) are in a log of the harness.
package history

// Record is one line of a log.
type Record struct {
	At     int64  `json:"at"` // Unix ms, by the clock of the machine that also runs the server
	User   string `json:"user,omitempty"`
	Client string `json:"client,omitempty"` // unique; only this client uses the folder "/<client>" of its user
	Op     int64  `json:"op"`               // unique within the client
	Phase  Phase  `json:"phase"`
	Do     Action `json:"do"`

	Path        string `json:"path,omitempty"`
	To          string `json:"to,omitempty"`    // of a move: the new path
	Seed        uint64 `json:"seed,omitempty"`  // with Size: the content, see Content
	Size        int64  `json:"size,omitempty"`  // bytes
	Claim       bool   `json:"claim,omitempty"` // begin sent the digest, so the server may link an existing blob at once
	Upload      string `json:"upload,omitempty"`
	PartSize    int64  `json:"part_size,omitempty"` // bytes
	Part        int    `json:"part,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Node        string `json:"node,omitempty"`   // the resulting file; in seen of a path: the node there, empty if none
	Digest      string `json:"digest,omitempty"` // seen: BLAKE3 of the content there
	Trashed     bool   `json:"trashed,omitempty"`
	Received    []int  `json:"received,omitempty"` // seen of an upload: the parts that the server reports as received
	State       string `json:"state,omitempty"`    // seen of an upload
	Reason      string `json:"reason,omitempty"`   // seen of an upload that is gone
	Status      int    `json:"status,omitempty"`   // HTTP status of the response
	Code        string `json:"code,omitempty"`     // problem code of the response
	Error       string `json:"error,omitempty"`    // unsure: the reason, for people
}

// Phase tells whether a record is an intent, an outcome or an observation.
type Phase string

// The phases.
const (
	Intent  Phase = "intent"
	Done    Phase = "done"
	Refused Phase = "refused"
	Unsure  Phase = "unsure"
	Seen    Phase = "seen"
)

// Action is the requested operation.
type Action string

// The actions, each with the fields that its intent sets.
const (
	Put      Action = "put"      // a whole file: path, seed, size; replaces an existing one
	Begin    Action = "begin"    // an upload: path, seed, size, part_size, fingerprint, claim; done with a node: linked at once
	Part     Action = "part"     // upload, part
	Drop     Action = "drop"     // upload, part: deletes a received part
	Prove    Action = "prove"    // upload, path, seed, size; done with node: linked
	Complete Action = "complete" // upload, path, seed, size; replaces an existing file
	Cancel   Action = "cancel"   // upload
	Move     Action = "move"     // node, path, to; to must be free
	Trash    Action = "trash"    // node, path
	Delete   Action = "delete"   // node, path: permanently, without the trash
	Restore  Action = "restore"  // node, path: back to path, which must be free
	Purge    Action = "purge"    // node: permanently, from the trash

	LookPath   Action = "path"   // seen: path, node, digest
	LookNode   Action = "node"   // seen: node, trashed; state "none" if there is no such node
	LookUpload Action = "upload" // seen: upload, state, received; reason

	Ready Action = "ready" // harness: the server answers
)

// MayAppear reports whether the action, if it is unsure, may have created a file at Path.
func (r Record) MayAppear() bool {
	switch r.Do {
	case Put, Complete, Prove:
		return true
	case Begin:
		return r.Claim
	default:
		return false
	}
}

// Appeared reports whether a done record created a file at Path.
func (r Record) Appeared() bool {
	switch r.Do {
	case Put, Complete:
		return true
	case Begin, Prove:
		return r.Node != ""
	default:
		return false
	}
}
