package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Copies copy nodes, and move them from one account to another. It is safe for concurrent use.
type Copies struct {
	*doors
	show  *display
	books *books
	ops   *Operations
	work  *copying
	sums  *sums
}

// Copy says what a copy shall be.
type Copy struct {
	Parent   drive.NodeID
	Name     drive.Name     // empty: the name it has
	Conflict drive.Conflict // empty: fail; replace: a file gets a version, what is in a folder's way goes to the trash
	Hook     Hook           // also told of an operation that the call itself then ends
	// Over is a folder in the way of a file: it goes to the trash when the file takes its name.
	Over drive.NodeID
	// Properties says that the dead properties of WebDAV are copied, too.
	Properties bool
	// Join says that the same copy of the same node to the same place that the caller has asked for
	// and that has not ended is this one: a client that has not waited for it asks again. Of a
	// source that has changed since, another copy is made.
	Join   bool
	Expect tree.Expect // what the caller decided by; asked when the copy begins
	away   *away       // it is the first half of a move; see Relocate
}

// Copy copies a live file, or a live folder with all that is live in it. Content is shared, and
// charged like any other. What is changed while a folder is being copied may be in the copy or not.
func (s *Copies) Copy(ctx context.Context, who drive.Who, id drive.NodeID, c Copy) (Result, error) {
	from, err := s.enter(ctx, who, id, access.Read)
	if err != nil {
		return Result{}, err
	}
	return s.copyFrom(ctx, who, from, c)
}

// copyFrom is Copy of a node that the caller has been let in to.
func (s *Copies) copyFrom(ctx context.Context, who drive.Who, from access.Pass, c Copy) (Result, error) {
	src, err := s.live(ctx, s.db, from.Who, from.Node)
	if err != nil {
		return Result{}, err
	}
	to, err := s.enterCopy(ctx, who, c)
	if err != nil {
		return Result{}, err
	}
	if err := s.mayClear(ctx, who, c.Over); err != nil {
		return Result{}, err
	}
	if c.Name == "" {
		c.Name = src.Name
	}
	if c.Conflict == "" {
		c.Conflict = drive.ConflictFail
	}
	way := passage{from, to}
	switch {
	case src.IsRoot():
		return Result{}, drive.Bad("id", drive.NotAllowed, "sent", RootID)
	case src.IsFolder():
		return s.copyFolder(ctx, who, way, src, c)
	case c.away != nil:
		return s.moveFile(ctx, who, way, src, c)
	}
	return s.copyFile(ctx, way, src.ID, c)
}

// enterCopy lets the caller put a copy into a folder, of whichever account.
func (d *doors) enterCopy(ctx context.Context, who drive.Who, c Copy) (access.Pass, error) {
	return d.enter(ctx, who, c.Parent, useOf(c.Conflict))
}

func (s *Copies) copyFile(ctx context.Context, way passage, id drive.NodeID, c Copy) (r Result, err error) {
	err = s.books.write(ctx, way.to.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := c.Expect.Check(ctx, tx, s.tree); err != nil {
			return err
		}
		src, err := s.live(ctx, tx, way.from.Who, id)
		if err != nil {
			return err
		}
		n, err := s.put(ctx, tx, way.to.Who, src, c)
		if err != nil {
			return err
		}
		r, err = s.show.answer(ctx, tx, way.to, n, c.Hook)
		return err
	})
	return r, err
}

// put makes a copy of a file in the account of who.
func (s *Copies) put(ctx context.Context, tx *sqldb.Tx, who drive.Who, src tree.Node, c Copy) (tree.Node, error) {
	if err := s.books.charge(ctx, tx, who.Account, src); err != nil {
		return tree.Node{}, err
	}
	if err := s.clear(ctx, tx, tree.Place{Parent: c.Parent, Name: c.Name}, who.Account, c.Over); err != nil {
		return tree.Node{}, err
	}
	there, _, err := s.tree.Child(ctx, tx, who.Account, c.Parent, c.Name)
	if err != nil {
		return tree.Node{}, err
	}
	placed, err := s.tree.PutFile(ctx, tx, who.Account, tree.File{
		Parent: c.Parent, Name: c.Name, Conflict: c.Conflict, Base: there.Version,
		Blob: src.Blob, Size: src.Size, MTime: src.MTime, Mime: src.Mime, By: who.User, Who: who,
	})
	if err != nil {
		return tree.Node{}, err
	}
	if err := s.books.drop(ctx, tx, who.Account, placed.Dropped); err != nil {
		return tree.Node{}, err
	}
	if c.Properties {
		err = copyProperties(ctx, tx, src, placed.Node)
	}
	return placed.Node, err
}

// passage is what somebody may do where a copy comes from, and where it goes.
type passage struct{ from, to access.Pass }

