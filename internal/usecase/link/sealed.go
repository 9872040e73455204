package link

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
)

var _ vault.LinkTable = (*Links[drive.ShareID, Row, any])(nil)

// insertSealed inserts the sealed token of a new link within tx, next to the link's own row.
func (l *Links[I, T, V]) insertSealed(ctx context.Context, tx *sqldb.Tx, kept vault.Link) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+l.SealedTable+" ("+l.SealedKey+", sealed) VALUES (?, ?)", kept.ID, kept.Sealed)
	return err
}

// SealAll seals the rows written by older versions, and re-encrypts all rows with the newest key
// after a key rotation.
func (l *Links[I, T, V]) SealAll(ctx context.Context) error { return l.opt.Vault.SealLinks(ctx, l) }

// Name returns the name of the links' table, by which the vault names this LinkTable.
func (l *Links[I, T, V]) Name() string { return l.Table }

// Page returns up to limit links with their stored secrets by id, after the id after; "" is the
// beginning. An empty result is the end.
func (l *Links[I, T, V]) Page(ctx context.Context, after string, limit int) ([]vault.Link, error) {
	code := "''"
	if l.Codes {
		code = "l.code"
	}
	rows, err := l.opt.DB.Query(ctx, "SELECT l.id, l.token, "+code+", COALESCE(t.sealed, '') FROM "+l.Table+" l LEFT JOIN "+l.SealedTable+
		" t ON t."+l.SealedKey+" = l.id WHERE l.id > ? ORDER BY l.id LIMIT ?", after, limit)
	all, err := sqldb.Scan(rows, err, func(kept *vault.Link, scan func(...any) error) error {
		return scan(&kept.ID, &kept.Token, &kept.Code, &kept.Sealed)
	})
	if err != nil {
		return nil, fmt.Errorf("list what %s keep: %w", l.Table, err)
	}
	return all, nil
}

// Replace stores now within tx if the row still is was, which the sealed text shows because each
// has its own nonce; otherwise it changes nothing and returns nil. A row without sealed text is
// stored in plain.
func (l *Links[I, T, V]) Replace(ctx context.Context, tx *sqldb.Tx, was, now vault.Link) (err error) {
	if was.Sealed == "" {
		err = l.replacePlain(ctx, tx, was, now)
	} else {
		err = l.replaceText(ctx, tx, was, now)
	}
	if err != nil {
		return fmt.Errorf("seal %s %s: %w", l.Noun, now.ID, err)
	}
	return nil
}

// replacePlain replaces a plain token by its hash and inserts the sealed text.
func (l *Links[I, T, V]) replacePlain(ctx context.Context, tx *sqldb.Tx, was, now vault.Link) error {
	set, where, args := "token = ?", "id = ? AND token = ?", []any{now.Token, now.ID, was.Token}
	if l.Codes {
		set, where, args = set+", code = ?", where+" AND code = ?", []any{now.Token, now.Code, now.ID, was.Token, was.Code}
	}
	n, err := tx.Exec(ctx, "UPDATE "+l.Table+" SET "+set+" WHERE "+where, args...)
	if err == nil && n == 1 {
		err = l.insertSealed(ctx, tx, now)
	}
	return err
}

// replaceText replaces the sealed text within tx, and the code if it changed. If the text is no
// longer was.Sealed it changes nothing and returns nil.
func (l *Links[I, T, V]) replaceText(ctx context.Context, tx *sqldb.Tx, was, now vault.Link) error {
	n, err := tx.Exec(ctx, "UPDATE "+l.SealedTable+" SET sealed = ? WHERE "+l.SealedKey+" = ? AND sealed = ?", now.Sealed, now.ID, was.Sealed)
	if err == nil && n == 1 && now.Code != was.Code {
		_, err = tx.Exec(ctx, "UPDATE "+l.Table+" SET code = ? WHERE id = ?", now.Code, now.ID)
	}
	return err
}
