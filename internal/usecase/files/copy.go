package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Copies copies nodes, and moves nodes between accounts. It is safe for concurrent use.
type Copies struct {
	*authorizer
	presenter  *presenter
	accounting *accounting
	ops        *Operations
	handler    *copyHandler
	sums       *folderSums
}

// Copy configures Copies.Copy and Copies.MoveAcrossAccounts. Parent, the folder that gets the copy,
// is required.
type Copy struct {
	Parent drive.NodeID
	Name   drive.Name // Name is the name of the copy; empty: the name of the source.
	// Conflict is the policy for a name that is taken; empty: fail. With replace, an existing file
	// gets a new version, and a node replaced by a folder goes to the trash.
	Conflict drive.Conflict
	// Hook runs in the transaction that decides the response. It also runs for an operation that
	// ends before the call returns.
	Hook Hook
	// Replaces is the folder that a copied file replaces: it goes to the trash when the copy takes
	// its name. Zero: none.
	Replaces drive.NodeID
	// Properties copies the WebDAV dead properties, too.
	Properties bool
	// Join attaches the call to a running copy that the same user started with the same source,
	// target and options, so that a client can retry a request that timed out. If the source has
	// changed since, a new copy starts.
	Join       bool
	Expect     tree.Expect // Expect lists what the caller has read and relies on. It is checked when the copy begins.
	moveSource *moveSource // moveSource is set if the copy is the first half of a move; see MoveAcrossAccounts.
}

// Copy copies a live file or a live folder with its live descendants. The copy shares the content
// of the source and is charged in full. A change made inside the source while it is being copied
// may or may not be in the copy. It fails with NotFound or Forbidden without the right to read the
// source or to add to the target, WrongState {state: trashed} for a trashed source, BadRequest for
// the root, and with NameTaken, Locked, TooLarge or Quota of the target.
func (s *Copies) Copy(ctx context.Context, who drive.Who, id drive.NodeID, c Copy) (Result, error) {
	from, err := s.authorize(ctx, who, id, access.Read)
	if err != nil {
		return Result{}, err
	}
	return s.copyFrom(ctx, who, from, c)
}

// copyFrom copies a node whose caller is already authorized to read it.
func (s *Copies) copyFrom(ctx context.Context, who drive.Who, from access.Pass, c Copy) (Result, error) {
	src, err := s.findLive(ctx, s.db, from.Who, from.Node)
	if err != nil {
		return Result{}, err
	}
	to, err := s.authorizeCopy(ctx, who, c)
	if err != nil {
		return Result{}, err
	}
	if err := s.authorizeReplaced(ctx, who, c.Replaces); err != nil {
		return Result{}, err
	}
	if c.Name == "" {
		c.Name = src.Name
	}
	if c.Conflict == "" {
		c.Conflict = drive.ConflictFail
	}
	passes := passes{from, to}
	switch {
	case src.IsRoot():
		return Result{}, drive.BadField("id", drive.NotAllowed, "sent", RootID)
	case src.IsFolder():
		return s.copyFolder(ctx, who, passes, src, c)
	case c.moveSource != nil:
		return s.moveFile(ctx, who, passes, src, c)
	}
	return s.copyFile(ctx, passes, src.ID, c)
}

// authorizeCopy returns the caller's pass at the target folder of the copy, in any account. It
// fails unless the caller may add there, and replace with that policy.
func (a *authorizer) authorizeCopy(ctx context.Context, who drive.Who, c Copy) (access.Pass, error) {
	return a.authorize(ctx, who, c.Parent, useForConflict(c.Conflict))
}

// copyFile copies the live file id in one transaction, which also checks c.Expect and runs c.Hook,
// and returns its view. On an error nothing is copied.
func (s *Copies) copyFile(ctx context.Context, passes passes, id drive.NodeID, c Copy) (r Result, err error) {
	err = s.accounting.write(ctx, passes.to.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := c.Expect.Check(ctx, tx, s.tree); err != nil {
			return err
		}
		src, err := s.findLive(ctx, tx, passes.from.Who, id)
		if err != nil {
			return err
		}
		n, err := s.putCopy(ctx, tx, passes.to.Who, src, c)
		if err != nil {
			return err
		}
		r, err = s.presenter.result(ctx, tx, passes.to, n, c.Hook)
		return err
	})
	return r, err
}

// putCopy creates a copy of the file src in the account of who, below c.Parent. A file of that name
// gets a new version if the policy is replace.
func (s *Copies) putCopy(ctx context.Context, tx *sqldb.Tx, who drive.Who, src tree.Node, c Copy) (tree.Node, error) {
	if err := s.accounting.charge(ctx, tx, who.Account, src); err != nil {
		return tree.Node{}, err
	}
	if err := s.trashReplaced(ctx, tx, tree.Place{Parent: c.Parent, Name: c.Name}, who.Account, c.Replaces); err != nil {
		return tree.Node{}, err
	}
	there, _, err := s.tree.Child(ctx, tx, who.Account, c.Parent, c.Name)
	if err != nil {
		return tree.Node{}, err
	}
	at := tree.Place{Parent: c.Parent, Name: c.Name, Conflict: c.Conflict, Base: there.Version}
	placed, err := s.tree.PutFile(ctx, tx, who.Account, tree.CopyOf(src, at, who))
	if err != nil {
		return tree.Node{}, err
	}
	if err := s.accounting.drop(ctx, tx, who.Account, placed.Dropped); err != nil {
		return tree.Node{}, err
	}
	if c.Properties {
		err = copyProperties(ctx, tx, src, placed.Node)
	}
	return placed.Node, err
}

