package upload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/combine"
)

// committer makes stored files visible. Concurrent files of one account share a transaction,
// because each needs the account's ledger row (decision 13) and would otherwise wait for the
// commits of the others. Files queue by account, and the first caller commits for all that wait
// (package combine). The transaction handles files in two ways:
//
//	together   new files that all fit into the quota: a dozen statements for any number of files
//	alone      the others one by one in order of arrival, each in a savepoint: replaces, taken names,
//	           and all files if their sum exceeds the quota, so that a large file does not cause a small
//	           one to be refused
//
// The result of a file may depend on files before it. So results count only after the commit; if it
// fails, all files fail.
type committer struct {
	Dependencies
	auth           *authorizer
	checkAlive     func(ctx context.Context, tx *sqldb.Tx) error               // see Options.CheckInstance
	releaseDropped func(context.Context, *sqldb.Tx, Row, tree.PutResult) error // releases the versions that a replace dropped
	queue          *combine.Queue[drive.AccountID, *pendingFile]
	syncWait       time.Duration // see syncWait; tests change it
}

// maxTogether is the most files per transaction: about 20 ms of SQLite's writer, and of the lock on
// an account.
const maxTogether = 64

// groupWait is the longest wait for further files that are likely to arrive (decision 163).
const groupWait = 10 * time.Millisecond

// newCommitter returns a committer over the given services. g becomes its auth, hold its checkAlive
// and drop its releaseDropped.
func newCommitter(parts Dependencies, g *authorizer, hold func(context.Context, *sqldb.Tx) error, drop func(context.Context, *sqldb.Tx, Row, tree.PutResult) error) *committer {
	c := &committer{Dependencies: parts, auth: g, checkAlive: hold, releaseDropped: drop, syncWait: syncWait}
	c.queue = combine.New(maxTogether, groupWait, c.commitGroup)
	return c
}

// pendingFile is a stored file to be published, and the result of publishing it.
type pendingFile struct {
	begin     Begin // its Path and Parents are used
	who       drive.Who
	row       Row // describes the file; never inserted
	content   content.NewContent
	needsSync bool            // content is not durable yet: committer.write syncs it
	quick     bool            // the target was not looked up: a replace replaces any version
	condition Condition       // checked within the transaction; nil: none
	version   drive.VersionID // id of the new version

	hasResult bool // the result is known: placed or failed
	placed    tree.PutResult
	failed    error
}

// finish sets the file's result: err, or success if nil. A later call overrides it.
func (p *pendingFile) finish(err error) { p.hasResult, p.failed = true, err }

// err returns why the file was refused, nil if it was published, or Unavailable while the result is
// unknown.
func (p *pendingFile) err() error {
	if !p.hasResult {
		return drive.Fail(drive.Unavailable)
	}
	return p.failed
}

// verify returns DigestMismatch if the received content does not have the digests that the client
// declared.
func (p *pendingFile) verify() error {
	return p.row.Digests.Check(p.computed())
}

// stored returns the result of a published file. Its Digests are nil if the account's new version
// refers to content that was stored before.
func (p *pendingFile) stored() Stored {
	s := Stored{Node: p.placed.Node, Created: p.placed.Created}
	if s.Node.Blob == p.content.ID {
		s.Digests = p.computed()
	}
	return s
}

// computed returns the digests computed while the content was received.
func (p *pendingFile) computed() digest.Set {
	all := digest.Set{digest.Blake3: p.content.Sum[:]}
	maps.Copy(all, p.content.Aliases)
	return all
}

// mayBeNew reports whether the file may be put together with others: it has no condition and
// replaces no known version.
func (p *pendingFile) mayBeNew() bool { return p.condition == nil && (p.quick || p.row.Base.IsZero()) }

// file describes the file for the tree, with the given content.
func (p *pendingFile) file(blob drive.BlobID) tree.File {
	f := p.row.file(blob)
	f.Version, f.Who = p.version, p.who
	return f
}

// commit publishes files of one account and returns when each has a result.
func (c *committer) commit(ctx context.Context, all []*pendingFile) {
	if len(all) > 0 {
		c.queue.Do(ctx, all[0].row.Account, all...)
	}
}

// commitGroup puts the files of one account in one transaction, or one by one if that conflicts
// with others. It gives each file a result, even on panic; the waiting requests read the result
// from the file.
func (c *committer) commitGroup(ctx context.Context, account drive.AccountID, all []*pendingFile) {
	defer func() {
		if r := recover(); r != nil {
			endRest(all, panicked(r))
		}
	}()
	if len(all) > 1 && !sqldb.IsContended(c.commitMany(ctx, account, all)) {
		return
	}
	for _, a := range all { // one file needs no savepoint, and a contended group may succeed one by one
		_ = c.write(ctx, []*pendingFile{a}, func(ctx context.Context, tx *sqldb.Tx) error {
			err := c.putAlone(ctx, tx, a)
			a.finish(err)
			return err
		})
	}
}

