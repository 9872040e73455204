package content

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Any number of processes delete released files after a grace period. Each of them claims some,
// deletes them, and forgets their rows:
//
//	claim    one transaction: the oldest due rows; other claims skip them until hold has passed
//	delete   in the store, outside of any transaction
//	forget   one transaction: deletes the rows of deleted files, and the debts for them
//	defer    one transaction: rows of files that stay because their pack is not worth rewriting yet; the debts are
//	         deleted, and the rows are claimed with the next file of their pack
//
//	dies ...                        and then
//	after the claim                 the file is due again after hold
//	after the deletion              the file is due again; deleting a missing file does no harm
//	after the forgetting, no reply  the repeated forget finds no rows and deletes no debts
//
// A claim only moves released_at. If a process takes longer than hold, another one may claim the
// same file, and it is deleted twice.

// Released is a file that no row refers to.
type Released struct {
	File string
	Size drive.ByteSize
	At   drive.Time // when it was released; after a claim: the time of the claim plus hold less grace
}

// ReleaseFile records that a stored file is not referenced: it is deleted after the grace period.
// No account owes its bytes. A file that is released already stays as it is.
func (c Content) ReleaseFile(ctx context.Context, tx *sqldb.Tx, file string, size drive.ByteSize) error {
	return c.release(ctx, tx, drive.AccountID{}, file, size)
}

// release inserts the released row of a file, which the account owes until it is deleted; zero:
// none owes it. A file that is released already stays as it is.
func (c Content) release(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, file string, size drive.ByteSize) error {
	fresh, err := tx.InsertNew(ctx, `INSERT INTO released (file, size, released_at) VALUES (?, ?, ?)`, file, size, c.now())
	if err != nil {
		return fmt.Errorf("release file %s: %w", file, err)
	}
	if !fresh {
		return nil
	}
	return c.addDebt(ctx, tx, account, file, size)
}

// NextReleased returns the time until the next released file is due, zero or less if one is due; ok
// is false if there is none.
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

// Claim describes which released files to claim for deletion.
type Claim struct {
	Grace time.Duration // time since the release before a file is due
	Hold  time.Duration // how long other claims skip the claimed files
	Limit int           // maximum number of due files
	// SamePacks also claims files in the same packs as the due ones, if they are due or deferred.
	SamePacks bool
}

// samePackFactor bounds the additional files of a claim with SamePacks, as a multiple of Limit.
const samePackFactor = 3

