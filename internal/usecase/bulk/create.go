package bulk

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Request is what somebody wants done to many items. Either Items or All says to which.
type Request struct {
	Kind     Kind
	Items    []drive.NodeID // ids of nodes; for Unshare those of shares
	All      All
	Except   []drive.NodeID // of All
	Parent   drive.NodeID   // Move, Copy: required; Restore: zero is where each was
	Conflict drive.Conflict // empty: fail, for Restore rename
}

// All names items without listing them: those that there are at the moment of the request.
type All struct {
	Folder drive.NodeID // what is in it
	Trash  bool         // all that is in the trash
	Shares bool         // all shares
}

func (a All) some() bool { return a != All{} }

// Hook runs at the end of the transaction that makes an operation, so that an idempotency key
// commits with it. An error undoes it.
type Hook func(ctx context.Context, tx *sqldb.Tx, o Operation) error

func (h Hook) run(ctx context.Context, tx *sqldb.Tx, o Operation) error {
	if h == nil {
		return nil
	}
	return h(ctx, tx, o)
}

// Create makes an operation and does the beginning of it. What is wrong with single items is no
// error of Create: see Failures. TooLarge says that there are more items than MaxItems, TooManyOpen
// that as many operations wait as the account may have, NotFound that there is no folder that
// things are to go to, ParentGone that it is a file, or in the trash.
func (b *Bulk) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (Operation, error) {
	if err := b.check(ctx, who, &in); err != nil {
		return Operation{}, err
	}
	ids, err := b.choose(ctx, who, in)
	if err != nil {
		return Operation{}, err
	}
	trashed, err := b.trashTimes(ctx, who, in.Kind, ids)
	if err != nil {
		return Operation{}, err
	}
	now := b.now()
	r := row{
		id: drive.NewID[drive.OperationID](), account: who.Account, user: who.User, kind: in.Kind, parent: in.Parent, conflict: in.Conflict,
		state: Running, total: int64(len(ids)), created: now, updated: now,
	}
	if len(ids) == 0 {
		r.state = Done
	}
	err = b.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := b.makeRoom(ctx, tx, r); err != nil {
			return err
		}
		if err := b.insert(ctx, tx, r); err != nil {
			return err
		}
		n := int64(0)
		for some := range slices.Chunk(ids, b.opt.Piece) {
			p := newPiece(n, some)
			for i, id := range some {
				if at := trashed[id]; at != 0 {
					p.entries[i].Want = &want{Trashed: at}
				}
			}
			if err := b.insertPiece(ctx, tx, r, p); err != nil {
				return fmt.Errorf("insert piece %d: %w", n, err)
			}
			n++
		}
		return hook.run(ctx, tx, r.show())
	})
	if err != nil {
		return Operation{}, err
	}
	return b.begin(ctx, r)
}

// check refuses what makes no sense whatever the items are, and fills in what was left out.
func (b *Bulk) check(ctx context.Context, who drive.Who, in *Request) error {
	takesParent := in.Kind == Move || in.Kind == Copy || in.Kind == Restore
	switch {
	case in.All.some() && len(in.Items) > 0:
		return drive.Bad("nodes", drive.NotTogether, "with", "all")
	case !in.All.some() && len(in.Items) == 0:
		return drive.Bad("nodes", drive.Required)
	case !in.All.some() && len(in.Except) > 0:
		return drive.Bad("except", drive.NotTogether, "with", "nodes")
	case len(in.Items) > MaxItems:
		return tooMany(len(in.Items))
	case !in.Parent.IsZero() && !takesParent:
		return drive.Bad("parent", drive.NotTogether, "with", "kind")
	case in.Parent.IsZero() && (in.Kind == Move || in.Kind == Copy):
		return drive.Bad("parent", drive.Required)
	case in.Conflict != "" && !takesParent:
		return drive.Bad("conflict", drive.NotTogether, "with", "kind")
	case in.All.Shares != (in.Kind == Unshare) && in.All.some():
		return drive.Bad("all", drive.NotTogether, "with", "kind")
	case in.All.Trash && in.Kind != Restore && in.Kind != Delete:
		return drive.Bad("all", drive.NotTogether, "with", "kind")
	}
	if in.Conflict == "" {
		if in.Conflict = drive.ConflictFail; in.Kind == Restore {
			in.Conflict = drive.ConflictRename
		}
	}
	if in.Parent.IsZero() {
		return nil
	}
	return b.checkParent(ctx, who, in.Parent)
}

func (b *Bulk) checkParent(ctx context.Context, who drive.Who, id drive.NodeID) error {
	n, err := b.opt.Tree.Find(ctx, b.opt.DB, who.Account, id)
	if err == nil && n.IsFolder() {
		_, live, err := b.opt.Tree.PathOf(ctx, b.opt.DB, id)
		if err != nil || live {
			return err
		}
	}
	if err == nil {
		err = drive.Fail(drive.ParentGone)
	}
	return err
}

