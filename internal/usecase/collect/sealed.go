package collect

import (
	"context"
	"fmt"

	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
)

// Seal brings the rows of older versions into the form of this one, and after a rotation all rows
// under the newest key.
func (s *Links) Seal(ctx context.Context) error { return s.opt.Vault.SealLinks(ctx, table{s.opt.DB}) }

// table is collects and collect_texts, for the vault. These links have no codes.
type table struct{ db *sqldb.DB }

func (table) Name() string { return "collects" }

func (t table) Page(ctx context.Context, after string, limit int) ([]vault.Link, error) {
	rows, err := t.db.Query(ctx, `SELECT l.id, l.token, COALESCE(t.sealed, '')
		FROM collects l LEFT JOIN collect_texts t ON t.collect_id = l.id WHERE l.id > ? ORDER BY l.id LIMIT ?`, after, limit)
	all, err := sqldb.Scan(rows, err, func(l *vault.Link, scan func(...any) error) error { return scan(&l.ID, &l.Token, &l.Sealed) })
	if err != nil {
		return nil, fmt.Errorf("list what collect links keep: %w", err)
	}
	return all, nil
}

// Replace tells by the sealed text whether a row is as it was: each has a nonce of its own. A row
// without one is in plain.
func (table) Replace(ctx context.Context, tx *sqldb.Tx, was, now vault.Link) (err error) {
	if was.Sealed != "" {
		_, err = tx.Exec(ctx, "UPDATE collect_texts SET sealed = ? WHERE collect_id = ? AND sealed = ?", now.Sealed, now.ID, was.Sealed)
	} else {
		var n int64
		n, err = tx.Exec(ctx, "UPDATE collects SET token = ? WHERE id = ? AND token = ?", now.Token, now.ID, was.Token)
		if err == nil && n == 1 {
			err = insertText(ctx, tx, now)
		}
	}
	if err != nil {
		return fmt.Errorf("seal collect link %s: %w", now.ID, err)
	}
	return nil
}

func insertText(ctx context.Context, tx *sqldb.Tx, l vault.Link) error {
	_, err := tx.Exec(ctx, "INSERT INTO collect_texts (collect_id, sealed) VALUES (?, ?)", l.ID, l.Sealed)
	return err
}
