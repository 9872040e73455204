package files

import (
	"context"
	"errors"
	"math"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// copyArgs holds the arguments and the progress of a copy operation, stored as JSON.
type copyArgs struct {
	Parent   drive.NodeID   `json:"parent"`
	Conflict drive.Conflict `json:"conflict"`
	Below    tree.Extent    `json:"below"`
	// Stack is the path of folders from the top of the source to the folder that is being copied,
	// each with its progress.
	Stack []frame `json:"stack"`
	// From is the top of the source. Name is the name of the copy.
	From drive.NodeID `json:"from,omitzero"`
	Name drive.Name   `json:"name,omitempty"`
	// Home is the caller's own account if source or target belongs to another one. Each step then
	// checks the caller's access again. Zero: both are the caller's own.
	Home drive.AccountID `json:"home,omitzero"`
	// Properties copies the WebDAV dead properties, too.
	Properties bool        `json:"properties,omitempty"`
	MoveSource *moveSource `json:"away,omitempty"`  // of a move: the source, which goes to the trash last; nil: a copy
	Shown      bool        `json:"shown,omitempty"` // of a move: the copy is complete and visible
	// Seq and Nodes identify the state of the source when the copy began. Zero: no other request
	// may join this copy.
	Seq   int64 `json:"seq,omitempty"`
	Nodes int64 `json:"nodes,omitempty"`
	// Left is the number of bytes still to be copied, estimated when the copy began.
	Left drive.ByteSize `json:"left,omitempty"`
	// Hidden are nodes that the caller may not see. They and their descendants are not copied.
	Hidden []drive.NodeID `json:"hidden,omitempty"`
}

// frame is the progress of copying or handing over the children of one folder.
type frame struct {
	From  drive.NodeID `json:"from"`
	To    drive.NodeID `json:"to"`
	After drive.Name   `json:"after"` // children up to this name are done
}

// copyHandler implements the operations that copy a folder. Of a move it also puts the source into
// the trash.
type copyHandler struct {
	*authorizer
	accounting *accounting
	store      *operationStore
	locks      lock.Rules
	batch      int
}

// remaining returns how many nodes of the source are not copied yet; 0 if the stack is empty. The
// source may change meanwhile, so it is an estimate.
func (h *copyHandler) remaining(ctx context.Context, o operation) (int64, error) {
	stack := o.args.Copy.Stack
	if len(stack) == 0 {
		return 0, nil
	}
	nodes, err := h.tree.Count(ctx, h.db, stack[0].From, math.MaxInt64)
	return nodes - o.Done, err
}

// handleFailure abandons the copy if cause is permanent (isPermanent) and returns the operation as
// it is then. Other causes are returned as the error, and the step is retried later.
func (h *copyHandler) handleFailure(ctx context.Context, o operation, cause error) (operation, error) {
	if !isPermanent(cause) {
		return o, cause
	}
	shown := o.args.Copy.Shown // not changed by the failed step
	return h.abandon(ctx, o.ID, func(now bool) bool { return now == shown }, cause)
}

// isPermanent reports whether retrying a step that failed with err cannot succeed, so that the
// operation fails.
func isPermanent(err error) bool {
	return drive.IsKind(err, drive.Quota, drive.TooLarge, drive.NameTaken, drive.ParentGone, drive.BadName, drive.Cycle, drive.NotFound, drive.Forbidden,
		drive.Locked, drive.VersionChanged)
}

// begin creates the hidden top folder of the copy and initializes the progress in o. It fails early
// if the target name is taken: NameTaken with the policy fail, Cycle if the copy would replace its
// own source, Locked if the replaced node is locked.
func (h *copyHandler) begin(ctx context.Context, tx *sqldb.Tx, o *operation, src tree.Node, c Copy) error {
	there, taken, err := h.tree.Child(ctx, tx, o.account, c.Parent, c.Name)
	if err != nil {
		return err
	}
	if taken && c.Conflict == drive.ConflictFail {
		return drive.Fail(drive.NameTaken, "name", string(c.Name))
	}
	if taken && c.Conflict == drive.ConflictReplace {
		if there.ID == src.ID { // a folder cannot be replaced by its own copy
			return drive.Fail(drive.Cycle)
		}
		if err := h.locks.Check(ctx, tx, o.account, there.ID, tx.Actor(), true); err != nil {
			return err
		}
	}
	place := tree.Place{Parent: c.Parent, Name: c.Name}
	top, err := h.tree.StartBranch(ctx, tx, o.account, src, place, o.args.Copy.Below, o.ID)
	if err != nil {
		return err
	}
	o.Done, o.args.Top, o.args.Copy.Stack = 1, top.ID, []frame{{From: src.ID, To: top.ID}}
	return nil
}

// step copies up to a batch of nodes, depth first, and reports whether the operation is finished.
// When all nodes are copied, it reveals the copy at its target; a move then needs another step,
// which puts the source into the trash.
func (h *copyHandler) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	c := o.args.Copy
	if c.Shown {
		return sourceRemoval{h, tx, o}.trash(ctx)
	}
	if err := h.recheckAccess(ctx, tx, o.user, c); err != nil {
		return false, err
	}
	var copied []tree.Node
	for len(c.Stack) > 0 && len(copied) < h.batch {
		some, err := h.copyChildren(ctx, tx, o, min(h.batch-len(copied), childrenPerRead))
		if err != nil {
			return false, err
		}
		copied = append(copied, some...)
	}
	o.Done += int64(len(copied))
	for _, n := range copied {
		c.Left = max(0, c.Left-n.Size)
	}
	if err := h.accounting.charge(ctx, tx, o.account, copied...); err != nil { // one call, so that blob rows are locked in the order of their ids
		return false, err
	}
	if len(c.Stack) > 0 {
		return false, nil
	}
	if err := (sourceRemoval{h, tx, o}).check(ctx); err != nil {
		return false, err
	}
	top, err := h.tree.Reveal(ctx, tx, o.account, o.args.Top, tree.Restore{Parent: c.Parent, Conflict: c.Conflict, Extent: c.Below})
	if err == nil && c.Properties {
		var src map[drive.NodeID]tree.Node
		if src, err = tree.ByID(ctx, h.tree, tx, c.From); err == nil && !src[c.From].ID.IsZero() {
			err = copyProperties(ctx, tx, src[c.From], top)
		}
	}
	c.Shown = err == nil && c.MoveSource != nil
	return err == nil && !c.Shown, err
}

