package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Relocate moves a live node into a folder of another account: it is copied as Copy does, with its
// dead properties, and then the source goes to the trash of its account, with its history. Both are
// one operation. The copy is there before the source goes, and what is in its way goes only with
// the copy; whatever dies in between, the operation is taken up from where it was. To ask again
// while it runs is to wait for the same one.
//
// Errors beside those of Copy and Trash: VersionChanged, the source has changed meanwhile: it stays
// as it is. Forbidden, a part of the source is hidden from the caller: it would go unseen.
func (s *Copies) Relocate(ctx context.Context, who drive.Who, id drive.NodeID, c Copy) (Result, error) {
	from, err := s.enter(ctx, who, id, access.Edit)
	if err == nil {
		err = from.CheckAway(access.Move)
	}
	if err == nil {
		err = s.seesAll(ctx, s.db, from, id)
	}
	if err != nil {
		return Result{}, err
	}
	mark, err := tree.MarkOf(ctx, s.db, id)
	if err != nil {
		return Result{}, err
	}
	c.away = &away{Account: from.Who.Account, Node: id, Seq: mark.Seq, Nodes: mark.Nodes}
	c.Properties, c.Join = true, true
	return s.copyFrom(ctx, who, from, c)
}

// moveFile is Relocate of a file: the copy is made at once.
func (s *Copies) moveFile(ctx context.Context, caller drive.Who, way passage, src tree.Node, c Copy) (Result, error) {
	who := way.to.Who
	var o operation
	err := s.books.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = newOperation(who, copyFolder, args{Copy: way.args(caller, src, c)})
		if joined, err := joined(ctx, tx, &o, c); err != nil || joined {
			return err
		}
		if err := c.Expect.Check(ctx, tx, s.tree); err != nil {
			return err
		}
		if err := (leaving{s.work, tx, &o}).check(ctx); err != nil {
			return err
		}
		src, err := s.live(ctx, tx, way.from.Who, src.ID)
		if err != nil {
			return err
		}
		n, err := s.put(ctx, tx, who, src, c)
		if err != nil {
			return err
		}
		o.Done, o.args.Top, o.args.Copy.Shown = 1, n.ID, true
		return s.ops.rows.insert(ctx, tx, o)
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
	view, err := s.show.viewer(s.db).as(way.to).view(ctx, n)
	return Result{Node: &view}, err
}

// joined looks for an operation that does what o shall do already, if the copy may be one that
// runs, and makes o that one.
func joined(ctx context.Context, tx *sqldb.Tx, o *operation, c Copy) (bool, error) {
	if !c.Join {
		return false, nil
	}
	running, err := runningOf(ctx, tx, o.account)
	if err != nil {
		return false, err
	}
	want := o.args.Copy
	for _, other := range running {
		have := other.args.Copy
		if other.kind == copyFolder && have != nil && other.user == o.user && have.From == want.From && have.Parent == want.Parent &&
			have.Name.Fold() == want.Name.Fold() && have.Conflict == want.Conflict && have.Properties == want.Properties &&
			have.Seq == want.Seq && have.Nodes == want.Nodes && (have.Away == nil) == (want.Away == nil) {
			*o = other
			return true, nil
		}
	}
	return false, nil
}
