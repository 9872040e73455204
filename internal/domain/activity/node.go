package activity

import (
	"encoding/json"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// nodeData is the data of an entry about a node.
type nodeData struct {
	Type       tree.Type       `json:"type"`
	Rev        int64           `json:"rev"`
	Version    drive.VersionID `json:"version,omitzero"`
	Size       drive.ByteSize  `json:"size,omitzero"`
	WasVersion drive.VersionID `json:"was_version,omitzero"` // of a file whose content changed: the version before
	WasFolder  drive.NodeID    `json:"was_folder,omitzero"`  // of a moved node: the folder before
	WasName    drive.Name      `json:"was_name,omitempty"`
	From       drive.NodeID    `json:"from,omitzero"` // of a copy: the source
}

// RecordNode queues an entry about a change of a node, to be inserted at the end of tx, with what
// was before if it differs; set it as tree.Options.OnEffect. On a nil Log it does nothing.
func (l *Log) RecordNode(tx *sqldb.Tx, e tree.Effect) {
	if l == nil {
		return
	}
	n, was := e.Node, e.Before
	d := nodeData{Type: n.Type, Rev: n.Rev, Version: n.Version, Size: n.Size, From: e.From}
	verb := verbOf(e)
	if !was.ID.IsZero() && !e.Deleted {
		if was.Version != n.Version {
			d.WasVersion = was.Version
		}
		if was.Parent != n.Parent {
			d.WasFolder = was.Parent
		}
		if was.Name != n.Name {
			d.WasName = was.Name
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		data = []byte("{}") // cannot fail: ids, numbers and a name
	}
	l.insert(tx, Entry{
		Account: n.Account, Seq: n.Seq, Verb: verb, By: e.By, Node: n.ID, Folder: n.Parent, Name: string(n.Name), Data: data,
	})
}

// verbOf returns the verb for a change of a node, chosen by comparing e.Before and e.Node. If
// several things changed at once the first matching case counts: an end of the node, its creation,
// the trash, its content, its place; any other change is NodeChanged.
func verbOf(e tree.Effect) Verb {
	n, was := e.Node, e.Before
	switch {
	case e.Deleted && e.HandedOver:
		return NodeHandedAway
	case e.Deleted:
		return NodeDeleted
	case e.HandedOver:
		return NodeHandedIn
	case was.ID.IsZero() && !e.From.IsZero():
		return NodeCopied
	case was.ID.IsZero():
		return NodeCreated
	case !n.Operation.IsZero() && was.Operation.IsZero():
		return NodePurgeBegun
	case was.Trashed == 0 && n.Trashed != 0:
		return NodeTrashed
	case was.Trashed != 0 && n.Trashed == 0 && !was.Operation.IsZero():
		return NodeCopyCompleted
	case was.Trashed != 0 && n.Trashed == 0:
		return NodeRestored
	case was.Version != n.Version:
		return NodeChanged
	case was.Parent != n.Parent || was.Name != n.Name:
		return NodeMoved
	}
	return NodeChanged
}
