package files

import (
	"context"
	"errors"
	"math"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

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
	// Left is how many bytes are yet to be copied, as far as was known when the copy began.
	Left drive.ByteSize `json:"left,omitempty"`
	// Hidden are nodes that whoever copies may not see: they and what is below them are not copied.
	Hidden []drive.NodeID `json:"hidden,omitempty"`
}

type frame struct {
	From  drive.NodeID `json:"from"`
	To    drive.NodeID `json:"to"`
	After drive.Name   `json:"after"` // children up to this name are done
}

// copying copies a folder, and puts its source into the trash in the end if it moves.
type copying struct {
	*doors
	books *books
	rows  *register
	locks lock.Rules
	batch int
}

// left counts what is below the folder and not copied.
func (w *copying) left(ctx context.Context, o operation) (int64, error) {
	stack := o.args.Copy.Stack
	if len(stack) == 0 {
		return 0, nil
	}
	nodes, err := w.tree.Count(ctx, w.db, stack[0].From, math.MaxInt64)
	return nodes - o.Done, err
}

// failed gives up a copy for which trying again cannot help.
func (w *copying) failed(ctx context.Context, o operation, cause error) (operation, error) {
	if !terminal(cause) {
		return o, cause
	}
	shown := o.args.Copy.Shown // the step that failed did not change it
	return w.abandon(ctx, o.ID, func(now bool) bool { return now == shown }, cause)
}

// terminal reports whether trying again cannot help.
func terminal(err error) bool {
	return drive.IsKind(err, drive.Quota, drive.TooLarge, drive.NameTaken, drive.ParentGone, drive.BadName, drive.Cycle, drive.NotFound, drive.Forbidden,
		drive.Locked, drive.VersionChanged)
}

// begin makes the branch that the copy grows in. A name that is taken already, by what may not
// be replaced or not now, is refused before the work.
func (w *copying) begin(ctx context.Context, tx *sqldb.Tx, o *operation, src tree.Node, c Copy) error {
	there, taken, err := w.tree.Child(ctx, tx, o.account, c.Parent, c.Name)
	if err != nil {
		return err
	}
	if taken && c.Conflict == drive.ConflictFail {
		return drive.Fail(drive.NameTaken, "name", string(c.Name))
	}
	if taken && c.Conflict == drive.ConflictReplace {
		if there.ID == src.ID { // its copy would come in its place
			return drive.Fail(drive.Cycle)
		}
		if err := w.locks.Check(ctx, tx, o.account, there.ID, tx.Actor(), true); err != nil {
			return err
		}
	}
	place := tree.Place{Parent: c.Parent, Name: c.Name}
	top, err := w.tree.StartBranch(ctx, tx, o.account, place, o.args.Copy.Below, o.ID)
	if err != nil {
		return err
	}
	o.Done, o.args.Top, o.args.Copy.Stack = 1, top.ID, []frame{{From: src.ID, To: top.ID}}
	return nil
}

// step copies up to a batch of nodes, depth first, and shows the branch when all is there.
func (w *copying) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	c := o.args.Copy
	if c.Shown {
		return leaving{w, tx, o}.leave(ctx)
	}
	if err := w.allowed(ctx, tx, o.user, c); err != nil {
		return false, err
	}
	var copied []tree.Node
	for len(c.Stack) > 0 && len(copied) < w.batch {
		some, err := w.some(ctx, tx, o, min(w.batch-len(copied), copyAhead))
		if err != nil {
			return false, err
		}
		copied = append(copied, some...)
	}
	o.Done += int64(len(copied))
	for _, n := range copied {
		c.Left = max(0, c.Left-n.Size)
	}
	if err := w.books.charge(ctx, tx, o.account, copied...); err != nil { // all at once, in the order of their blobs
		return false, err
	}
	if len(c.Stack) > 0 {
		return false, nil
	}
	if err := (leaving{w, tx, o}).check(ctx); err != nil {
		return false, err
	}
	top, err := w.tree.Reveal(ctx, tx, o.account, o.args.Top, tree.Restore{Parent: c.Parent, Conflict: c.Conflict, Below: c.Below})
	if err == nil && c.Properties {
		var src map[drive.NodeID]tree.Node
		if src, err = tree.ByID(ctx, w.tree, tx, c.From); err == nil && !src[c.From].ID.IsZero() {
			err = copyProperties(ctx, tx, src[c.From], top)
		}
	}
	c.Shown = err == nil && c.Away != nil
	return err == nil && !c.Shown, err
}

// allowed asks again whether somebody may copy between places that are not their own, and what of
// the source they see: a copy takes longer than some rights.
func (w *copying) allowed(ctx context.Context, q sqldb.Querier, user drive.UserID, c *copyArgs) error {
	if c.Home.IsZero() {
		return nil
	}
	who := drive.Who{User: user, Account: c.Home}
	from, err := w.access.Enter(ctx, q, who, c.From, access.Read)
	if err == nil {
		_, err = w.access.Enter(ctx, q, who, c.Parent, useOf(c.Conflict))
	}
	if err != nil {
		return err
	}
	lens, err := w.access.Lens(ctx, q, from)
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

// some copies the next children of the folder on top of the stack, up to and including the
// first folder, which goes onto the stack. A folder that is through leaves it.
func (w *copying) some(ctx context.Context, tx *sqldb.Tx, o *operation, limit int) ([]tree.Node, error) {
	stack := o.args.Copy.Stack
	at := &stack[len(stack)-1]
	kids, err := w.tree.ChildrenAfter(ctx, tx, at.From, at.After, limit)
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
	made, err := w.tree.CopyInto(ctx, tx, o.account, at.To, kids, o.user)
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
func (w *copying) abandon(ctx context.Context, id drive.OperationID, met func(shown bool) bool, cause error) (o operation, err error) {
	for o.ahead = true; err == nil && o.ahead; { // a copy is shown once: once more at most
		err = w.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if o, err = w.rows.lock(ctx, tx, id); err != nil || o.ahead || o.State != Running || o.kind != copyFolder || !met(o.args.Copy.Shown) {
				return err
			}
			if o.Error, o.cause = drive.KindOf(cause).String(), cause; o.args.Copy.Shown { // the copy stays, and the source does
				o.State = Failed
				return w.rows.save(ctx, tx, o)
			}
			return w.undo(ctx, tx, &o)
		})
	}
	return o, err
}

// undo makes a copy that is not shown the purge of what there is of it.
func (w *copying) undo(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	o.args.Copy = nil
	if o.kind = purgeNode; o.args.Top.IsZero() {
		return errors.New("a copy has no top")
	}
	if _, err := tx.Exec(ctx, "UPDATE operations SET kind = ? WHERE id = ?", o.kind, o.ID); err != nil {
		return err
	}
	return w.rows.save(ctx, tx, *o)
}