// commitMany commits several files. New files are put together without a savepoint: a refusal is
// rare and costs one rolled-back transaction instead of two round trips per group.
func (c *committer) commitMany(ctx context.Context, account drive.AccountID, all []*pendingFile) error {
	var refused error
	err := c.write(ctx, all, func(ctx context.Context, tx *sqldb.Tx) error {
		var rest []*pendingFile
		if rest, refused = c.putTogether(ctx, tx, account, all); refused != nil {
			return refused
		}
		return c.putEach(ctx, tx, rest)
	})
	if refused == nil || err == nil || sqldb.IsContended(err) || sqldb.MaybeWritten(err) {
		return err
	}
	// Usually the quota refused the sum; one by one, each file gets its own result.
	return c.write(ctx, all, func(ctx context.Context, tx *sqldb.Tx) error { return c.putEach(ctx, tx, all) })
}

// endRest gives Unavailable, with cause, to files without a result after a panic.
func endRest(all []*pendingFile, cause error) {
	for _, a := range all {
		if !a.hasResult {
			a.finish(drive.Wrap(cause, drive.Unavailable))
		}
	}
}

// write runs a transaction about files. If it fails, all files fail with its error. If the COMMIT
// got no reply but one of the new versions exists, it was committed, and each file keeps its
// result.
func (c *committer) write(ctx context.Context, all []*pendingFile, fn func(context.Context, *sqldb.Tx) error) error {
	err := c.begin(ctx, c.startSync(ctx, all), all, fn)
	if err == nil || sqldb.MaybeWritten(err) && c.committed(ctx, all) {
		return nil
	}
	for _, a := range all {
		a.finish(err)
	}
	return err
}

// begin inspects stored contents with the same digests while the new ones become durable, then runs
// fn in a transaction that commits once they are durable. A panic becomes an error in doubt; only
// one in fn itself is known to have written nothing.
func (c *committer) begin(ctx context.Context, s *pendingSync, all []*pendingFile, fn func(context.Context, *sqldb.Tx) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = drive.Wrap(errors.Join(sqldb.ErrInDoubt, panicked(r)), drive.Unavailable)
		}
	}()
	defer s.wait() //nolint:errcheck // only ends the sync: it must not run beside what follows
	if err := c.inspectAll(ctx, all); err != nil {
		return err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return s.waitFor(c.syncWait)
	})
	if !errors.Is(err, errSyncPending) {
		return err
	}
	if err := s.wait(); err != nil {
		return err
	}
	return c.DB.Write(ctx, fn)
}

// inspectAll checks the bytes of stored contents that have the same digests as the given files. If
// such bytes are missing or damaged, it marks the file's content (Unsound), so that the new bytes
// replace them. It may read whole contents and must be called outside of transactions.
func (p Dependencies) inspectAll(ctx context.Context, all []*pendingFile) error {
	contents := make([]*content.NewContent, len(all))
	for i, a := range all {
		contents[i] = &a.content
	}
	return p.inspect.Prepare(ctx, contents...)
}

// panicked converts r, the non-nil value that recover returned, to an error with the stack of the
// calling goroutine.
func panicked(r any) error {
	return fmt.Errorf("panic while files were committed: %v\n%s", r, debug.Stack())
}

// committed reports whether a new version of one of the files exists. false proves nothing: the
// server may still be committing.
func (c *committer) committed(ctx context.Context, all []*pendingFile) bool {
	ids := make([]drive.VersionID, len(all))
	for i, a := range all {
		ids[i] = a.version
	}
	marks, args := sqldb.ListArgs(ids)
	rows, err := c.DB.Query(ctx, "SELECT id FROM versions WHERE id IN ("+marks+") LIMIT 1", args...)
	found, err := sqldb.Scan(rows, err, func(id *drive.VersionID, scan func(...any) error) error { return scan(id) })
	return err == nil && len(found) > 0
}

// putAll puts several files within tx and gives each refused file its error. Its own error means
// that tx must be rolled back; the results hold only once tx commits.
func (c *committer) putAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, all []*pendingFile) error {
	rest := all
	failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		rest, err = c.putTogether(ctx, tx, account, all)
		return err
	})
	if err != nil {
		return err
	}
	if failed != nil { // usually the quota refused the sum; one by one, each file gets its own result
		rest = all
	}
	return c.putEach(ctx, tx, rest)
}

