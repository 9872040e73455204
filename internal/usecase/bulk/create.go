package bulk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Request is a request to change many items, named by either Items or All.
type Request struct {
	Kind     Kind
	Items    []drive.NodeID // node ids; share ids for Unshare
	All      All
	Except   []drive.NodeID // with All: ids to skip
	Parent   drive.NodeID   // Move, Copy: required; Restore: zero means each item's original folder
	Conflict drive.Conflict // empty: ConflictRename for Restore, else ConflictFail

	// TrashedUntil restricts Delete to items that are in the trash since that time or longer; zero:
	// no restriction. Of All.Trash other items are skipped, of Items they fail as changed.
	TrashedUntil drive.Time
}

// All selects the items that exist at the time of the request, without listing them.
type All struct {
	ChildrenOf drive.NodeID // children of this folder
	Trash      bool         // all nodes in the trash
	Shares     bool         // all shares
}

// isSet reports whether All selects anything, in which case a request has no items of its own.
func (a All) isSet() bool { return a != All{} }

// Hook runs at the end of the transaction that creates an operation, so that an idempotency key
// commits with it. Its error rolls back. nil: nothing to run.
type Hook func(ctx context.Context, tx *sqldb.Tx, o Operation) error

// run calls h within tx and returns its error, which must roll tx back. A nil h does nothing.
func (h Hook) run(ctx context.Context, tx *sqldb.Tx, o Operation) error {
	if h == nil {
		return nil
	}
	return h(ctx, tx, o)
}