// recheckAccess checks again that the user may read the source and write to the target, because
// access may end while a copy runs. It updates c.Hidden. It does nothing if both ends are the
// user's own.
func (h *copyHandler) recheckAccess(ctx context.Context, q sqldb.Querier, user drive.UserID, c *copyArgs) error {
	if c.Home.IsZero() {
		return nil
	}
	who := drive.Who{User: user, Account: c.Home}
	from, err := h.access.Enter(ctx, q, who, c.From, access.Read)
	if err == nil {
		_, err = h.access.Enter(ctx, q, who, c.Parent, useForConflict(c.Conflict))
	}
	if err != nil {
		return err
	}
	lens, err := h.access.Lens(ctx, q, from)
	c.Hidden = lens.Hidden()
	return err
}

// childrenPerRead bounds how many children one statement reads. Children after the first folder are
// discarded and read again later.
const childrenPerRead = 64

// withContent drops files without content, which a purge of the source is deleting.
func withContent(kids []tree.Node) []tree.Node {
	return slices.DeleteFunc(kids, func(n tree.Node) bool { return !n.IsFolder() && n.Blob.IsZero() })
}

// copyChildren copies the next children of the folder on top of the stack, up to and including the
// first folder, and pushes that folder. It pops a folder without further children. It returns the
// source nodes that were copied. A move fails with Forbidden if a child is hidden from the user.
func (h *copyHandler) copyChildren(ctx context.Context, tx *sqldb.Tx, o *operation, limit int) ([]tree.Node, error) {
	stack := o.args.Copy.Stack
	at := &stack[len(stack)-1]
	kids, err := h.tree.ChildrenAfter(ctx, tx, at.From, at.After, limit)
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
	if o.args.Copy.MoveSource != nil && slices.ContainsFunc(kids, isHidden) { // the move would delete it without copying it
		return nil, drive.Fail(drive.Forbidden)
	}
	kids = slices.DeleteFunc(withContent(kids), isHidden)
	made, err := h.tree.CopyInto(ctx, tx, o.account, at.To, kids, o.user)
	if err != nil {
		return nil, err
	}
	if at.After = last.Name; last.IsFolder() && !isHidden(last) {
		o.args.Copy.Stack = append(stack, frame{From: last.ID, To: made[len(made)-1].ID})
	}
	return kids, nil
}

// abandon ends a copy that failed permanently with cause. If the copy is not visible yet, the
// operation becomes a purge of the nodes made so far. If the copy is visible and only the removal
// of a move's source failed, copy and source both stay. Either way the operation ends as failed.
// Nothing happens unless match accepts the current value of Shown: another run may have passed the
// point at which cause occurred.
func (h *copyHandler) abandon(ctx context.Context, id drive.OperationID, match func(shown bool) bool, cause error) (o operation, err error) {
	for o.ledgerChanged = true; err == nil && o.ledgerChanged; { // Shown changes once, so that this loop runs twice at most
		err = h.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if o, err = h.store.lock(ctx, tx, id); err != nil || o.ledgerChanged || o.State != Running || o.kind != copyFolder || !match(o.args.Copy.Shown) {
				return err
			}
			if o.Error, o.cause = drive.KindOf(cause).String(), cause; o.args.Copy.Shown { // both the copy and the source stay
				o.State = Failed
				return h.store.save(ctx, tx, o)
			}
			return h.turnIntoPurge(ctx, tx, &o)
		})
	}
	return o, err
}

// turnIntoPurge changes the operation of an invisible copy into one that purges the nodes made so
// far.
func (h *copyHandler) turnIntoPurge(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	o.args.Copy = nil
	if o.kind = purgeNode; o.args.Top.IsZero() {
		return errors.New("a copy has no top")
	}
	if _, err := tx.Exec(ctx, "UPDATE operations SET kind = ? WHERE id = ?", o.kind, o.ID); err != nil {
		return err
	}
	return h.store.save(ctx, tx, *o)
}
