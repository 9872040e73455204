// Package history is what clients of the kill loop write down: what they were about to ask, and
// what they were answered. The independent checker reads it and holds the server to every word.
//
// A log is a file of JSON lines, one Record each. A change is an intent, written before the request
// is sent, and then one outcome with the same op number:
//
//	done     the server acknowledged it
//	refused  the server refused it, or the request never left: nothing has changed
//	unsure   the connection broke, or the answer does not say: it happened wholly or not at all
//
// An intent without an outcome is unsure: the client died too. What a client later sees by itself
// is a record "seen": it settles what was unsure. A client makes its changes to files one after the
// other, in folders that no other client touches; parts of an upload it sends in parallel. The
// server's own life (ready, killed, stopped) is in a log of the harness.
package history

// Record is one line.
type Record struct {
	At     int64  `json:"at"` // Unix ms, by the clock of the machine that the server runs on too
	User   string `json:"user,omitempty"`
	Client string `json:"client,omitempty"` // unique; it owns the folder "/<client>" of its user
	Op     int64  `json:"op"`               // unique in a client
	Phase  Phase  `json:"phase"`
	Do     Action `json:"do"`

	Path        string `json:"path,omitempty"`
	To          string `json:"to,omitempty"`    // move: the new path
	Seed        uint64 `json:"seed,omitempty"`  // of the content, with Size: see Content
	Size        int64  `json:"size,omitempty"`  // bytes
	Claim       bool   `json:"claim,omitempty"` // begin named the digest, so it may link at once
	Upload      string `json:"upload,omitempty"`
	PartSize    int64  `json:"part_size,omitempty"` // bytes
	Part        int    `json:"part,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Node        string `json:"node,omitempty"`   // of the file that came of it; in seen of a path: empty, nothing is there
	Digest      string `json:"digest,omitempty"` // seen: BLAKE3 of what is there
	Trashed     bool   `json:"trashed,omitempty"`
	Received    []int  `json:"received,omitempty"` // seen of an upload: the parts that the server says it has
	State       string `json:"state,omitempty"`    // seen of an upload
	Reason      string `json:"reason,omitempty"`   // seen of an upload that is gone
	Status      int    `json:"status,omitempty"`   // of the answer
	Code        string `json:"code,omitempty"`     // of its problem
	Error       string `json:"error,omitempty"`    // unsure: why; only for people
}

// Phase says what a record knows.
type Phase string

// The phases.
const (
	Intent  Phase = "intent"
	Done    Phase = "done"
	Refused Phase = "refused"
	Unsure  Phase = "unsure"
	Seen    Phase = "seen"
)

// Action is what was asked for.
type Action string

// The actions. The fields that an intent carries stand behind each.
const (
	Put      Action = "put"      // a whole file: path, seed, size; replaces what is there
	Begin    Action = "begin"    // an upload: path, seed, size, part_size, fingerprint, claim; done with node: linked at once
	Part     Action = "part"     // upload, part
	Drop     Action = "drop"     // upload, part: taken back
	Prove    Action = "prove"    // upload, path, seed, size; done with node: linked
	Complete Action = "complete" // upload, path, seed, size; replaces what is there
	Cancel   Action = "cancel"   // upload
	Move     Action = "move"     // node, path, to; to is free
	Trash    Action = "trash"    // node, path
	Delete   Action = "delete"   // node, path: for good, past the trash
	Restore  Action = "restore"  // node, path: it comes back where it was, which is free
	Purge    Action = "purge"    // node: for good, out of the trash

	LookPath   Action = "path"   // seen: path, node, digest
	LookNode   Action = "node"   // seen: node, trashed; state "none" when it is nowhere
	LookUpload Action = "upload" // seen: upload, state, received; reason

	Ready Action = "ready" // the harness: the server answers
)

// MayAppear reports whether the action, when it is unsure, may have made a file appear at Path.
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

// Appeared reports whether a done record says that a file appeared at Path.
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
