package files

import (
	"context"
	"errors"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

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
	Join bool
	away *away // it is the first half of a move; see Relocate
}

// copyArgs is where a copy goes and how far it came.
type copyArgs struct {
	Parent   drive.NodeID   `json:"parent"`
	Conflict drive.Conflict `json:"conflict"`
	Below    tree.Extent    `json:"below"`
	// Stack is the way from the top down to where the copy is: what of each folder was copied
	// already.
	Stack []frame `json:"stack"`
	// From is the top of what is copied, and Name the one that the copy shall have.
	From drive.NodeID `json:"from,omitzero"`
	Name drive.Name   `json:"name,omitempty"`
	// Home is the copier's own account, of a copy from or to a place of others. Each step asks
	// again whether they may.
	Home drive.AccountID `json:"home,omitzero"`
	// Properties: see Copy.
	Properties bool  `json:"properties,omitempty"`
	Away       *away `json:"away,omitempty"`  // of a move: what goes away in the end
	Shown      bool  `json:"shown,omitempty"` // of a move: the copy is there
	// Seq and Nodes are what the source was when the copy began, if another request may join it.
	Seq   int64 `json:"seq,omitempty"`
	Nodes int64 `json:"nodes,omitempty"`
	// Hidden are nodes that whoever copies may not see: they and what is below them are not copied.
	Hidden []drive.NodeID `json:"hidden,omitempty"`
}

type frame struct {
	From  drive.NodeID `json:"from"`
	To    drive.NodeID `json:"to"`
	After drive.Name   `json:"after"` // children up to this name are done
}

// Copy copies a live file, or a live folder with all that is live in it. Content is shared, and
// charged like any other. What is changed while a folder is being copied may be in the copy or not.
func (f *Files) Copy(ctx context.Context, who drive.Who, id drive.NodeID, c Copy) (Result, error) {
	from, err := f.enter(ctx, who, id, access.Read)
	if err != nil {
		return Result{}, err
	}
	return copyFrom(ctx, f, who, from, c)
}

// copyFrom is Copy of a node that the caller has been let in to.
func copyFrom(ctx context.Context, f *Files, who drive.Who, from access.Pass, c Copy) (Result, error) {
	src, err := f.live(ctx, f.opt.DB, from.Who, from.Node)
	if err != nil {
		return Result{}, err
	}
	to, err := f.enterCopy(ctx, who, c)
	if err != nil {
		return Result{}, err
	}
	if err := f.mayClear(ctx, who, c.Over); err != nil {
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
		return f.copyFolder(ctx, who, way, src, c)
	case c.away != nil:
		return moveFile(ctx, f, who, way, src, c)
	}
	return f.copyFile(ctx, way, src.ID, c)
}

// mayClear refuses to let somebody take away what is in the way; zero: nothing is.
func (d *doors) mayClear(ctx context.Context, who drive.Who, over drive.NodeID) error {
	if over.IsZero() {
		return nil
	}
	p, err := d.enter(ctx, who, over, access.Trash)
	if err == nil {
		err = p.CheckAway(access.Trash)
	}
	return err
}

// clear puts what is in the way into the trash, if it still is in the way: at a name of a folder.
func (d *doors) clear(ctx context.Context, tx *sqldb.Tx, at tree.Place, account drive.AccountID, over drive.NodeID) error {
	if over.IsZero() {
		return nil
	}
	there, taken, err := d.tree.Child(ctx, tx, account, at.Parent, at.Name)
	if err != nil || !taken || there.ID != over {
		return err
	}
	_, err = d.tree.Trash(ctx, tx, account, over, 0)
	return err
}

// enterCopy lets the caller put a copy into a folder, of whichever account.
func (d *doors) enterCopy(ctx context.Context, who drive.Who, c Copy) (access.Pass, error) {
	return d.enterFolder(ctx, who, c.Parent, useOf(c.Conflict))
}

// useOf is what one must be allowed to put something that is there already into a folder: what is
// in its way goes when the policy is replace.
func useOf(c drive.Conflict) access.Use {
	if c == drive.ConflictReplace {
		return access.Replace
	}
	return access.Put
}

func (f *Files) copyFile(ctx context.Context, way passage, id drive.NodeID, c Copy) (r Result, err error) {
	err = f.write(ctx, way.to.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		src, err := f.live(ctx, tx, way.from.Who, id)
		if err != nil {
			return err
		}
		n, err := putCopy(ctx, f, tx, way.to.Who, src, c)
		if err != nil {
			return err
		}
		r, err = f.answer(ctx, tx, way.to, n, c.Hook)
		return err
	})
	return r, err
}

