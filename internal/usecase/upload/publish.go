package upload

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// place returns where the file is to be created: folder, name, conflict rule, and the version that
// a replace expects.
func (r Row) place() tree.Place {
	return tree.Place{Parent: r.Parent, Name: r.Name, Conflict: r.Conflict, Base: r.Base}
}

// placer puts content into the tree, within the caller's transaction.
type placer struct {
	db      *sqldb.DB
	tree    *tree.Tree
	content content.Content
	ledger  quota.Ledger
	events  Publisher
	clocks  clocks
}

// place puts content at the row's target and releases the versions that a replace dropped. The
// caller has referenced the content and moved the ledger for the file.
func (p *placer) place(ctx context.Context, tx *sqldb.Tx, row Row, blobID drive.BlobID) (tree.PutResult, error) {
	placed, err := p.tree.PutFile(ctx, tx, row.Account, row.file(blobID))
	if err != nil {
		return tree.PutResult{}, err
	}
	return placed, p.releaseDropped(ctx, tx, row, placed)
}

// file describes the file for the tree, with the given content.
func (r Row) file(blobID drive.BlobID) tree.File {
	return tree.File{
		Parent: r.Parent, Name: r.Name, Conflict: r.Conflict, Base: r.Base, Blob: blobID, Size: r.Size, MTime: r.MTime, Mime: r.Mime,
		By: r.User, Who: drive.Who{User: r.User, Tokens: r.conditions.tokens},
	}
}

// withTarget returns the row with a changed target; zero arguments keep the current one. For a
// replace it reads the version that is there now. It fails if the parent does not exist.
func (p *placer) withTarget(ctx context.Context, row Row, parent drive.NodeID, name drive.Name, conflict drive.Conflict) (Row, error) {
	if parent.IsZero() && name == "" && conflict == "" {
		return row, nil
	}
	if !parent.IsZero() {
		if _, err := p.tree.Find(ctx, p.db, row.Account, parent); err != nil {
			return Row{}, err
		}
		row.Parent = parent
	}
	if name != "" {
		row.Name = name
	}
	if conflict != "" {
		row.Conflict = conflict
	}
	return row, p.setBase(ctx, p.db, &row)
}

// setBase sets row.Base to the version at the target if the conflict rule is replace, otherwise to
// zero.
func (p *placer) setBase(ctx context.Context, q sqldb.Querier, row *Row) error {
	row.Base = drive.VersionID{}
	if row.Conflict != drive.ConflictReplace {
		return nil
	}
	there, ok, err := p.tree.Child(ctx, q, row.Account, row.Parent, row.Name)
	if err == nil && ok {
		row.Base = there.Version
	}
	return err
}

// releaseDropped releases, within tx, the contents and the quota of the versions that a replace
// dropped, which placed lists. None does nothing.
func (p *placer) releaseDropped(ctx context.Context, tx *sqldb.Tx, row Row, placed tree.PutResult) error {
	if len(placed.Dropped) == 0 {
		return nil
	}
	var dropped drive.ByteSize
	blobs := make([]drive.BlobID, len(placed.Dropped))
	for i, v := range placed.Dropped {
		blobs[i] = v.Blob
		dropped += v.Size
	}
	if err := p.content.ReleaseAll(ctx, tx, row.Account, blobs...); err != nil {
		return err
	}
	return p.ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: -dropped})
}

// finish puts content blobID into the tree at the upload's target, writes the row in state done
// with nothing reserved or held, and appends the event. It returns the row as written. On an error,
// errStale if the row has changed, the caller must roll tx back; the caller moves the ledger.
func (p *placer) finish(ctx context.Context, tx *sqldb.Tx, row Row, blobID drive.BlobID) (Row, error) {
	placed, err := p.place(ctx, tx, row, blobID)
	if err != nil {
		return Row{}, err
	}
	next := row
	next.State, next.Node, next.Reserved, next.Held, next.Challenge = Done, placed.Node.ID, 0, 0, nil
	next.Ended, next.placed = p.clocks.now(), &placed.Node
	if next, err = updateRow(ctx, tx, row, next); err != nil {
		return Row{}, err
	}
	return next, p.emit(ctx, tx, stream.UploadDone, next)
}

// event is the payload of records about uploads.
type event struct {
	Upload drive.UploadID  `json:"upload"`
	Node   drive.NodeID    `json:"node,omitzero"` // if done
	Size   *drive.ByteSize `json:"size"`          // null: unknown
	Held   drive.ByteSize  `json:"held,omitzero"` // bytes that a parked upload is charged for
	Reason string          `json:"reason,omitempty"`
}

// emitTransition publishes the event of a transition that transitions.commit writes. finish
// publishes UploadDone itself.
func (p *placer) emitTransition(ctx context.Context, tx *sqldb.Tx, was, next Row) error {
	switch {
	case was.State == Active && next.State == Parked:
		return p.emit(ctx, tx, stream.UploadParked, next)
	case was.State == Parked && next.State == Active:
		return p.emit(ctx, tx, stream.UploadResumed, next)
	case next.State == Gone:
		return p.emit(ctx, tx, stream.UploadGone, next)
	}
	return nil
}

// emit appends a record of type typ about upload r to the outbox, within tx: it is published only
// if tx commits.
func (p *placer) emit(ctx context.Context, tx *sqldb.Tx, typ stream.Type, r Row) error {
	e := event{Upload: r.ID, Node: r.Node, Held: r.Held, Reason: r.Reason}
	if r.Size != blob.UnknownSize {
		e.Size = &r.Size
	}
	record, err := stream.New(stream.TopicUploads, typ, r.Account, r.ID.String(), e)
	if err != nil {
		return fmt.Errorf("make the event of upload %s: %w", r.ID, err)
	}
	return p.events.Append(ctx, tx, record)
}