// putEach puts files one by one within tx, each in a savepoint, and gives each its own result. Its
// own error means that tx must be rolled back.
func (c *committer) putEach(ctx context.Context, tx *sqldb.Tx, all []*pendingFile) error {
	for _, a := range all {
		failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return c.putAlone(ctx, tx, a) })
		if err != nil {
			return err
		}
		a.finish(failed)
	}
	return nil
}

// putTogether puts the new files and returns the others. It first moves the sum of all sizes in the
// ledger, which locks the ledger row. Folders that it creates belong to the first file's caller; a
// file of another caller that may need a folder is returned.
func (c *committer) putTogether(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, all []*pendingFile) (rest []*pendingFile, err error) {
	first := all[0].who
	tx.SetActor(first)
	if err := c.Ledger.Apply(ctx, tx, account, quota.Move{Finished: sumOf(all)}); err != nil {
		return nil, err
	}
	if err := c.checkAlive(ctx, tx); err != nil {
		return nil, err
	}
	wanted := make([]tree.BatchFile, len(all))
	for i, a := range all {
		wanted[i] = tree.BatchFile{Path: a.begin.Path, Parents: a.begin.Parents, Conflict: a.row.Conflict, Separate: !a.mayBeNew() || a.begin.Parents && a.who != first}
	}
	targets, err := tree.NewFileBatch{Tree: c.Tree, Account: account}.ResolveTargets(ctx, tx, wanted)
	if err != nil {
		return nil, err
	}
	var fresh []*pendingFile
	var at []tree.Target
	for i, a := range all {
		if targets[i].Folder.IsZero() {
			rest = append(rest, a)
			continue
		}
		fresh, at = append(fresh, a), append(at, targets[i])
	}
	if len(rest) > 0 { // putEach moves the ledger for each of them
		if err := c.Ledger.Apply(ctx, tx, account, quota.Move{Finished: -sumOf(rest)}); err != nil {
			return nil, err
		}
	}
	if err := c.auth.mayPutAll(ctx, tx, fresh, at); err != nil { // one by one, each file gets its own answer
		return nil, err
	}
	return rest, c.putNew(ctx, tx, account, fresh, at)
}

// sumOf returns the total size of the files.
func sumOf(all []*pendingFile) (sum drive.ByteSize) {
	for _, a := range all {
		sum += a.row.Size
	}
	return sum
}

// putNew attaches, within tx, the contents of new files and puts the files at the targets at, in
// the same order. It sets a.placed of each. On an error the caller must roll back.
func (c *committer) putNew(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, fresh []*pendingFile, at []tree.Target) error {
	if len(fresh) == 0 {
		return nil
	}
	contents := make([]content.NewContent, len(fresh))
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
	placed, err := tree.NewFileBatch{Tree: c.Tree, Account: account}.Put(ctx, tx, at, files)
	if err != nil {
		return fmt.Errorf("put %d files: %w", len(files), err)
	}
	for i, a := range fresh {
		a.placed = placed[i]
		a.finish(nil)
	}
	return nil
}

// putAlone charges one file to its account, checks rights, the request's condition and the
// instance, and puts the file into the tree, whether new or as a version of an existing one. It
// sets a.placed, which holds only if the caller commits tx. On an error the caller must roll tx
// back.
func (c *committer) putAlone(ctx context.Context, tx *sqldb.Tx, a *pendingFile) error {
	account := a.row.Account
	tx.SetActor(a.who)
	if err := c.Ledger.Apply(ctx, tx, account, quota.Move{Finished: a.row.Size}); err != nil {
		return err
	}
	at, err := c.Tree.ResolveTarget(ctx, tx, account, a.begin.Path, a.begin.Parents)
	if err == nil {
		err = c.auth.mayPut(ctx, tx, a.row, at)
	}
	if err == nil {
		err = a.condition.holds(ctx, tx, at)
	}
	if err != nil {
		return err
	}
	if err := c.checkAlive(ctx, tx); err != nil {
		return err
	}
	id, _, err := c.Content.Attach(ctx, tx, a.content)
	if err != nil {
		return err
	}
	row := a.row
	if a.quick { // no client has seen another version
		row.Base = at.Existing.Version
	}
	f := a.file(id)
	f.Base = row.Base
	placed, err := c.Tree.PutFileAt(ctx, tx, account, at, f)
	if err != nil {
		return err
	}
	a.placed = placed
	return c.releaseDropped(ctx, tx, row, placed)
}
