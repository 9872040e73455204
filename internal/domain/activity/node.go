package activity

import (
	"encoding/json"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// nodeData is what an entry about a node says besides.
type nodeData struct {
	Type       tree.Type       `json:"type"`
	Rev        int64           `json:"rev"`
	Version    drive.VersionID `json:"version,omitzero"`
	Size       drive.ByteSize  `json:"size,omitzero"`
	WasVersion drive.VersionID `json:"was_version,omitzero"` // of a file that got another content
	WasFolder  drive.NodeID    `json:"was_folder,omitzero"`  // of a node that was moved
	WasName    drive.Name      `json:"was_name,omitempty"`
	From       drive.NodeID    `json:"from,omitzero"` // of a copy
}

// Node notes a change of a node: it is tree.Options.Happened.
func (l *Log) Node(tx *sqldb.Tx, e tree.Effect) {
	if l == nil {
		return
	}
	n, was := e.Node, e.Was
	d := nodeData{Type: n.Type, Rev: n.Rev, Version: n.Version, Size: n.Size, From: e.From}
	verb := verbOf(e)
	if !was.ID.IsZero() && !e.Gone {
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
		data = []byte("{}") // ids, numbers and a name: it cannot fail
	}
	l.note(tx, Entry{
		Account: n.Account, Seq: n.Seq, Verb: verb, By: e.By, Node: n.ID, Folder: n.Parent, Name: string(n.Name), Data: data,
	})
}

// verbOf tells what a change of a node was.
func verbOf(e tree.Effect) Verb {
	n, was := e.Node, e.Was
	switch {
	case e.Gone && e.Handed:
		return NodeLeft
	case e.Gone:
		return NodeDeleted
	case e.Handed:
		return NodeArrived
	case was.ID.IsZero() && !e.From.IsZero():
		return NodeCopied
	case was.ID.IsZero():
		return NodeCreated
	case !n.Operation.IsZero() && was.Operation.IsZero():
		return NodeDoomed
	case was.Trashed == 0 && n.Trashed != 0:
		return NodeTrashed
	case was.Trashed != 0 && n.Trashed == 0 && !was.Operation.IsZero():
		return NodeShown
	case was.Trashed != 0 && n.Trashed == 0:
		return NodeRestored
	case was.Version != n.Version:
		return NodeChanged
	case was.Parent != n.Parent || was.Name != n.Name:
		return NodeMoved
	}
	return NodeChanged
}
