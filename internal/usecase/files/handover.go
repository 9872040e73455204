package files

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/property"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// handOver is the kind of an operation that gives all that is in a drive to another account: see
// tree.Hand. What is left to do is what is left in the drive, so it may stop anywhere, and what
// comes into the drive meanwhile goes, too. Each transaction moves what it hands over from one
// ledger to the other. Where the receiver has no room for it, nothing moves until there is.
const handOver kind = "handover"

// Handover says whose drive goes where.
type Handover struct {
	From, To drive.AccountID
	Owner    drive.UserID // whose drive it goes into; zero: into a space
	Folder   drive.Name   // that is made for it there; one that is taken gets a number
}

// handArgs are those of the operation, and how far it came.
type handArgs struct {
	Handover

	Root  drive.NodeID `json:"root"` // of the drive that goes
	Stack []frame      `json:"stack"`
	Told  string       `json:"told,omitempty"` // up to which row Options.Handed was told
}

// Handovers give all that is in a drive to somebody else. It is safe for concurrent use.
type Handovers struct {
	*doors
	show *display
	rows *register
	work *handingOver
}

// Begin begins a handover in tx, which has the locks on both ledgers, and returns the operation and
// the folder. The caller starts it after the commit.
func (s *Handovers) Begin(ctx context.Context, tx *sqldb.Tx, who drive.Who, h Handover) (Operation, NodeView, error) {
	none := func(err error) (Operation, NodeView, error) { return Operation{}, NodeView{}, err }
	root, err := s.tree.Root(ctx, tx, h.From)
	if err != nil {
		return none(err)
	}
	o := newOperation(drive.Who{User: who.User, Account: h.From}, handOver, args{Hand: &handArgs{Handover: h, Root: root}})
	top, err := s.work.top(ctx, tx, &o)
	if err != nil {
		return none(err)
	}
	if o.Total, err = s.tree.Population(ctx, tx, h.From); err != nil {
		return none(err)
	}
	view, err := s.show.View(ctx, tx, top)
	if err != nil {
		return none(err)
	}
	return o.Operation, view, s.rows.insert(ctx, tx, o)
}

// Find returns the handover of an account that was begun last, and the folder that it goes to;
// NotFound: there is none, or it ended a week ago.
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
	return o.Operation, o.args.Hand.Handover, o.args.Top, nil
}