// ClaimReleased claims the oldest due files for deletion: other claims skip them for claim.Hold. It
// skips files that other transactions are claiming. A released file that a blob refers to is in
// use: its released row is deleted, and its name is returned in used instead of files.
func (c Content) ClaimReleased(ctx context.Context, tx *sqldb.Tx, claim Claim) (files []Released, used []string, err error) {
	if files, err = c.lockDue(ctx, tx, claim); err != nil {
		return nil, nil, fmt.Errorf("look for released files: %w", err)
	}
	if len(files) == 0 {
		return nil, nil, nil
	}
	if claim.SamePacks {
		if files, err = c.addSamePack(ctx, tx, files, claim, samePackFactor*claim.Limit); err != nil {
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
		if err := c.DeleteReleased(ctx, tx, used); err != nil {
			return nil, nil, err
		}
		files = slices.DeleteFunc(files, func(r Released) bool { return slices.Contains(used, r.File) })
	}
	dueAt := c.now().Add(claim.Hold - claim.Grace)
	if _, err := tx.Exec(ctx, `UPDATE released SET released_at = ?`+whereFile(len(names)), append([]any{dueAt}, args(names)...)...); err != nil {
		return nil, nil, fmt.Errorf("claim %d released files: %w", len(names), err)
	}
	for i := range files {
		files[i].At = dueAt
	}
	return files, used, nil
}

// maxConcurrentClaims is the number of concurrent claims that can all find files.
const maxConcurrentClaims = 4

// lockDue locks due rows that no other transaction has locked, and returns them. It selects
// candidates without a lock and then locks some by key, because a locking range query would lock
// all rows it examines and leave nothing to others.
func (c Content) lockDue(ctx context.Context, tx *sqldb.Tx, claim Claim) ([]Released, error) {
	due := c.now().Add(-claim.Grace)
	rows, err := tx.Query(ctx, `SELECT file FROM released WHERE released_at <= ? ORDER BY released_at LIMIT ?`, due, maxConcurrentClaims*claim.Limit)
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

// packsPerQuery is the number of packs per statement.
const packsPerQuery = 50

// addSamePack adds up to most files of the same packs that are due or deferred and not locked by
// other transactions. Files in their grace period or held by another claim have a released_at in
// between.
func (c Content) addSamePack(ctx context.Context, tx *sqldb.Tx, files []Released, claim Claim, most int) ([]Released, error) {
	due, held := c.now().Add(-claim.Grace), c.now().Add(claim.Hold)
	known := map[string]bool{}
	var packs [][2]string
	for _, r := range files {
		known[r.File] = true
		from, to, ok := blob.PackRange(r.File)
		if ok && !slices.Contains(packs, [2]string{from, to}) {
			packs = append(packs, [2]string{from, to})
		}
	}
	for some := range slices.Chunk(packs, packsPerQuery) {
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

// deferTime is how long a file stays whose pack is not worth rewriting, unless another file of its
// pack becomes due.
const deferTime = 30 * 24 * time.Hour

// Defer postpones, within tx, the deletion of released files whose packs are not worth rewriting
// yet: they are due again after deferTime. grace is the time that a released file is kept anyway.
// Defer deletes the debts of the accounts for these files, because the store and not the account
// keeps the space occupied.
func (c Content) Defer(ctx context.Context, tx *sqldb.Tx, files []string, grace time.Duration) error {
	rows, err := tx.Query(ctx, `SELECT file FROM released`+whereFile(len(files))+` ORDER BY file`+tx.ForUpdate(), args(files)...)
	there, err := sqldb.Scan(rows, err, scanName)
	if err != nil || len(there) == 0 {
		return err
	}
	if err := c.clearDebts(ctx, tx, there); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE released SET released_at = ?`+whereFile(len(there)), append([]any{c.now().Add(deferTime - grace)}, args(there)...)...)
	if err != nil {
		return fmt.Errorf("defer %d files: %w", len(there), err)
	}
	return nil
}

// namedByBlobs returns those of names that are the file of a blob, in any order. These must not be
// deleted.
func (c Content) namedByBlobs(ctx context.Context, tx *sqldb.Tx, names []string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT file FROM blobs`+whereFile(len(names)), args(names)...)
	used, err := sqldb.Scan(rows, err, scanName)
	if err != nil {
		return nil, fmt.Errorf("look for blobs of released files: %w", err)
	}
	return used, nil
}

// DeleteReleased deletes the released rows of deleted files and the debts for them. Files without a
// row are ignored. It accepts as many names as a claim returns.
func (c Content) DeleteReleased(ctx context.Context, tx *sqldb.Tx, files []string) error {
	if len(files) == 0 {
		return nil
	}
	// Only the transaction that gets the row may delete the debt, because two may forget the same
	// file.
	rows, err := tx.Query(ctx, `SELECT file FROM released`+whereFile(len(files))+` ORDER BY file`+tx.ForUpdate(), args(files)...)
	there, err := sqldb.Scan(rows, err, scanName)
	if err != nil {
		return fmt.Errorf("look for %d released files: %w", len(files), err)
	}
	if len(there) == 0 {
		return nil
	}
	if err := c.clearDebts(ctx, tx, there); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM released`+whereFile(len(there)), args(there)...); err != nil {
		return fmt.Errorf("forget %d files: %w", len(there), err)
	}
	return nil
}

// skipLocked returns the suffix of a SELECT that locks rows and skips rows locked by others.
func skipLocked(tx *sqldb.Tx) string {
	if tx.Dialect() == sqldb.MySQL {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// whereFile returns a WHERE clause for n names of files.
func whereFile(n int) string { return ` WHERE file IN (` + sqldb.Placeholders(n) + `)` }

// scanName reads a row of one column into name.
func scanName(name *string, scan func(dest ...any) error) error { return scan(name) }
