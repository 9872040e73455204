package upload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/combine"
)

// committer makes stored files visible, those of one account that come at the same time in one
// transaction. Each of them has the ledger's row of the account in its way (decision 13): one after
// the other, they would wait for as many commits. So they queue up by account, and whoever is first
// commits for all that wait (package combine). In the transaction
//
//	together   those that are new, and all fit into the quota by their sum: a dozen statements,
//	           however many they are
//	alone      the others, one after the other in the order in which they came, each in a savepoint:
//	           replaced files, names that are taken, and all of them if the sum does not fit, so that
//	           a small file is not refused because of a large neighbour
//
// What each one comes to may follow from what those before it have written. So it counts only once
// the transaction is committed, and if that fails all fail, whatever they had concluded.
type committer struct {
	Parts
	gate  *gate
	hold  func(ctx context.Context, tx *sqldb.Tx) error            // see Options
	drop  func(context.Context, *sqldb.Tx, Row, tree.Placed) error // releases the versions that a replace drops
	queue *combine.Queue[drive.AccountID, *arrival]
	late  time.Duration // see lateAfter
}

// maxTogether is how many files one transaction makes visible at most: some 20 ms of SQLite's
// writer, and of the lock on an account.
const maxTogether = 64

// patience is how long files wait for others that are likely to come, at most (decision 163).
const patience = 10 * time.Millisecond

func newCommitter(parts Parts, g *gate, hold func(context.Context, *sqldb.Tx) error, drop func(context.Context, *sqldb.Tx, Row, tree.Placed) error) *committer {
	c := &committer{Parts: parts, gate: g, hold: hold, drop: drop, late: lateAfter}
	c.queue = combine.New(maxTogether, patience, c.commitGroup)
	return c
}

// arrival is a file whose content is in the store, and what came of it.
type arrival struct {
	begin   Begin // its path, and whether folders may be made
	who     drive.Who
	row     Row // never written: what the file shall be
	content content.New
	laid    bool            // its content is not durable yet: write makes it so
	quick   bool            // nothing was looked up before: a replace acts on what is there
	may     Condition       // asked within the transaction; nil: nothing is asked
	version drive.VersionID // that it becomes

	ended  bool // placed and failed say what came of it
	placed tree.Placed
	failed error
}

// end notes what came of the file; what comes later counts instead.
func (a *arrival) end(err error) { a.ended, a.failed = true, err }

// err is why the file is not there; nil: it is. Unavailable as long as nobody knows.
func (a *arrival) err() error {
	if !a.ended {
		return drive.Fail(drive.Unavailable)
	}
	return a.failed
}

// verify compares what has arrived with the digests that were declared.
func (a *arrival) verify() error {
	return a.row.Digests.Check(a.computed())
}

// stored is what a file that was placed has become. Of content that is new everything is known.
func (a *arrival) stored() Stored {
	s := Stored{Node: a.placed.Node, Created: a.placed.Created}
	if s.Node.Blob == a.content.ID {
		s.Digests = a.computed()
	}
	return s
}

// computed are the digests of what has arrived.
func (a *arrival) computed() digest.Set {
	all := digest.Set{digest.Blake3: a.content.Sum[:]}
	maps.Copy(all, a.content.Aliases)
	return all
}

// mayBeNew reports whether nothing speaks against it: a replace of what the client has seen is not
// new.
func (a *arrival) mayBeNew() bool { return a.may == nil && (a.quick || a.row.Base.IsZero()) }

func (a *arrival) file(blob drive.BlobID) tree.File {
	f := a.row.file(blob)
	f.Version, f.Who = a.version, a.who
	return f
}

// commit returns when each of the files, all of one account, has its outcome.
func (c *committer) commit(ctx context.Context, all []*arrival) {
	if len(all) > 0 {
		c.queue.Do(ctx, all[0].row.Account, all...)
	}
}

// commitGroup gives each file of a group its outcome, also when it panics.
func (c *committer) commitGroup(ctx context.Context, account drive.AccountID, all []*arrival) {
	defer func() {
		if r := recover(); r != nil {
			endRest(all, panicked(r))
		}
	}()
	if len(all) > 1 && !sqldb.IsContended(c.commitMany(ctx, account, all)) {
		return
	}
	for _, a := range all { // a lone one needs no savepoint, and one that others are in the way of may get through alone
		_ = c.write(ctx, []*arrival{a}, func(ctx context.Context, tx *sqldb.Tx) error {
			err := c.putAlone(ctx, tx, a)
			a.end(err)
			return err
		})
	}
}

