package share

import (
	"context"
	"fmt"

	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
)

// recode gives a share another code, or none, and voids what was opened with the one before.
func (s *Shares) recode(ctx context.Context, tx *sqldb.Tx, sh *Share, code string) error {
	now, err := s.opt.Vault.Recode(ctx, tx, sh.kept, code)
	if err != nil {
		return err
	}
	if err := (table{s.opt.DB}).Replace(ctx, tx, sh.kept, now); err != nil {
		return err
	}
	sh.kept, sh.Code, sh.Epoch = now, code, sh.Epoch+1
	return nil
}

// Seal brings the rows of older versions into the form of this one, and after a rotation all rows
// under the newest key.
func (s *Shares) Seal(ctx context.Context) error { return s.opt.Vault.SealLinks(ctx, table{s.opt.DB}) }

// table is shares and share_texts, for the vault.
type table struct{ db *sqldb.DB }

func (table) Name() string { return "shares" }

func (t table) Page(ctx context.Context, after string, limit int) ([]vault.Link, error) {
	rows, err := t.db.Query(ctx, `SELECT s.id, s.token, s.code, COALESCE(t.sealed, '')
		FROM shares s LEFT JOIN share_texts t ON t.share_id = s.id WHERE s.id > ? ORDER BY s.id LIMIT ?`, after, limit)
	all, err := sqldb.Scan(rows, err, func(l *vault.Link, scan func(...any) error) error {
		return scan(&l.ID, &l.Token, &l.Code, &l.Sealed)
	})
	if err != nil {
		return nil, fmt.Errorf("list what shares keep: %w", err)
	}
	return all, nil
}

// Replace tells by the sealed text whether a row is as it was: each has a nonce of its own. A row
// without one is in plain.
func (table) Replace(ctx context.Context, tx *sqldb.Tx, was, now vault.Link) (err error) {
	var n int64
	if was.Sealed == "" {
		n, err = tx.Exec(ctx, "UPDATE shares SET token = ?, code = ? WHERE id = ? AND token = ? AND code = ?",
			now.Token, now.Code, now.ID, was.Token, was.Code)
		if err == nil && n == 1 {
			err = insertText(ctx, tx, now)
		}
	} else {
		n, err = tx.Exec(ctx, "UPDATE share_texts SET sealed = ? WHERE share_id = ? AND sealed = ?", now.Sealed, now.ID, was.Sealed)
		if err == nil && n == 1 && now.Code != was.Code {
			_, err = tx.Exec(ctx, "UPDATE shares SET code = ? WHERE id = ?", now.Code, now.ID)
		}
	}
	if err != nil {
		return fmt.Errorf("seal share %s: %w", now.ID, err)
	}
	return nil
}

func insertText(ctx context.Context, tx *sqldb.Tx, l vault.Link) error {
	_, err := tx.Exec(ctx, "INSERT INTO share_texts (share_id, sealed) VALUES (?, ?)", l.ID, l.Sealed)
	return err
}
