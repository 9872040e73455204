package content

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/drive"
	"smartdrive/internal/sqldb"
)

// Released is a file that no row needs any more.
type Released struct {
	File string
	Size drive.ByteSize
	At   drive.Time
}

// ReleaseFile records that a stored file belongs to nobody, so that it may be deleted and its presence is explained.
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

// ListReleased returns up to limit files released longer than grace ago, oldest first, and when the next one is due if
// fewer than limit are; zero when none waits.
func (c Content) ListReleased(ctx context.Context, q sqldb.Querier, grace time.Duration, limit int) (due []Released, next drive.Time, err error) {
	rows, err := q.Query(ctx, `SELECT file, size, released_at FROM released ORDER BY released_at LIMIT ?`, limit+1)
	all, err := sqldb.Scan(rows, err, func(r *Released, scan func(dest ...any) error) error { return scan(&r.File, &r.Size, &r.At) })
	if err != nil {
		return nil, 0, fmt.Errorf("list released files: %w", err)
	}
	now := c.now()
	for _, r := range all {
		if at := r.At.Add(grace); at > now || len(due) == limit {
			return due, at, nil
		}
		due = append(due, r)
	}
	return due, 0, nil
}

// Forget drops the released rows of files that are deleted: nobody owes them any more.
func (c Content) Forget(ctx context.Context, tx *sqldb.Tx, files []string) error {
	if err := c.settle(ctx, tx, files); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := tx.Exec(ctx, `DELETE FROM released WHERE file = ?`, f); err != nil {
			return fmt.Errorf("forget file %s: %w", f, err)
		}
	}
	return nil
}
