package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// MoveAcrossAccounts moves a live node into a folder of another account. It copies the node with
// its dead properties and then puts the source, with its version history, into the trash of its
// account. Both steps are one operation, which continues after a crash. The source is removed only
// after the copy is visible. Repeating the call while the operation runs joins it.
//
// Errors besides those of Copy and Trash: VersionChanged if the source changed meanwhile, Forbidden
// if a part of the source is hidden from the caller. The source then stays.
func (s *Copies) MoveAcrossAccounts(ctx context.Context, who drive.Who, id drive.NodeID, c Copy) (Result, error) {
	from, err := s.authorize(ctx, who, id, access.Edit)
	if err == nil {
		err = from.CheckRemoval(access.Move)
	}
	if err == nil {
		err = s.requireFullView(ctx, s.db, from, id)
	}
	if err != nil {
		return Result{}, err
	}
	mark, err := tree.ChangeTagOf(ctx, s.db, id)
	if err != nil {
		return Result{}, err
	}
	c.moveSource = &moveSource{Account: from.Who.Account, Node: id, Seq: mark.Seq, Nodes: mark.Nodes}
	c.Properties, c.Join = true, true
	return s.copyFrom(ctx, who, from, c)
}

// moveFile moves a file to another account: one transaction copies the file and inserts the
// operation that then removes the source, or joins a running one. The result has the operation if
// it does not end at once, else the node. On an error before the operation exists nothing is
// copied.
func (s *Copies) moveFile(ctx context.Context, caller drive.Who, passes passes, src tree.Node, c Copy) (Result, error) {
	who := passes.to.Who
	var o operation
	err := s.accounting.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = newOperation(who, copyFolder, args{Copy: passes.args(caller, src, c)})
		if joined, err := findJoinable(ctx, tx, &o, c); err != nil || joined {
			return err
		}
		if err := c.Expect.Check(ctx, tx, s.tree); err != nil {
			return err
		}
		if err := (sourceRemoval{s.handler, tx, &o}).check(ctx); err != nil {
			return err
		}
		src, err := s.findLive(ctx, tx, passes.from.Who, src.ID)
		if err != nil {
			return err
		}
		n, err := s.putCopy(ctx, tx, who, src, c)
		if err != nil {
			return err
		}
		o.Done, o.args.Top, o.args.Copy.Shown = 1, n.ID, true
		return s.ops.store.insert(ctx, tx, o)
	})
	if err != nil {
		return Result{}, err
	}
	r := Result{}
	if r.Operation, err = s.ops.finish(ctx, o, 1); err != nil || r.Operation != nil {
		return r, err
	}
	n, err := s.tree.Find(ctx, s.db, who.Account, o.args.Top)
	if err != nil {
		return Result{}, err
	}
	view, err := s.presenter.builder(s.db).forPass(passes.to).view(ctx, n)
	return Result{Node: &view}, err
}

// findJoinable looks for a running operation equivalent to o, if c.Join is set. If there is one, it
// replaces o by it and returns true.
func findJoinable(ctx context.Context, tx *sqldb.Tx, o *operation, c Copy) (bool, error) {
	if !c.Join {
		return false, nil
	}
	running, err := findRunning(ctx, tx, o.account)
	if err != nil {
		return false, err
	}
	want := o.args.Copy
	for _, other := range running {
		have := other.args.Copy
		if other.kind == copyFolder && have != nil && other.user == o.user && have.From == want.From && have.Parent == want.Parent &&
			have.Name.Fold() == want.Name.Fold() && have.Conflict == want.Conflict && have.Properties == want.Properties &&
			have.Seq == want.Seq && have.Nodes == want.Nodes && (have.MoveSource == nil) == (want.MoveSource == nil) {
			*o = other
			return true, nil
		}
	}
	return false, nil
}
