package files

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/property"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// handOver is the kind of an operation that moves all nodes of a drive to another account; see
// tree.Handover. The nodes still in the drive are the remaining work, so the operation may stop
// anywhere, and nodes that arrive meanwhile move, too. Each transaction moves bytes from one ledger
// to the other. If the receiver lacks space, nothing moves until there is enough.
const handOver kind = "handover"

// Handover names the two accounts of a handover and its target folder.
type Handover struct {
	From, To drive.AccountID
	Owner    drive.UserID // the user who owns the account To; zero: To is a space
	Folder   drive.Name   // name of the folder created in To; a number is appended if it is taken
}

// handoverArgs holds the arguments and the progress of a handover, stored as JSON.
type handoverArgs struct {
	Handover

	Root  drive.NodeID `json:"root"` // of the drive that is handed over
	Stack []frame      `json:"stack"`
	// Told is the key that the last call of Options.OnHandover returned; the next call continues
	// from it. Empty: it starts from the beginning.
	Told string `json:"told,omitempty"`
}

// Handovers moves all nodes of a drive into another account. It is safe for concurrent use.
type Handovers struct {
	*authorizer
	presenter *presenter
	store     *operationStore
	handler   *handoverHandler
}

// Begin inserts a handover in tx and returns the operation and its target folder. The caller holds
// the locks on both ledgers (LockBoth) and calls Operations.Start after the commit.
func (s *Handovers) Begin(ctx context.Context, tx *sqldb.Tx, who drive.Who, h Handover) (Operation, NodeView, error) {
	none := func(err error) (Operation, NodeView, error) { return Operation{}, NodeView{}, err }
	root, err := s.tree.Root(ctx, tx, h.From)
	if err != nil {
		return none(err)
	}
	o := newOperation(drive.Who{User: who.User, Account: h.From}, handOver, args{Handover: &handoverArgs{Handover: h, Root: root}})
	top, err := s.handler.createTop(ctx, tx, &o)
	if err != nil {
		return none(err)
	}
	if o.Total, err = s.tree.NodeCount(ctx, tx, h.From); err != nil {
		return none(err)
	}
	view, err := s.presenter.View(ctx, tx, top)
	if err != nil {
		return none(err)
	}
	return o.Operation, view, s.store.insert(ctx, tx, o)
}

// Find returns the latest handover of an account and its target folder. It fails with NotFound if
// there is none or it ended a week ago.
func (s *Handovers) Find(ctx context.Context, q sqldb.Querier, account drive.AccountID) (Operation, Handover, drive.NodeID, error) {
	var id drive.OperationID
	err := q.QueryRow(ctx, "SELECT id FROM operations WHERE account_id = ? AND kind = ? ORDER BY id DESC LIMIT 1", account, handOver).Scan(&id)
	if err != nil {
		return Operation{}, Handover{}, drive.NodeID{}, err
	}
	o, err := findOperation(ctx, q, id)
	if err != nil {
		return Operation{}, Handover{}, drive.NodeID{}, err
	}
	return o.Operation, o.args.Handover.Handover, o.args.Top, nil
}