// putCopy makes a copy of a file in the account of who.
func putCopy(ctx context.Context, f *Files, tx *sqldb.Tx, who drive.Who, src tree.Node, c Copy) (tree.Node, error) {
	if err := f.charge(ctx, tx, who.Account, src); err != nil {
		return tree.Node{}, err
	}
	if err := f.clear(ctx, tx, tree.Place{Parent: c.Parent, Name: c.Name}, who.Account, c.Over); err != nil {
		return tree.Node{}, err
	}
	there, _, err := f.opt.Tree.Child(ctx, tx, who.Account, c.Parent, c.Name)
	if err != nil {
		return tree.Node{}, err
	}
	placed, err := f.opt.Tree.PutFile(ctx, tx, who.Account, tree.File{
		Parent: c.Parent, Name: c.Name, Conflict: c.Conflict, Base: there.Version,
		Blob: src.Blob, Size: src.Size, MTime: src.MTime, Mime: src.Mime, By: who.User, Who: who,
	})
	if err != nil {
		return tree.Node{}, err
	}
	if err := f.drop(ctx, tx, who.Account, placed.Dropped); err != nil {
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

func (f *Files) copyFolder(ctx context.Context, caller drive.Who, p passage, src tree.Node, c Copy) (Result, error) {
	to := p.to
	who := to.Who
	below, err := f.opt.Tree.Extent(ctx, f.opt.DB, src.ID)
	if err != nil {
		return Result{}, err
	}
	nodes, err := f.opt.Tree.Count(ctx, f.opt.DB, src.ID, f.opt.Direct+1)
	if err != nil {
		return Result{}, err
	}
	var mark tree.Mark
	if c.Join && c.away == nil { // before the copy: what changes meanwhile is another source
		if mark, err = f.opt.Tree.MarkOf(ctx, f.opt.DB, src.ID); err != nil {
			return Result{}, err
		}
	}
	var o operation
	var r Result
	err = f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		r = Result{}
		o = f.newOperation(who, copyFolder, args{Copy: p.args(caller, src, c)})
		o.args.Copy.Seq, o.args.Copy.Nodes = mark.Seq, mark.Nodes
		o.Total, o.args.Copy.Below = nodes, below
		if joined, err := joined(ctx, tx, &o, c); err != nil || joined {
			r = Result{Operation: &o.Operation}
			return err
		}
		if err := f.startCopy(ctx, tx, &o, src, c); err != nil {
			return err
		}
		if err := f.begin(ctx, tx, &o); err != nil {
			return err
		}
		if o.State == Running {
			r = Result{Operation: &o.Operation}
			return c.Hook.run(ctx, tx, r)
		}
		n, err := f.opt.Tree.Find(ctx, tx, who.Account, o.args.Top)
		if err != nil {
			return err
		}
		r, err = f.answer(ctx, tx, to, n, c.Hook)
		return err
	})
	if err != nil || r.Node != nil {
		return r, err
	}
	if r.Operation, err = f.finish(ctx, o, nodes); err != nil || r.Operation != nil {
		return r, err
	}
	n, err := f.opt.Tree.Find(ctx, f.opt.DB, who.Account, o.args.Top)
	if err != nil {
		return Result{}, err
	}
	view, err := f.viewer(f.opt.DB).as(to).view(ctx, n)
	return Result{Node: &view}, err
}

// startCopy makes the branch that the copy grows in. A name that is taken already, by what may not
// be replaced or not now, is refused before the work.
func (f *Files) startCopy(ctx context.Context, tx *sqldb.Tx, o *operation, src tree.Node, c Copy) error {
	there, taken, err := f.opt.Tree.Child(ctx, tx, o.account, c.Parent, c.Name)
	if err != nil {
		return err
	}
	if taken && c.Conflict == drive.ConflictFail {
		return drive.Fail(drive.NameTaken, "name", string(c.Name))
	}
	if taken && c.Conflict == drive.ConflictReplace {
		if err := lock.Check(ctx, tx, f.now(), o.account, there.ID, o.user, true); err != nil {
			return err
		}
	}
	place := tree.Place{Parent: c.Parent, Name: c.Name}
	top, err := f.opt.Tree.StartBranch(ctx, tx, o.account, place, o.args.Copy.Below, o.ID)
	if err != nil {
		return err
	}
	o.Done, o.args.Top, o.args.Copy.Stack = 1, top.ID, []frame{{From: src.ID, To: top.ID}}
	return nil
}