// List returns those that run.
func (s *Handovers) List(ctx context.Context, q sqldb.Querier) ([]Handover, error) {
	rows, err := q.Query(ctx, "SELECT args FROM operations WHERE state = 'running' AND kind = ?", handOver)
	all, err := sqldb.Scan(rows, err, func(h *Handover, scan func(...any) error) error {
		var raw string
		if err := scan(&raw); err != nil {
			return err
		}
		var a args
		err := json.Unmarshal([]byte(raw), &a)
		if err == nil && a.Hand != nil {
			*h = a.Hand.Handover
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what is being handed over: %w", err)
	}
	return all, nil
}

// Handed is told, in the transactions in which a handover ends, that the files which other rows of
// an account name are its own no more. It deals with up to limit rows after the key that it
// returned before; empty: there are no more.
type Handed func(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, after string, limit int) (next string, err error)

// handingOver is what the operation of a handover does.
type handingOver struct {
	*doors
	rows   *register
	batch  int
	handed Handed
}

func (w *handingOver) left(ctx context.Context, o operation) (int64, error) {
	return w.tree.Population(ctx, w.db, o.account)
}

// top makes the folder that all goes to, and begins with the root.
func (w *handingOver) top(ctx context.Context, tx *sqldb.Tx, o *operation) (tree.Node, error) {
	h := o.args.Hand
	to, err := w.tree.Root(ctx, tx, h.To)
	if err != nil {
		return tree.Node{}, err
	}
	top, err := w.tree.CreateFolder(ctx, tx, h.To, tree.Place{Parent: to, Name: h.Folder, Conflict: drive.ConflictRename})
	if err != nil {
		return tree.Node{}, err
	}
	o.args.Top, h.Stack = top.ID, []frame{{From: h.Root, To: top.ID}}
	return top, w.access.Hand(ctx, tx, h.From, h.To, h.Owner, access.Succession{Node: h.Root, Heir: top.ID})
}

// LockBoth takes the locks on the ledgers of two accounts, in the order of their ids.
func LockBoth(ctx context.Context, l quota.Ledger, tx *sqldb.Tx, a, b drive.AccountID) error {
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	if err := l.Lock(ctx, tx, a); err != nil {
		return err
	}
	return l.Lock(ctx, tx, b)
}

// Waits reports whether an operation cannot go on because there is no room for what it does, or
// because something else must end first: it is to be run again a little later.
func Waits(err error) bool { return drive.IsKind(err, drive.Quota, drive.TooLarge, drive.InProgress) }

// handing is one transaction's part of a handover.
type handing struct {
	w      *handingOver
	tx     *sqldb.Tx
	o      *operation
	h      *handArgs
	budget int
	worked bool // something was written
	nodes  int64
	size   drive.ByteSize
}

// step hands over up to a batch of rows, depth first. Finished is when nothing is left in the
// drive. InProgress: what is left is being purged or copied, and goes when that has ended.
func (w *handingOver) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	s := handing{w: w, tx: tx, o: o, h: o.args.Hand, budget: w.batch}
	if err := lock.Forget(ctx, tx, s.h.From); err != nil {
		return false, err
	}
	for s.budget > 0 && !finished {
		if finished, err = s.folder(ctx); err != nil {
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

// charge moves what was handed over from one ledger to the other.
func (s *handing) charge(ctx context.Context) error {
	if err := s.w.rows.ledger.Apply(ctx, s.tx, s.h.To, quota.Move{Finished: s.size}); err != nil {
		return err
	}
	return s.w.rows.ledger.Apply(ctx, s.tx, s.h.From, quota.Move{Finished: -s.size})
}

// folder goes on in the folder on top of the stack.
func (s *handing) folder(ctx context.Context) (finished bool, err error) {
	if there, err := s.landing(ctx); err != nil || !there {
		return false, err
	}
	at := s.h.Stack[len(s.h.Stack)-1]
	kids, err := s.w.tree.Inhabitants(ctx, s.tx, at.From, min(s.budget, copyAhead))
	if err != nil {
		return false, err
	}
	if len(kids) == 0 {
		return s.leave(ctx, at)
	}
	n := slices.IndexFunc(kids, tree.Node.IsFolder)
	if n < 0 {
		n = len(kids)
	}
	if handed, err := s.handFiles(ctx, at.To, kids[:n]); err != nil || handed < n || n == len(kids) {
		return false, err
	}
	return false, s.enter(ctx, at.To, kids[n])
}

// landing makes sure that the folder that things go to is there. The receiver may have deleted it,
// or put it into the trash: then the one above it is asked, and in the end another one is made.
// What lies in the trash goes to the trash.
func (s *handing) landing(ctx context.Context) (bool, error) {
	last := len(s.h.Stack) - 1
	at := s.h.Stack[last]
	live := false
	n, err := s.w.tree.Find(ctx, s.tx, s.h.To, at.To)
	if err == nil {
		_, live, err = s.w.tree.PathOf(ctx, s.tx, n.ID)
	}
	if err == nil && !live {
		_, live, err = s.w.tree.PathOf(ctx, s.tx, at.From)
		live = !live // where it comes from lies in the trash, too
	}
	switch {
	case err == nil && live:
		return true, nil
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return false, err
	case last > 0:
		s.h.Stack = s.h.Stack[:last]
		return false, nil
	}
	_, err = s.w.top(ctx, s.tx, s.o)
	return false, err
}

// handFiles gives the first of some files, as many as the budget is for, and reports how many that
// are.
func (s *handing) handFiles(ctx context.Context, to drive.NodeID, all []tree.Node) (int, error) {
	h := tree.Hand{From: s.h.From, To: s.h.To, Folder: to}
	handed, err := s.w.tree.HandFiles(ctx, s.tx, h, all, s.budget)
	if err != nil {
		return 0, err
	}
	if all = handed.Files; len(all) > 0 {
		s.h.Told = "" // what has come while it was told has rows that were told already
	}
	ids := make([]drive.NodeID, len(all))
	same := make([]access.Succession, len(all))
	for i, n := range all {
		ids[i], same[i] = n.ID, access.Succession{Node: n.ID, Heir: n.ID}
	}
	s.worked = s.worked || len(all) > 0
	s.nodes += int64(len(all))
	s.size += handed.Size
	s.budget -= len(all) + int(handed.Versions)
	if err := property.Hand(ctx, s.tx, s.h.To, ids); err != nil {
		return 0, err
	}
	return len(all), s.w.access.Hand(ctx, s.tx, s.h.From, s.h.To, s.h.Owner, same...)
}

// enter makes the folder that takes the place of one, and goes on in it.
func (s *handing) enter(ctx context.Context, to drive.NodeID, n tree.Node) error {
	h := tree.Hand{From: s.h.From, To: s.h.To, Folder: to}
	made, err := s.w.tree.HandFolder(ctx, s.tx, h, n)
	if err != nil {
		return err
	}
	s.worked = true
	s.nodes++
	s.budget--
	s.h.Stack = append(s.h.Stack, frame{From: n.ID, To: made.ID})
	return s.w.access.Hand(ctx, s.tx, s.h.From, s.h.To, s.h.Owner, access.Succession{Node: n.ID, Heir: made.ID})
}

// leave deletes a folder in which nothing is left. The root stays.
func (s *handing) leave(ctx context.Context, at frame) (finished bool, err error) {
	var left bool
	if at.From == s.h.Root {
		if left, err = s.isOver(ctx, at.From); err == nil && left {
			return s.end(ctx)
		}
	} else {
		left, err = s.w.tree.LeaveFolder(ctx, s.tx, s.h.From, at.From)
		s.worked = s.worked || left
		s.budget--
	}
	switch {
	case err != nil:
		return false, err
	case left:
		s.h.Stack = s.h.Stack[:len(s.h.Stack)-1]
		return false, nil
	case !s.worked:
		return false, drive.Fail(drive.InProgress)
	}
	s.budget = 0 // what was done is kept, and the next step looks again
	return false, nil
}

// end tells whoever names files of the account, some hundred rows a transaction, and then closes
// the drive: a request that was let in before the user was disabled, and whose body has been on its
// way ever since, puts nothing there.
func (s *handing) end(ctx context.Context) (finished bool, err error) {
	if s.h.Told, err = s.w.handed(ctx, s.tx, s.h.From, s.h.Told, s.w.batch); err != nil {
		return false, fmt.Errorf("tell that the files of %v are its own no more: %w", s.h.From, err)
	}
	if s.budget = 0; s.h.Told != "" { // the next step looks again whether anything has come
		return false, nil
	}
	return true, s.w.tree.Close(ctx, s.tx, s.h.From)
}

// isOver reports whether nothing is left in a drive, and nothing is on its way into it: what is
// being sealed comes, whoever began it.
func (s *handing) isOver(ctx context.Context, root drive.NodeID) (over bool, err error) {
	if over, err = s.w.tree.IsEmpty(ctx, s.tx, root); err != nil || !over {
		return false, err
	}
	var open bool
	err = s.tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM uploads WHERE account_id = ? AND state IN ('active', 'parked', 'sealing'))", s.h.From).Scan(&open)
	if err != nil {
		return false, fmt.Errorf("look for open uploads of %v: %w", s.h.From, err)
	}
	return !open, nil
}

// failed puts down why a handover cannot go on now.
func (w *handingOver) failed(ctx context.Context, o operation, cause error) (operation, error) {
	if !Waits(cause) {
		return o, cause
	}
	err := w.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE operations SET error = ? WHERE id = ? AND state = 'running'", drive.KindOf(cause).String(), o.ID)
		return err
	})
	if err != nil {
		return o, fmt.Errorf("note what operation %v waits for: %w", o.ID, err)
	}
	return o, cause
}