// commitMany commits several files. Those that go together do so without a savepoint: what refuses
// them is rare, and costs a transaction that is rolled back instead of two round trips for each
// group.
func (c *committer) commitMany(ctx context.Context, account drive.AccountID, all []*arrival) error {
	var refused error
	err := c.write(ctx, all, func(ctx context.Context, tx *sqldb.Tx) error {
		var rest []*arrival
		if rest, refused = c.putTogether(ctx, tx, account, all); refused != nil {
			return refused
		}
		return c.putEach(ctx, tx, rest)
	})
	if refused == nil || err == nil || sqldb.IsContended(err) || sqldb.MaybeWritten(err) {
		return err
	}
	// The quota, as a rule; alone each learns its own reason.
	return c.write(ctx, all, func(ctx context.Context, tx *sqldb.Tx) error { return c.putEach(ctx, tx, all) })
}

// endRest gives those an outcome that have none, because of a panic: nobody knows it.
func endRest(all []*arrival, cause error) {
	for _, a := range all {
		if !a.ended {
			a.end(drive.Wrap(cause, drive.Unavailable))
		}
	}
}

// write runs a transaction about files. If it fails, all of them have failed. If its COMMIT was not
// answered and one of their versions is there, it was committed, and each keeps its outcome.
func (c *committer) write(ctx context.Context, all []*arrival, fn func(context.Context, *sqldb.Tx) error) error {
	err := c.begin(ctx, c.settle(ctx, all), all, fn)
	if err == nil || sqldb.MaybeWritten(err) && c.committed(ctx, all) {
		return nil
	}
	for _, a := range all {
		a.end(err)
	}
	return err
}

// begin inspects stored contents with the same digests while the new ones settle, and then is
// DB.Write, which commits when the contents are settled, and whose panic is an error: one in fn is
// known to have written nothing, after any other one nobody knows.
func (c *committer) begin(ctx context.Context, s *settling, all []*arrival, fn func(context.Context, *sqldb.Tx) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = drive.Wrap(errors.Join(sqldb.ErrInDoubt, panicked(r)), drive.Unavailable)
		}
	}()
	defer s.wait() //nolint:errcheck // whatever has failed: it must not go on beside what comes next
	if err := c.inspectAll(ctx, all); err != nil {
		return err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return s.inTime(c.late)
	})
	if !errors.Is(err, errLate) {
		return err
	}
	if err := s.wait(); err != nil {
		return err
	}
	return c.DB.Write(ctx, fn)
}

// inspectAll looks at stored contents with the digests of those that have come: see
// content.Inspector.
func (p Parts) inspectAll(ctx context.Context, all []*arrival) error {
	contents := make([]*content.New, len(all))
	for i, a := range all {
		contents[i] = &a.content
	}
	return p.inspect.Prepare(ctx, contents...)
}

func panicked(r any) error {
	return fmt.Errorf("panic while files were committed: %v\n%s", r, debug.Stack())
}

// committed reports whether a version of one of the files is there. If not, it may still come: the
// server may be at its COMMIT.
func (c *committer) committed(ctx context.Context, all []*arrival) bool {
	ids := make([]drive.VersionID, len(all))
	for i, a := range all {
		ids[i] = a.version
	}
	marks, args := sqldb.In(ids)
	rows, err := c.DB.Query(ctx, "SELECT id FROM versions WHERE id IN ("+marks+") LIMIT 1", args...)
	found, err := sqldb.Scan(rows, err, func(id *drive.VersionID, scan func(...any) error) error { return scan(id) })
	return err == nil && len(found) > 0
}

// putAll puts several files within somebody else's transaction, which goes on when some are
// refused.
func (c *committer) putAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, all []*arrival) error {
	rest := all
	failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		rest, err = c.putTogether(ctx, tx, account, all)
		return err
	})
	if err != nil {
		return err
	}
	if failed != nil { // the quota, as a rule; alone each learns its own reason
		rest = all
	}
	return c.putEach(ctx, tx, rest)
}