// passes holds the caller's authorizations for the source and the target of a copy.
type passes struct{ from, to access.Pass }

// args returns the stored arguments of an operation that copies src. Home is set if either end
// belongs to another account, so that each step checks access again.
func (p passes) args(caller drive.Who, src tree.Node, c Copy) *copyArgs {
	a := &copyArgs{Parent: c.Parent, Name: c.Name, From: src.ID, Conflict: c.Conflict, Properties: c.Properties, MoveSource: c.moveSource}
	if p.from.Who.Guest || p.to.Who.Guest {
		a.Home = caller.Account
	}
	return a
}

// copyFolder begins to copy a folder. It returns the copy if the work ends within the call, else
// the operation that continues in the background.
func (s *Copies) copyFolder(ctx context.Context, caller drive.Who, passes passes, src tree.Node, c Copy) (Result, error) {
	to := passes.to
	who := to.Who
	below, err := s.tree.Extent(ctx, s.db, src.ID)
	if err != nil {
		return Result{}, err
	}
	sums, err := s.sums.get(ctx, s.db, []drive.NodeID{src.ID}) // computes and stores missing sums, so that the transaction finds them
	if err != nil {
		return Result{}, err
	}
	nodes := nodesOf(sums[src.ID].Sum)
	var mark tree.ChangeTag
	if c.Join && c.moveSource == nil { // read before the copy, so that a later change of the source prevents joining
		if mark, err = tree.ChangeTagOf(ctx, s.db, src.ID); err != nil {
			return Result{}, err
		}
	}
	var o operation
	var r Result
	err = s.ops.write(ctx, s.accounting, who, func(ctx context.Context, tx *sqldb.Tx) error {
		r = Result{}
		o = newOperation(who, copyFolder, args{Copy: passes.args(caller, src, c)})
		o.args.Copy.Seq, o.args.Copy.Nodes = mark.Seq, mark.Nodes
		o.Total, o.args.Copy.Below = nodes, below
		if joined, err := findJoinable(ctx, tx, &o, c); err != nil || joined {
			r = Result{Operation: &o.Operation}
			return err
		}
		if err := c.Expect.Check(ctx, tx, s.tree); err != nil {
			return err
		}
		if err := s.admit(ctx, tx, passes, &o); err != nil {
			return err
		}
		if err := s.handler.begin(ctx, tx, &o, src, c); err != nil {
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
		r, err = s.presenter.result(ctx, tx, to, n, c.Hook)
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
	view, err := s.presenter.builder(s.db).forPass(to).view(ctx, n)
	return Result{Node: &view}, err
}

// nodesOf returns how many nodes a copy of the folder has: its descendants and itself.
func nodesOf(below tree.Sum) int64 { return below.Files + below.Folders + 1 }

// admit checks, before a folder is copied, that the target account has room for all nodes and
// bytes, and records both in o. It also counts the rest of other running copies into the account.
// It fails with TooLarge or Quota. It reserves nothing: later changes can still make the copy fail.
// If part of the source is hidden from the caller, or its sum is unknown, nothing is checked.
func (s *Copies) admit(ctx context.Context, tx *sqldb.Tx, passes passes, o *operation) error {
	src := o.args.Copy.From
	if passes.from.Who.Guest {
		lens, err := s.access.Lens(ctx, tx, passes.from)
		if err != nil || len(lens.Hidden()) > 0 {
			return err
		}
	}
	sums, err := tree.Sums(ctx, tx, []drive.NodeID{src})
	if err != nil || !sums[src].Known { // unknown: a descendant folder without a sum has just been added
		return err
	}
	below := sums[src].Sum
	o.Total, o.args.Copy.Left = nodesOf(below), below.Size
	running, err := findRunning(ctx, tx, o.account)
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
	if err := tree.CheckCapacity(ctx, s.tree, tx, o.account, nodes); err != nil {
		return err
	}
	balance, err := s.accounting.ledger.Get(ctx, tx, o.account)
	if err == nil && size > balance.Available() {
		err = balance.Refused(size)
	}
	return err
}

// Cancel cancels a running copy: the operation deletes what it has copied and ends as failed. An
// operation of another kind is not changed.
func (s *Copies) Cancel(ctx context.Context, id drive.OperationID) error {
	_, err := s.handler.abandon(ctx, id, func(bool) bool { return true }, drive.Fail(drive.Gone))
	return err
}
