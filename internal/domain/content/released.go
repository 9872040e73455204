package content

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// Files whose time has come are deleted by any number of processes. Each claims some, deletes them,
// and forgets their rows:
//
//	claim    one transaction: the oldest rows that are due, which are not due again before hold has passed
//	delete   at the store, outside of any transaction
//	forget   one transaction: the rows of what is gone, and what was owed for them
//	defer    one transaction: rows of what stays because it lies in a pack that is not worth rewriting yet; nothing is owed for
//	         them any more, and they are claimed with the next one of their pack
//
//	dies ...                        and then
//	after the claim                 it is due again after hold
//	after the deletion              so it is, too: what is gone already is deleted again, without harm
//	after the forgetting, no reply  nothing is left; a second one finds no rows and gives nothing back
//
// A claim is no more than a later time in released_at: two who hold the same file, because the
// first one has taken longer than hold, delete it twice.

// Released is a file that no row needs any more.
type Released struct {
	File string
	Size drive.ByteSize
	At   drive.Time // when it was released; once it was claimed: that of the claim plus hold less grace
}

// ReleaseFile records that a stored file belongs to nobody, so that it may be deleted and its
// presence is explained.
func (c Content) ReleaseFile(ctx context.Context, tx *sqldb.Tx, file string, size drive.ByteSize) error {
	return c.release(ctx, tx, drive.AccountID{}, file, size)
}

// release writes that a file is to be deleted, and until then owed by the account; zero: by nobody.
func (c Content) release(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, file string, size drive.ByteSize) error {
	fresh, err := tx.InsertNew(ctx, `INSERT INTO released (file, size, released_at) VALUES (?, ?, ?)`, file, size, c.now())
	if err != nil {
		return fmt.Errorf("release file %s: %w", file, err)
	}
	if !fresh {
		return nil
	}
	return c.owe(ctx, tx, account, file, size)
}

// NextReleased returns after how long the next released file is due, zero or less: it is; ok is
// false when none waits.
func (c Content) NextReleased(ctx context.Context, q sqldb.Querier, grace time.Duration) (in time.Duration, ok bool, err error) {
	var oldest *drive.Time
	if err := q.QueryRow(ctx, `SELECT MIN(released_at) FROM released`).Scan(&oldest); err != nil {
		return 0, false, fmt.Errorf("look for the next released file: %w", err)
	}
	if oldest == nil {
		return 0, false, nil
	}
	return oldest.Add(grace).Sub(c.now()), true, nil
}

// Claim says which released files somebody takes to delete them.
type Claim struct {
	Grace time.Duration // since they were released
	Hold  time.Duration // for which nobody else gets them
	Limit int           // how many at most that are due
	// Together says that those that lie with one that is due are claimed with it, if they are due
	// or were deferred.
	Together bool
}

// mates bounds how many more than Limit a claim has that is Together.
const mates = 3

// ClaimReleased takes the oldest files that are due, passing over those that somebody else is
// taking just now. A file that a blob names is in use, whatever its released row says: it is not
// among them, its row goes, and used names it.
func (c Content) ClaimReleased(ctx context.Context, tx *sqldb.Tx, claim Claim) (files []Released, used []string, err error) {
	if files, err = c.lockDue(ctx, tx, claim); err != nil {
		return nil, nil, fmt.Errorf("look for released files: %w", err)
	}
	if len(files) == 0 {
		return nil, nil, nil
	}
	if claim.Together {
		if files, err = c.withMates(ctx, tx, files, claim, mates*claim.Limit); err != nil {
			return nil, nil, fmt.Errorf("look for released files of the same packs: %w", err)
		}
	}
	names := make([]string, len(files))
	for i, r := range files {
		names[i] = r.File
	}
	if used, err = c.namedByBlobs(ctx, tx, names); err != nil {
		return nil, nil, err
	}
	if len(used) > 0 {
		if err := c.Forget(ctx, tx, used); err != nil {
			return nil, nil, err
		}
		files = slices.DeleteFunc(files, func(r Released) bool { return slices.Contains(used, r.File) })
	}
	again := c.now().Add(claim.Hold - claim.Grace)
	if _, err := tx.Exec(ctx, `UPDATE released SET released_at = ?`+whereFile(len(names)), append([]any{again}, args(names)...)...); err != nil {
		return nil, nil, fmt.Errorf("claim %d released files: %w", len(names), err)
	}
	for i := range files {
		files[i].At = again
	}
	return files, used, nil
}

// claimers is how many may look at the same moment and find something each.
const claimers = 4