// putEach puts files one after the other, each of which succeeds or fails alone.
func (c *committer) putEach(ctx context.Context, tx *sqldb.Tx, all []*arrival) error {
	for _, a := range all {
		failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return c.putAlone(ctx, tx, a) })
		if err != nil {
			return err
		}
		a.end(failed)
	}
	return nil
}

// putTogether puts those of the files that are new and returns the others. Folders that it makes
// are the first caller's: another caller's file that may need one is among the others. Its first
// statement locks the ledger, and moves the sum of all.
func (c *committer) putTogether(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, all []*arrival) (rest []*arrival, err error) {
	first := all[0].who
	tx.ActFor(first)
	if err := c.Ledger.Apply(ctx, tx, account, quota.Move{Finished: sumOf(all)}); err != nil {
		return nil, err
	}
	if err := c.hold(ctx, tx); err != nil {
		return nil, err
	}
	wanted := make([]tree.Wanted, len(all))
	for i, a := range all {
		wanted[i] = tree.Wanted{Path: a.begin.Path, Parents: a.begin.Parents, Conflict: a.row.Conflict, Apart: !a.mayBeNew() || a.begin.Parents && a.who != first}
	}
	targets, err := tree.Newcomers{Tree: c.Tree, Account: account}.Aim(ctx, tx, wanted)
	if err != nil {
		return nil, err
	}
	var fresh []*arrival
	var at []tree.Target
	for i, a := range all {
		if targets[i].Folder.IsZero() {
			rest = append(rest, a)
			continue
		}
		fresh, at = append(fresh, a), append(at, targets[i])
	}
	if len(rest) > 0 { // each of them moves its own
		if err := c.Ledger.Apply(ctx, tx, account, quota.Move{Finished: -sumOf(rest)}); err != nil {
			return nil, err
		}
	}
	if err := c.gate.mayPutAll(ctx, tx, fresh, at); err != nil { // alone each learns its own answer
		return nil, err
	}
	return rest, c.putNew(ctx, tx, account, fresh, at)
}

func sumOf(all []*arrival) (sum drive.ByteSize) {
	for _, a := range all {
		sum += a.row.Size
	}
	return sum
}

func (c *committer) putNew(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, fresh []*arrival, at []tree.Target) error {
	if len(fresh) == 0 {
		return nil
	}
	contents := make([]content.New, len(fresh))
	for i, a := range fresh {
		contents[i] = a.content
	}
	blobs, err := c.Content.AttachAll(ctx, tx, contents)
	if err != nil {
		return err
	}
	files := make([]tree.File, len(fresh))
	for i, a := range fresh {
		files[i] = a.file(blobs[i])
	}
	placed, err := tree.Newcomers{Tree: c.Tree, Account: account}.Put(ctx, tx, at, files)
	if err != nil {
		return fmt.Errorf("put %d files: %w", len(files), err)
	}
	for i, a := range fresh {
		a.placed = placed[i]
		a.end(nil)
	}
	return nil
}

// putAlone puts one file, whatever is there.
func (c *committer) putAlone(ctx context.Context, tx *sqldb.Tx, a *arrival) error {
	account := a.row.Account
	tx.ActFor(a.who)
	if err := c.Ledger.Apply(ctx, tx, account, quota.Move{Finished: a.row.Size}); err != nil {
		return err
	}
	at, err := c.Tree.Aim(ctx, tx, account, a.begin.Path, a.begin.Parents)
	if err == nil {
		err = c.gate.mayPut(ctx, tx, a.row, at)
	}
	if err == nil {
		err = a.may.holds(ctx, tx, at)
	}
	if err != nil {
		return err
	}
	if err := c.hold(ctx, tx); err != nil {
		return err
	}
	id, _, err := c.Content.Attach(ctx, tx, a.content)
	if err != nil {
		return err
	}
	row := a.row
	if a.quick { // nobody has seen another version
		row.Base = at.There.Version
	}
	f := a.file(id)
	f.Base = row.Base
	placed, err := c.Tree.PutFileAt(ctx, tx, account, at, f)
	if err != nil {
		return err
	}
	a.placed = placed
	return c.drop(ctx, tx, row, placed)
}