// Create creates an operation and executes its first items. Failures of single items are no error:
// see Failures. Errors: BadRequest (fields that are missing, or exclude each other or the kind),
// TooLarge (more than MaxItems), TooManyOpen (too many waiting operations), NotFound (no target
// folder), ParentGone (the target is a file or in the trash).
func (b *Bulk) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (Operation, error) {
	if err := b.check(ctx, who, &in); err != nil {
		return Operation{}, err
	}
	if err := b.mayRun(ctx, b.opt.DB, who.Account); err != nil { // repeated in the transaction
		return Operation{}, err
	}
	ids, err := b.choose(ctx, who, in)
	if err != nil {
		return Operation{}, err
	}
	trashed, err := b.trashTimes(ctx, who, in, ids)
	if err != nil {
		return Operation{}, err
	}
	if in.Kind == Delete && in.All.Trash { // without those restored since choose has listed the trash
		ids = slices.DeleteFunc(ids, func(id drive.NodeID) bool { return trashed[id] == 0 })
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
		if err := b.enforceLimits(ctx, tx, r); err != nil {
			return err
		}
		if err := b.insert(ctx, tx, r); err != nil {
			return err
		}
		n := int64(0)
		for some := range slices.Chunk(ids, b.opt.ItemsPerTransaction) {
			p := newPiece(n, some)
			for i, id := range some {
				if at := trashed[id]; at != 0 {
					p.entries[i].Want = &condition{Trashed: at}
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

// check validates the request except for its items, and sets in.Conflict to its default. It returns
// BadRequest for fields that are missing or exclude each other, TooLarge for too many items, and
// the error of checkParent.
func (b *Bulk) check(ctx context.Context, who drive.Who, in *Request) error {
	takesParent := in.Kind == Move || in.Kind == Copy || in.Kind == Restore
	switch {
	case in.All.isSet() && len(in.Items) > 0:
		return drive.BadField("nodes", drive.NotTogether, "with", "all")
	case !in.All.isSet() && len(in.Items) == 0:
		return drive.BadField("nodes", drive.Required)
	case !in.All.isSet() && len(in.Except) > 0:
		return drive.BadField("except", drive.NotTogether, "with", "nodes")
	case len(in.Items) > MaxItems:
		return tooMany(len(in.Items))
	case !in.Parent.IsZero() && !takesParent:
		return drive.BadField("parent", drive.NotTogether, "with", "kind")
	case in.Parent.IsZero() && (in.Kind == Move || in.Kind == Copy):
		return drive.BadField("parent", drive.Required)
	case in.TrashedUntil != 0 && in.Kind != Delete:
		return drive.BadField("trashed_until", drive.NotTogether, "with", "kind")
	case in.Conflict != "" && !takesParent:
		return drive.BadField("conflict", drive.NotTogether, "with", "kind")
	case in.All.Shares != (in.Kind == Unshare) && in.All.isSet():
		return drive.BadField("all", drive.NotTogether, "with", "kind")
	case in.All.Trash && in.Kind != Restore && in.Kind != Delete:
		return drive.BadField("all", drive.NotTogether, "with", "kind")
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

// checkParent returns nil if id is a folder of the account outside the trash, NotFound if there is
// no node, and ParentGone otherwise.
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

// choose returns the ids of the items that a request selects, without duplicates and without
// in.Except. It returns TooLarge for more than MaxItems. It reads only ids: 100,000 are 1.6 MB.
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
	case in.All.isSet():
		if err := b.checkFolder(ctx, who, in.All.ChildrenOf); err != nil {
			return nil, err
		}
		if ids, err = b.opt.Tree.IDs(ctx, b.opt.DB, who.Account, in.All.ChildrenOf, most); in.Kind == Move {
			except = append(slices.Clone(except), in.Parent) // all children of a folder may move into one of them
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

// trashTimes returns the trash time of each item in the trash, or of the nearest trashed folder
// above it; empty unless in.Kind is Delete. Create stores these times, so an item that another
// request restores later is not deleted. An item that in.TrashedUntil excludes has no entry with
// All.Trash. Otherwise its entry is in.TrashedUntil, which does not match the item, so it fails.
func (b *Bulk) trashTimes(ctx context.Context, who drive.Who, in Request, ids []drive.NodeID) (map[drive.NodeID]drive.Time, error) {
	times := map[drive.NodeID]drive.Time{}
	if in.Kind != Delete {
		return times, nil
	}
	for some := range slices.Chunk(ids, b.opt.ItemsPerTransaction) {
		nodes, err := b.opt.Tree.FindMany(ctx, b.opt.DB, who.Account, some...)
		if err != nil {
			return nil, fmt.Errorf("read the items to delete: %w", err)
		}
		above, err := b.opt.Tree.LocationsOf(ctx, b.opt.DB, slices.Collect(maps.Values(nodes)))
		if err != nil {
			return nil, fmt.Errorf("read the folders of the items to delete: %w", err)
		}
		for id, n := range nodes {
			at := cmp.Or(n.Trashed, above[n.Parent].Trashed)
			if in.TrashedUntil != 0 && (at == 0 || at > in.TrashedUntil) {
				if at = in.TrashedUntil; in.All.Trash {
					at = 0
				}
			}
			if at != 0 {
				times[id] = at
			}
		}
	}
	return times, nil
}

// checkFolder returns nil if id is a folder, BadRequest for a file, and NotFound if the account has
// no such node.
func (b *Bulk) checkFolder(ctx context.Context, who drive.Who, id drive.NodeID) error {
	n, err := b.opt.Tree.Find(ctx, b.opt.DB, who.Account, id)
	if err == nil && !n.IsFolder() {
		err = drive.BadField("all", drive.NotAllowed, "allowed", []string{"folder"}, "sent", string(n.Type))
	}
	return err
}

// tooMany returns the TooLarge error for sent items, more than MaxItems.
func tooMany(sent int) error {
	return drive.Fail(drive.TooLarge, "reason", "picked", "limit", MaxItems, "sent", sent)
}

// enforceLimits returns TooManyOpen if too many operations of the account run or wait. It deletes
// the oldest ended operations if all together exceed MaxStoredItems or maxBulks, except those that
// a running undo reads.
func (b *Bulk) enforceLimits(ctx context.Context, tx *sqldb.Tx, add row) error {
	type kept struct {
		id, source drive.OperationID
		state      State
		total      int64
	}
	if err := b.mayRun(ctx, tx, add.account); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "SELECT id, source_id, state, total FROM bulks WHERE account_id = ? ORDER BY id DESC", add.account)
	all, err := sqldb.Scan(rows, err, func(k *kept, scan func(...any) error) error { return scan(&k.id, &k.source, &k.state, &k.total) })
	if err != nil {
		return fmt.Errorf("list the operations of %v: %w", add.account, err)
	}
	needed := map[drive.OperationID]bool{add.source: true}
	for _, k := range all {
		if k.state == Running {
			needed[k.source] = true
		}
	}
	items, count := add.total, 1
	for _, k := range all {
		if items, count = items+k.total, count+1; items <= b.opt.MaxStoredItems && count <= maxBulks || k.state == Running || needed[k.id] {
			continue
		}
		if err := b.remove(ctx, tx, k.id); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the rows of an operation and of its items within tx. The caller has checked that
// it has ended.
func (b *Bulk) remove(ctx context.Context, tx *sqldb.Tx, id drive.OperationID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM bulk_items WHERE bulk_id = ?", id); err != nil {
		return fmt.Errorf("delete the items of operation %v: %w", id, err)
	}
	_, err := tx.Exec(ctx, "DELETE FROM bulks WHERE id = ?", id)
	return err
}

// begin executes the first items of a new operation, so that the response to a small one has its
// result. The background does the rest.
func (b *Bulk) begin(ctx context.Context, r row) (Operation, error) {
	if r.state == Running && r.total <= b.opt.MaxImmediate {
		if _, err := b.Run(ctx, r.id); err != nil { // the operation exists: the background retries
			b.opt.Log.DebugContext(ctx, "operation could not be executed at once; the background continues it", "operation", r.id, "error", err)
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