// lockDue returns due files whose rows nobody else has. It looks without locking, and then locks
// some by their keys: a look that locks has all that it looks at, and others would find nothing.
func (c Content) lockDue(ctx context.Context, tx *sqldb.Tx, claim Claim) ([]Released, error) {
	due := c.now().Add(-claim.Grace)
	rows, err := tx.Query(ctx, `SELECT file FROM released WHERE released_at <= ? ORDER BY released_at LIMIT ?`, due, claimers*claim.Limit)
	names, err := sqldb.Scan(rows, err, scanName)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(names, claim.Limit) {
		rows, err := tx.Query(ctx, `SELECT file, size, released_at FROM released`+whereFile(len(some))+` AND released_at <= ? ORDER BY file`+skipLocked(tx),
			append(args(some), due)...)
		files, err := sqldb.Scan(rows, err, func(r *Released, scan func(dest ...any) error) error { return scan(&r.File, &r.Size, &r.At) })
		if err != nil || len(files) > 0 {
			return files, err
		}
	}
	return nil, nil
}

// packsAtOnce is how many packs one statement asks for.
const packsAtOnce = 50

// withMates adds at most so many of the files that lie in one pack with one of those given, are due
// or were deferred, and that nobody else is taking just now. A file within its grace, or within the
// Hold of another claim, has a time in between.
func (c Content) withMates(ctx context.Context, tx *sqldb.Tx, files []Released, claim Claim, most int) ([]Released, error) {
	due, held := c.now().Add(-claim.Grace), c.now().Add(claim.Hold)
	known := map[string]bool{}
	var packs [][2]string
	for _, r := range files {
		known[r.File] = true
		from, to, ok := blob.Together(r.File)
		if ok && !slices.Contains(packs, [2]string{from, to}) {
			packs = append(packs, [2]string{from, to})
		}
	}
	for some := range slices.Chunk(packs, packsAtOnce) {
		var bounds []any
		for _, p := range some {
			bounds = append(bounds, p[0], p[1])
		}
		where := strings.TrimSuffix(strings.Repeat(`file > ? AND file < ? OR `, len(some)), " OR ")
		rows, err := tx.Query(ctx, `SELECT file, size, released_at FROM released WHERE (`+where+`) AND (released_at <= ? OR released_at > ?) ORDER BY file LIMIT ?`+skipLocked(tx),
			append(bounds, due, held, most)...)
		found, err := sqldb.Scan(rows, err, func(r *Released, scan func(dest ...any) error) error { return scan(&r.File, &r.Size, &r.At) })
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if !known[r.File] {
				files, most = append(files, r), most-1
			}
		}
		if most <= 0 {
			break
		}
	}
	return files, nil
}

// deferred is for how long a file stays whose pack is not worth rewriting, unless another one of
// its pack is due before.
const deferred = 30 * 24 * time.Hour

// Defer keeps the released rows of files that stay at their store for now. Nobody owes them any
// more: it is the store that does not give back their room.
func (c Content) Defer(ctx context.Context, tx *sqldb.Tx, files []string, grace time.Duration) error {
	rows, err := tx.Query(ctx, `SELECT file FROM released`+whereFile(len(files))+` ORDER BY file`+tx.ForUpdate(), args(files)...)
	there, err := sqldb.Scan(rows, err, scanName)
	if err != nil || len(there) == 0 {
		return err
	}
	if err := c.settle(ctx, tx, there); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE released SET released_at = ?`+whereFile(len(there)), append([]any{c.now().Add(deferred - grace)}, args(there)...)...)
	if err != nil {
		return fmt.Errorf("defer %d files: %w", len(there), err)
	}
	return nil
}

func (c Content) namedByBlobs(ctx context.Context, tx *sqldb.Tx, names []string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT file FROM blobs`+whereFile(len(names)), args(names)...)
	used, err := sqldb.Scan(rows, err, scanName)
	if err != nil {
		return nil, fmt.Errorf("look for blobs of released files: %w", err)
	}
	return used, nil
}

// Forget drops the released rows of files that are deleted: nobody owes them any more. Those that
// have no row any more were forgotten before. It takes as many names as a claim may have.
func (c Content) Forget(ctx context.Context, tx *sqldb.Tx, files []string) error {
	if len(files) == 0 {
		return nil
	}
	// Two may forget the same file, and only one of them gives back what was owed: the one who has
	// the row.
	rows, err := tx.Query(ctx, `SELECT file FROM released`+whereFile(len(files))+` ORDER BY file`+tx.ForUpdate(), args(files)...)
	there, err := sqldb.Scan(rows, err, scanName)
	if err != nil {
		return fmt.Errorf("look for %d released files: %w", len(files), err)
	}
	if len(there) == 0 {
		return nil
	}
	if err := c.settle(ctx, tx, there); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM released`+whereFile(len(there)), args(there)...); err != nil {
		return fmt.Errorf("forget %d files: %w", len(there), err)
	}
	return nil
}

// skipLocked is what to put at the end of a SELECT of rows that are taken only if nobody else is
// taking them.
func skipLocked(tx *sqldb.Tx) string {
	if tx.Dialect() == sqldb.MySQL {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

func whereFile(n int) string { return ` WHERE file IN (` + sqldb.Marks(n) + `)` }

func scanName(name *string, scan func(dest ...any) error) error { return scan(name) }
