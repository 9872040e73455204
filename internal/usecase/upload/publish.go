package upload

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

func (r Row) place() tree.Place {
	return tree.Place{Parent: r.Parent, Name: r.Name, Conflict: r.Conflict, Base: r.Base}
}

// placer makes content visible, in the transaction of whoever has it.
type placer struct {
	db      *sqldb.DB
	tree    *tree.Tree
	content content.Content
	ledger  quota.Ledger
	events  Publisher
	clocks  clocks
}

// place makes content visible where the row says, releases the versions that a replace drops, and
// writes the event. The caller has taken the reference to the blob and moved the ledger for the
// file itself.
func (p *placer) place(ctx context.Context, tx *sqldb.Tx, row Row, blobID drive.BlobID) (tree.Placed, error) {
	placed, err := p.tree.PutFile(ctx, tx, row.Account, row.file(blobID))
	if err != nil {
		return tree.Placed{}, err
	}
	return placed, p.drop(ctx, tx, row, placed)
}

func (r Row) file(blobID drive.BlobID) tree.File {
	return tree.File{
		Parent: r.Parent, Name: r.Name, Conflict: r.Conflict, Base: r.Base, Blob: blobID, Size: r.Size, MTime: r.MTime, Mime: r.Mime,
		By: r.User, Who: drive.Who{User: r.User, Tokens: r.demand.tokens},
	}
}

// moved is the row with another place. A replace acts on the version that is there when the place
// is chosen.
func (p *placer) moved(ctx context.Context, row Row, parent drive.NodeID, name drive.Name, conflict drive.Conflict) (Row, error) {
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
	return row, p.base(ctx, p.db, &row)
}

// base notes which version a replace would replace: it acts on that one only.
func (p *placer) base(ctx context.Context, q sqldb.Querier, row *Row) error {
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

// drop releases the versions that a replace drops.
func (p *placer) drop(ctx context.Context, tx *sqldb.Tx, row Row, placed tree.Placed) error {
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

// done places the file and ends the row.
func (p *placer) done(ctx context.Context, tx *sqldb.Tx, row Row, blobID drive.BlobID) (Row, error) {
	placed, err := p.place(ctx, tx, row, blobID)
	if err != nil {
		return Row{}, err
	}
	next := row
	next.State, next.Node, next.Reserved, next.Held, next.Challenge = Done, placed.Node.ID, 0, 0, nil
	next.Ended, next.placed = p.clocks.now(), &placed.Node
	if next, err = change(ctx, tx, row, next); err != nil {
		return Row{}, err
	}
	return next, p.emit(ctx, tx, stream.UploadDone, next)
}

// event is the data of the records about uploads.
type event struct {
	Upload drive.UploadID  `json:"upload"`
	Node   drive.NodeID    `json:"node,omitzero"` // of one that is done
	Size   *drive.ByteSize `json:"size"`          // null: not known yet
	Held   drive.ByteSize  `json:"held,omitzero"` // what a quiet one is charged for
	Reason string          `json:"reason,omitempty"`
}

// tell publishes the arrows that arrows.commit writes; who makes a file of an upload says it.
func (p *placer) tell(ctx context.Context, tx *sqldb.Tx, was, next Row) error {
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