// stepCopy copies up to a batch of nodes, depth first, and shows the branch when all is there.
func (f *Files) stepCopy(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	c := o.args.Copy
	if c.Shown {
		return leaving{f, tx, o}.leave(ctx)
	}
	if err := f.mayCopy(ctx, tx, o.user, c); err != nil {
		return false, err
	}
	var copied []tree.Node
	for len(c.Stack) > 0 && len(copied) < f.opt.Batch {
		some, err := f.copySome(ctx, tx, o, min(f.opt.Batch-len(copied), copyAhead))
		if err != nil {
			return false, err
		}
		copied = append(copied, some...)
	}
	o.Done += int64(len(copied))
	if err := f.charge(ctx, tx, o.account, copied...); err != nil { // all at once, in the order of their blobs
		return false, err
	}
	if len(c.Stack) > 0 {
		return false, nil
	}
	if err := (leaving{f, tx, o}).check(ctx); err != nil {
		return false, err
	}
	top, err := f.opt.Tree.Reveal(ctx, tx, o.account, o.args.Top, tree.Restore{Parent: c.Parent, Conflict: c.Conflict, Below: c.Below})
	if err == nil && c.Properties {
		var src map[drive.NodeID]tree.Node
		if src, err = tree.ByID(ctx, f.opt.Tree, tx, c.From); err == nil && !src[c.From].ID.IsZero() {
			err = copyProperties(ctx, tx, src[c.From], top)
		}
	}
	c.Shown = err == nil && c.Away != nil
	return err == nil && !c.Shown, err
}

// mayCopy asks again whether somebody may copy between places that are not their own, and what of
// the source they see: a copy takes longer than some rights.
func (d *doors) mayCopy(ctx context.Context, q sqldb.Querier, user drive.UserID, c *copyArgs) error {
	if c.Home.IsZero() {
		return nil
	}
	who := drive.Who{User: user, Account: c.Home}
	from, err := d.access.Enter(ctx, q, who, c.From, access.Read)
	if err == nil {
		_, err = d.access.Enter(ctx, q, who, c.Parent, useOf(c.Conflict))
	}
	if err != nil {
		return err
	}
	lens, err := d.access.Lens(ctx, q, from)
	c.Hidden = lens.Hidden()
	return err
}

// copyAhead bounds how many children are read at once: what comes after the first folder is read
// again.
const copyAhead = 64

// whole leaves out files without content: a purge of the source has begun to delete them.
func whole(kids []tree.Node) []tree.Node {
	return slices.DeleteFunc(kids, func(n tree.Node) bool { return !n.IsFolder() && n.Blob.IsZero() })
}

// copySome copies the next children of the folder on top of the stack, up to and including the
// first folder, which goes onto the stack. A folder that is through leaves it.
func (f *Files) copySome(ctx context.Context, tx *sqldb.Tx, o *operation, limit int) ([]tree.Node, error) {
	stack := o.args.Copy.Stack
	at := &stack[len(stack)-1]
	kids, err := f.opt.Tree.ChildrenAfter(ctx, tx, at.From, at.After, limit)
	if err != nil {
		return nil, err
	}
	if len(kids) == 0 {
		o.args.Copy.Stack = stack[:len(stack)-1]
		return nil, nil
	}
	for i, kid := range kids {
		if kid.IsFolder() {
			kids = kids[:i+1]
			break
		}
	}
	last := kids[len(kids)-1]
	isHidden := func(n tree.Node) bool { return slices.Contains(o.args.Copy.Hidden, n.ID) }
	if o.args.Copy.Away != nil && slices.ContainsFunc(kids, isHidden) { // it would go away and not be in the copy
		return nil, drive.Fail(drive.Forbidden)
	}
	kids = slices.DeleteFunc(whole(kids), isHidden)
	made, err := f.opt.Tree.CopyInto(ctx, tx, o.account, at.To, kids, o.user)
	if err != nil {
		return nil, err
	}
	if at.After = last.Name; last.IsFolder() && !isHidden(last) {
		o.args.Copy.Stack = append(stack, frame{From: last.ID, To: made[len(made)-1].ID})
	}
	return kids, nil
}

// abandon turns a copy that cannot be finished into the purge of what there is of it; the operation
// will end as failed. It does so if the copy is where the cause was met, shown or not: another run
// may have come further since, and the cause says nothing of the step that is next.
func (f *Files) abandon(ctx context.Context, id drive.OperationID, met func(shown bool) bool, cause error) (o operation, err error) {
	for o.ahead = true; err == nil && o.ahead; { // a copy is shown once: once more at most
		err = f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if o, err = f.lockOperation(ctx, tx, id); err != nil || o.ahead || o.State != Running || o.kind != copyFolder || !met(o.args.Copy.Shown) {
				return err
			}
			if o.Error, o.cause = drive.KindOf(cause).String(), cause; o.args.Copy.Shown { // the copy stays, and the source does
				o.State = Failed
				return f.save(ctx, tx, o)
			}
			return undoCopy(ctx, f, tx, &o)
		})
	}
	return o, err
}

// undoCopy makes a copy that is not shown the purge of what there is of it.
func undoCopy(ctx context.Context, f *Files, tx *sqldb.Tx, o *operation) error {
	o.args.Copy = nil
	if o.kind = purgeNode; o.args.Top.IsZero() {
		return errors.New("a copy has no top")
	}
	if _, err := tx.Exec(ctx, "UPDATE operations SET kind = ? WHERE id = ?", o.kind, o.ID); err != nil {
		return err
	}
	return f.save(ctx, tx, *o)
}