// List returns the running handovers, in no order; none is an empty result.
func (s *Handovers) List(ctx context.Context, q sqldb.Querier) ([]Handover, error) {
	rows, err := q.Query(ctx, "SELECT args FROM operations WHERE state = 'running' AND kind = ?", handOver)
	all, err := sqldb.Scan(rows, err, func(h *Handover, scan func(...any) error) error {
		var raw string
		if err := scan(&raw); err != nil {
			return err
		}
		var a args
		err := json.Unmarshal([]byte(raw), &a)
		if err == nil && a.Handover != nil {
			*h = a.Handover.Handover
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what is being handed over: %w", err)
	}
	return all, nil
}

// OnHandover updates other rows that name files of the account, whose owner has changed by a
// handover. It is called in the transactions in which the handover ends. It processes up to limit
// rows after the key after and returns the key to continue from; empty: no more rows.
type OnHandover func(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, after string, limit int) (next string, err error)

// handoverHandler implements the operations of kind handOver.
type handoverHandler struct {
	*authorizer
	store  *operationStore
	batch  int
	handed OnHandover
}

// remaining returns how many nodes are left in the drive that is handed over.
func (h *handoverHandler) remaining(ctx context.Context, o operation) (int64, error) {
	return h.tree.NodeCount(ctx, h.db, o.account)
}

// createTop creates the target folder in the receiving account, resets the progress to the root of
// the drive, and hands over the grants at the root.
func (h *handoverHandler) createTop(ctx context.Context, tx *sqldb.Tx, o *operation) (tree.Node, error) {
	args := o.args.Handover
	to, err := h.tree.Root(ctx, tx, args.To)
	if err != nil {
		return tree.Node{}, err
	}
	top, err := h.tree.CreateFolder(ctx, tx, args.To, tree.Place{Parent: to, Name: args.Folder, Conflict: drive.ConflictRename})
	if err != nil {
		return tree.Node{}, err
	}
	o.args.Top, args.Stack = top.ID, []frame{{From: args.Root, To: top.ID}}
	return top, h.access.HandOver(ctx, tx, args.From, args.To, args.Owner, access.Successor{Node: args.Root, Heir: top.ID})
}

// LockBoth locks the ledgers of two accounts within tx in the order of their ids, which avoids
// deadlocks. The locks hold until tx ends.
func LockBoth(ctx context.Context, l quota.Ledger, tx *sqldb.Tx, a, b drive.AccountID) error {
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	if err := l.Lock(ctx, tx, a); err != nil {
		return err
	}
	return l.Lock(ctx, tx, b)
}

// ShouldRetryLater reports whether err is temporary for an operation: it lacks space, or another
// operation must end first. The caller runs the operation again later.
func ShouldRetryLater(err error) bool {
	return drive.IsKind(err, drive.Quota, drive.TooLarge, drive.InProgress)
}

// handoverStep is the state of one transaction of a handover.
type handoverStep struct {
	handler   *handoverHandler
	tx        *sqldb.Tx
	operation *operation
	args      *handoverArgs
	budget    int  // rows that this transaction may still move
	wrote     bool // at least one row was written
	nodes     int64
	size      drive.ByteSize
}

// step hands over up to a batch of rows, depth first. finished is true when the drive is empty. It
// fails with InProgress if the remaining nodes belong to a running purge or copy.
func (h *handoverHandler) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	s := handoverStep{handler: h, tx: tx, operation: o, args: o.args.Handover, budget: h.batch}
	if err := lock.DeleteAccount(ctx, tx, s.args.From); err != nil {
		return false, err
	}
	for s.budget > 0 && !finished {
		if finished, err = s.visitFolder(ctx); err != nil {
			return false, err
		}
	}
	o.Done += s.nodes
	if err := s.charge(ctx); err != nil {
		return false, err
	}
	o.Error = ""
	return finished, nil
}

// charge moves the bytes that this step has handed over from one ledger to the other, within the
// step's transaction. The receiver's quota may refuse them.
func (s *handoverStep) charge(ctx context.Context) error {
	if err := s.handler.store.ledger.Apply(ctx, s.tx, s.args.To, quota.Move{Finished: s.size}); err != nil {
		return err
	}
	return s.handler.store.ledger.Apply(ctx, s.tx, s.args.From, quota.Move{Finished: -s.size})
}

// visitFolder hands over the next children of the folder on top of the stack: files at once, a
// subfolder by pushing it. finished reports that the whole drive is handed over.
func (s *handoverStep) visitFolder(ctx context.Context) (finished bool, err error) {
	if there, err := s.ensureTarget(ctx); err != nil || !there {
		return false, err
	}
	at := s.args.Stack[len(s.args.Stack)-1]
	kids, err := s.handler.tree.HandoverChildren(ctx, s.tx, at.From, min(s.budget, childrenPerRead))
	if err != nil {
		return false, err
	}
	if len(kids) == 0 {
		return s.finishFolder(ctx, at)
	}
	n := slices.IndexFunc(kids, tree.Node.IsFolder)
	if n < 0 {
		n = len(kids)
	}
	if handed, err := s.handFiles(ctx, at.To, kids[:n]); err != nil || handed < n || n == len(kids) {
		return false, err
	}
	return false, s.createFolder(ctx, at.To, kids[n])
}

// ensureTarget reports whether the target folder on top of the stack is usable. If the receiver
// deleted or trashed it, ensureTarget pops it, so that the next call checks the folder above; at
// the bottom it creates a new top. A trashed target is usable if its source is in the trash, too.
func (s *handoverStep) ensureTarget(ctx context.Context) (bool, error) {
	last := len(s.args.Stack) - 1
	at := s.args.Stack[last]
	live := false
	n, err := s.handler.tree.Find(ctx, s.tx, s.args.To, at.To)
	if err == nil {
		_, live, err = s.handler.tree.PathOf(ctx, s.tx, n.ID)
	}
	if err == nil && !live {
		_, live, err = s.handler.tree.PathOf(ctx, s.tx, at.From)
		live = !live // usable if the source is in the trash, too
	}
	switch {
	case err == nil && live:
		return true, nil
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return false, err
	case last > 0:
		s.args.Stack = s.args.Stack[:last]
		return false, nil
	}
	_, err = s.handler.createTop(ctx, s.tx, s.operation)
	return false, err
}

// handFiles hands over the first of the files, as many as the budget allows, and returns their
// number.
func (s *handoverStep) handFiles(ctx context.Context, to drive.NodeID, all []tree.Node) (int, error) {
	h := tree.Handover{From: s.args.From, To: s.args.To, Folder: to}
	handed, err := s.handler.tree.HandFiles(ctx, s.tx, h, all, s.budget)
	if err != nil {
		return 0, err
	}
	if all = handed.Files; len(all) > 0 {
		s.args.Told = "" // restart the notifications: they did not cover files that arrived meanwhile
	}
	ids := make([]drive.NodeID, len(all))
	same := make([]access.Successor, len(all))
	for i, n := range all {
		ids[i], same[i] = n.ID, access.Successor{Node: n.ID, Heir: n.ID}
	}
	s.wrote = s.wrote || len(all) > 0
	s.nodes += int64(len(all))
	s.size += handed.Size
	s.budget -= len(all) + int(handed.Versions)
	if err := property.HandOver(ctx, s.tx, s.args.To, ids); err != nil {
		return 0, err
	}
	return len(all), s.handler.access.HandOver(ctx, s.tx, s.args.From, s.args.To, s.args.Owner, same...)
}

// createFolder creates the counterpart of folder n below to within the step's transaction, pushes
// it on the stack so that its children follow, and hands over the roles at n.
func (s *handoverStep) createFolder(ctx context.Context, to drive.NodeID, n tree.Node) error {
	h := tree.Handover{From: s.args.From, To: s.args.To, Folder: to}
	made, err := s.handler.tree.HandFolder(ctx, s.tx, h, n)
	if err != nil {
		return err
	}
	s.wrote = true
	s.nodes++
	s.budget--
	s.args.Stack = append(s.args.Stack, frame{From: n.ID, To: made.ID})
	return s.handler.access.HandOver(ctx, s.tx, s.args.From, s.args.To, s.args.Owner, access.Successor{Node: n.ID, Heir: made.ID})
}

// finishFolder deletes an empty source folder and pops it from the stack. At the root, which stays,
// it finishes the handover once the drive is drained; finished reports that. It fails with
// InProgress if nodes are left that cannot move now and this step wrote nothing.
func (s *handoverStep) finishFolder(ctx context.Context, at frame) (finished bool, err error) {
	var left bool
	if at.From == s.args.Root {
		if left, err = s.isDrained(ctx, at.From); err == nil && left {
			return s.finish(ctx)
		}
	} else {
		left, err = s.handler.tree.DeleteEmptyFolder(ctx, s.tx, s.args.From, at.From)
		s.wrote = s.wrote || left
		s.budget--
	}
	switch {
	case err != nil:
		return false, err
	case left:
		s.args.Stack = s.args.Stack[:len(s.args.Stack)-1]
		return false, nil
	case !s.wrote:
		return false, drive.Fail(drive.InProgress)
	}
	s.budget = 0 // commit what was done; the next step tries again
	return false, nil
}

// finish calls Options.OnHandover for a batch of rows and reports whether it was the last. After
// the last batch it closes the drive, so that a request authorized before the user was disabled
// cannot add nodes.
func (s *handoverStep) finish(ctx context.Context) (finished bool, err error) {
	if s.args.Told, err = s.handler.handed(ctx, s.tx, s.args.From, s.args.Told, s.handler.batch); err != nil {
		return false, fmt.Errorf("tell that the files of %v are its own no more: %w", s.args.From, err)
	}
	if s.budget = 0; s.args.Told != "" { // the next step checks again for new nodes
		return false, nil
	}
	return true, s.handler.tree.Close(ctx, s.tx, s.args.From)
}

// isDrained reports whether the drive is empty and has no open uploads, which could still publish
// files.
func (s *handoverStep) isDrained(ctx context.Context, root drive.NodeID) (over bool, err error) {
	if over, err = s.handler.tree.IsEmpty(ctx, s.tx, root); err != nil || !over {
		return false, err
	}
	var open bool
	err = s.tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM uploads WHERE account_id = ? AND state IN ('active', 'parked', 'sealing'))", s.args.From).Scan(&open)
	if err != nil {
		return false, fmt.Errorf("look for open uploads of %v: %w", s.args.From, err)
	}
	return !open, nil
}

// handleFailure returns cause, so that the step is retried. If cause is one that ShouldRetryLater
// recognizes, it first stores its code as the reason why the handover waits.
func (h *handoverHandler) handleFailure(ctx context.Context, o operation, cause error) (operation, error) {
	if !ShouldRetryLater(cause) {
		return o, cause
	}
	err := h.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE operations SET error = ? WHERE id = ? AND state = 'running'", drive.KindOf(cause).String(), o.ID)
		return err
	})
	if err != nil {
		return o, fmt.Errorf("record what operation %v waits for: %w", o.ID, err)
	}
	return o, cause
}