// args are those of a folder's copy by a caller.
func (p passage) args(caller drive.Who, src tree.Node, c Copy) *copyArgs {
	a := &copyArgs{Parent: c.Parent, Name: c.Name, From: src.ID, Conflict: c.Conflict, Properties: c.Properties, Away: c.away}
	if p.from.Who.Guest || p.to.Who.Guest {
		a.Home = caller.Account
	}
	return a
}

func (s *Copies) copyFolder(ctx context.Context, caller drive.Who, p passage, src tree.Node, c Copy) (Result, error) {
	to := p.to
	who := to.Who
	below, err := s.tree.Extent(ctx, s.db, src.ID)
	if err != nil {
		return Result{}, err
	}
	sums, err := s.sums.of(ctx, s.db, []drive.NodeID{src.ID}) // which are then known to the transaction, too
	if err != nil {
		return Result{}, err
	}
	nodes := nodesOf(sums[src.ID].Sum)
	var mark tree.Mark
	if c.Join && c.away == nil { // before the copy: what changes meanwhile is another source
		if mark, err = tree.MarkOf(ctx, s.db, src.ID); err != nil {
			return Result{}, err
		}
	}
	var o operation
	var r Result
	err = s.ops.write(ctx, s.books, who, func(ctx context.Context, tx *sqldb.Tx) error {
		r = Result{}
		o = newOperation(who, copyFolder, args{Copy: p.args(caller, src, c)})
		o.args.Copy.Seq, o.args.Copy.Nodes = mark.Seq, mark.Nodes
		o.Total, o.args.Copy.Below = nodes, below
		if joined, err := joined(ctx, tx, &o, c); err != nil || joined {
			r = Result{Operation: &o.Operation}
			return err
		}
		if err := c.Expect.Check(ctx, tx, s.tree); err != nil {
			return err
		}
		if err := s.admit(ctx, tx, p, &o); err != nil {
			return err
		}
		if err := s.work.begin(ctx, tx, &o, src, c); err != nil {
			return err
		}
		if err := s.ops.begin(ctx, tx, &o); err != nil {
			return err
		}
		if o.State == Running {
			r = Result{Operation: &o.Operation}
			return c.Hook.run(ctx, tx, r)
		}
		n, err := s.tree.Find(ctx, tx, who.Account, o.args.Top)
		if err != nil {
			return err
		}
		r, err = s.show.answer(ctx, tx, to, n, c.Hook)
		return err
	})
	if err != nil || r.Node != nil {
		return r, err
	}
	if r.Operation, err = s.ops.finish(ctx, o, nodes); err != nil || r.Operation != nil {
		return r, err
	}
	n, err := s.tree.Find(ctx, s.db, who.Account, o.args.Top)
	if err != nil {
		return Result{}, err
	}
	view, err := s.show.viewer(s.db).as(to).view(ctx, n)
	return Result{Node: &view}, err
}

// nodesOf is how many nodes a copy of a folder has.
func nodesOf(below tree.Sum) int64 { return below.Files + below.Folders + 1 }

// admit refuses a copy of a folder that would have more nodes than there is room for, or more bytes
// than are left: where it goes, what other copies that run there have yet to copy counts, too.
// Later changes of the source or of the place can still make a copy fail on its way. A source of
// which the caller does not see all is copied as far as it goes.
func (s *Copies) admit(ctx context.Context, tx *sqldb.Tx, p passage, o *operation) error {
	src := o.args.Copy.From
	if p.from.Who.Guest {
		lens, err := s.access.Lens(ctx, tx, p.from)
		if err != nil || len(lens.Hidden()) > 0 {
			return err
		}
	}
	sums, err := tree.Sums(ctx, tx, []drive.NodeID{src})
	if err != nil || !sums[src].Known { // it has just got a folder that was not added up
		return err
	}
	below := sums[src].Sum
	o.Total, o.args.Copy.Left = nodesOf(below), below.Size
	running, err := runningOf(ctx, tx, o.account)
	if err != nil {
		return err
	}
	nodes, size := o.Total, below.Size
	for _, other := range running {
		if c := other.args.Copy; other.kind == copyFolder && c != nil && !c.Shown {
			nodes += max(0, other.Total-other.Done)
			size += max(0, c.Left)
		}
	}
	if err := tree.Admit(ctx, s.tree, tx, o.account, nodes); err != nil {
		return err
	}
	balance, err := s.books.ledger.Get(ctx, tx, o.account)
	if err == nil && size > balance.Available() {
		err = balance.Refused(size)
	}
	return err
}

// CallOff makes a copy that runs delete what there is of it; another operation goes on. It ends as
// failed.
func (s *Copies) CallOff(ctx context.Context, id drive.OperationID) error {
	_, err := s.work.abandon(ctx, id, func(bool) bool { return true }, drive.Fail(drive.Gone))
	return err
}
