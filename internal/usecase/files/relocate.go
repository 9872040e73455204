package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// away is what goes to the trash once its copy is there.
type away struct {
	Account drive.AccountID `json:"account"`
	Node    drive.NodeID    `json:"node"`
	// What the source was when the copy began: what has changed since is perhaps not in the copy.
	Seq   int64 `json:"seq"`
	Nodes int64 `json:"nodes"`
}

// Relocate moves a live node into a folder of another account: it is copied as Copy does, with its
// dead properties, and then the source goes to the trash of its account, with its history. Both are
// one operation. The copy is there before the source goes, and what is in its way goes only with
// the copy; whatever dies in between, the operation is taken up from where it was. To ask again
// while it runs is to wait for the same one.
//
// Errors beside those of Copy and Trash: VersionChanged, the source has changed meanwhile: it stays
// as it is. Forbidden, a part of the source is hidden from the caller: it would go unseen.
func Relocate(ctx context.Context, f *Files, who drive.Who, id drive.NodeID, c Copy) (Result, error) {
	from, err := f.enter(ctx, who, id, access.Edit)
	if err == nil {
		err = from.CheckAway(access.Move)
	}
	if err == nil {
		err = f.seesAll(ctx, f.opt.DB, from, id)
	}
	if err != nil {
		return Result{}, err
	}
	mark, err := f.opt.Tree.MarkOf(ctx, f.opt.DB, id)
	if err != nil {
		return Result{}, err
	}
	c.away = &away{Account: from.Who.Account, Node: id, Seq: mark.Seq, Nodes: mark.Nodes}
	c.Properties, c.Join = true, true
	return copyFrom(ctx, f, who, from, c)
}

// moveFile is Relocate of a file: the copy is made at once.
func moveFile(ctx context.Context, f *Files, caller drive.Who, way passage, src tree.Node, c Copy) (Result, error) {
	who := way.to.Who
	var o operation
	err := f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = f.newOperation(who, copyFolder, args{Copy: way.args(caller, src, c)})
		if joined, err := joined(ctx, tx, &o, c); err != nil || joined {
			return err
		}
		if err := (leaving{f, tx, &o}).check(ctx); err != nil {
			return err
		}
		src, err := f.live(ctx, tx, way.from.Who, src.ID)
		if err != nil {
			return err
		}
		n, err := putCopy(ctx, f, tx, who, src, c)
		if err != nil {
			return err
		}
		o.Done, o.args.Top, o.args.Copy.Shown = 1, n.ID, true
		return f.insert(ctx, tx, o)
	})
	if err != nil {
		return Result{}, err
	}
	r := Result{}
	if r.Operation, err = f.finish(ctx, o, 1); err != nil || r.Operation != nil {
		return r, err
	}
	n, err := f.opt.Tree.Find(ctx, f.opt.DB, who.Account, o.args.Top)
	if err != nil {
		return Result{}, err
	}
	view, err := f.viewer(f.opt.DB).as(way.to).view(ctx, n)
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

// leaving is the source of a move.
type leaving struct {
	f  *Files
	tx *sqldb.Tx
	o  *operation
}

// check refuses to take away the source that has changed since the copy began, that somebody else
// has locked, that the caller may not take away any more, or of which they do not see a part.
func (l leaving) check(ctx context.Context) error {
	f, tx, o := l.f, l.tx, l.o
	a := o.args.Copy.Away
	if a == nil {
		return nil
	}
	p, err := f.access.Enter(ctx, tx, drive.Who{User: o.user, Account: o.args.Copy.Home}, a.Node, access.Trash)
	if err == nil {
		err = p.CheckAway(access.Trash)
	}
	if err == nil {
		err = f.seesAll(ctx, tx, p, a.Node)
	}
	if err != nil {
		return err
	}
	now, err := f.opt.Tree.MarkOf(ctx, tx, a.Node)
	if err != nil {
		return err
	}
	if now.Seq != a.Seq || now.Nodes != a.Nodes {
		return drive.Fail(drive.VersionChanged)
	}
	return lock.Check(ctx, tx, f.now(), a.Account, a.Node, o.user, true)
}

// leave is the last step of a move: its source goes to the trash. The transaction has the lock on
// the source's ledger. What is there no longer has gone already.
func (l leaving) leave(ctx context.Context) (finished bool, err error) {
	f, tx, o := l.f, l.tx, l.o
	a := o.args.Copy.Away
	tx.ActFor(drive.Who{User: o.user, Account: a.Account})
	n, err := f.opt.Tree.Find(ctx, tx, a.Account, a.Node)
	if drive.IsKind(err, drive.NotFound) || err == nil && n.Trashed != 0 {
		return true, nil
	}
	if err == nil {
		err = l.check(ctx)
	}
	if err == nil {
		_, err = f.opt.Tree.Trash(ctx, tx, a.Account, a.Node, 0)
	}
	return err == nil, err
}

// ledger is the account whose ledger the next step of an operation locks.
func (o operation) ledger() drive.AccountID {
	if c := o.args.Copy; c != nil && c.Shown {
		return c.Away.Account
	}
	return o.account
}