// choose returns the ids of the items, each once. It reads no more of a node than its id: 100,000
// of them are 1.6 MB.
func (b *Bulk) choose(ctx context.Context, who drive.Who, in Request) (ids []drive.NodeID, err error) {
	except := in.Except
	most := MaxItems + len(except) + 1
	switch {
	case in.All.Shares:
		var shares []drive.ShareID
		shares, err = b.opt.Shares.IDs(ctx, b.opt.DB, who.Account, most)
		for _, id := range shares {
			ids = append(ids, drive.NodeID(id))
		}
	case in.All.Trash:
		ids, err = b.opt.Tree.IDs(ctx, b.opt.DB, who.Account, drive.NodeID{}, most)
	case in.All.some():
		if err := b.checkFolder(ctx, who, in.All.Folder); err != nil {
			return nil, err
		}
		if ids, err = b.opt.Tree.IDs(ctx, b.opt.DB, who.Account, in.All.Folder, most); in.Kind == Move {
			except = append(slices.Clone(except), in.Parent) // all of a folder may go into one of its folders
		}
	default:
		ids = slices.Clone(in.Items)
	}
	if err != nil {
		return nil, err
	}
	seen := make(map[drive.NodeID]bool, len(ids))
	for _, id := range except {
		seen[id] = true
	}
	ids = slices.DeleteFunc(ids, func(id drive.NodeID) bool {
		known := seen[id]
		seen[id] = true
		return known
	})
	if len(ids) > MaxItems {
		return nil, tooMany(len(ids))
	}
	return ids, nil
}

// trashTimes returns when each item in the trash was put there; empty unless kind is Delete.
// Create stores these times: an item that another request restores later is not deleted.
func (b *Bulk) trashTimes(ctx context.Context, who drive.Who, kind Kind, ids []drive.NodeID) (map[drive.NodeID]drive.Time, error) {
	times := map[drive.NodeID]drive.Time{}
	if kind != Delete {
		return times, nil
	}
	for some := range slices.Chunk(ids, b.opt.Piece) {
		nodes, err := b.opt.Tree.FindMany(ctx, b.opt.DB, who.Account, some...)
		if err != nil {
			return nil, fmt.Errorf("read the items to delete: %w", err)
		}
		for id, n := range nodes {
			if n.Trashed != 0 {
				times[id] = n.Trashed
			}
		}
	}
	return times, nil
}

func (b *Bulk) checkFolder(ctx context.Context, who drive.Who, id drive.NodeID) error {
	n, err := b.opt.Tree.Find(ctx, b.opt.DB, who.Account, id)
	if err == nil && !n.IsFolder() {
		err = drive.Bad("all", drive.NotAllowed, "allowed", []string{"folder"}, "sent", string(n.Type))
	}
	return err
}

func tooMany(sent int) error {
	return drive.Fail(drive.TooLarge, "reason", "picked", "limit", MaxItems, "sent", sent)
}

// makeRoom refuses one more operation when too many wait, and deletes the oldest that have ended
// when all together would have too many items. What a running undo reads stays.
func (b *Bulk) makeRoom(ctx context.Context, tx *sqldb.Tx, add row) error {
	type kept struct {
		id, source drive.OperationID
		state      State
		total      int64
	}
	rows, err := tx.Query(ctx, "SELECT id, source_id, state, total FROM bulks WHERE account_id = ? ORDER BY id DESC", add.account)
	all, err := sqldb.Scan(rows, err, func(k *kept, scan func(...any) error) error { return scan(&k.id, &k.source, &k.state, &k.total) })
	if err != nil {
		return fmt.Errorf("list the operations of %v: %w", add.account, err)
	}
	running, needed := 0, map[drive.OperationID]bool{add.source: true}
	for _, k := range all {
		if k.state == Running {
			running++
			needed[k.source] = true
		}
	}
	if running >= b.opt.MaxRunning {
		return drive.Fail(drive.TooManyOpen, "reason", "operations", "limit", b.opt.MaxRunning, "sent", running+1)
	}
	items, count := add.total, 1
	for _, k := range all {
		if items, count = items+k.total, count+1; items <= b.opt.MaxKept && count <= maxBulks || k.state == Running || needed[k.id] {
			continue
		}
		if err := b.forget(ctx, tx, k.id); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes an operation that has ended.
func (b *Bulk) forget(ctx context.Context, tx *sqldb.Tx, id drive.OperationID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM bulk_items WHERE bulk_id = ?", id); err != nil {
		return fmt.Errorf("delete the items of operation %v: %w", id, err)
	}
	_, err := tx.Exec(ctx, "DELETE FROM bulks WHERE id = ?", id)
	return err
}

// begin does the first items of an operation that was just made, so that the answer about a few of
// them says how it ended. The rest is for the background.
func (b *Bulk) begin(ctx context.Context, r row) (Operation, error) {
	if r.state == Running && r.total <= b.opt.Direct {
		if _, err := b.Run(ctx, r.id); err != nil { // the operation is made: what stopped its beginning is for the background
			b.opt.Log.DebugContext(ctx, "an operation did not begin at once", "operation", r.id, "error", err)
		}
		if now, err := b.find(ctx, b.opt.DB, r.id); err == nil {
			r = now
		}
	}
	if r.state == Running {
		b.opt.Start(r.id)
	}
	return r.show(), nil
}
