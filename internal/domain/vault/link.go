package vault

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Link is the part of a link's row by which the link is found and opened:
//
//	Token    sha256:<base64url>   hash of the token; the token has 128 random bits, so it needs no salt
//	Code     *                    visitors must enter a code; empty: they need none
//	Sealed   the sealed token, a space and the code, which the owner can display
//
// Rows of earlier versions have token and code in plain and nothing sealed.
type Link struct{ ID, Token, Code, Sealed string }

const (
	hashPrefix   = "sha256:" // no token has a colon
	codeRequired = "*"       // no code has one
)

// NewLink returns the Link to insert as a new row: the hash of the token, and token and code
// encrypted with the id of the row; an empty code means that none is required. It writes no row; q
// is used to read the key.
func (v *Vault) NewLink(ctx context.Context, q sqldb.Querier, id, token, code string) (Link, error) {
	l := Link{ID: id, Token: HashToken(token)}
	err := v.seal(ctx, q, &l, token, code)
	return l, err
}

// seal sets two fields of l in place: Sealed, which is token and code encrypted for the row, and
// Code, which only tells whether a code is required. On an error Sealed is not usable.
func (v *Vault) seal(ctx context.Context, q sqldb.Querier, l *Link, token, code string) (err error) {
	if l.Code = ""; code != "" {
		l.Code = codeRequired
	}
	l.Sealed, err = v.Seal(ctx, q, l.row(), token+" "+code)
	return err
}

// row returns the name that the sealed text is bound to. Link ids are unique across all tables of
// links.
func (l Link) row() string { return "link " + l.ID }

// AsksCode reports whether the link needs a code, even if the code cannot be opened any more.
func (l Link) AsksCode() bool { return l.Code != "" }

// isPlain reports whether the row holds the token and the code unencrypted, as an earlier version
// wrote them.
func (l Link) isPlain() bool { return !strings.HasPrefix(l.Token, hashPrefix) }

// OpenLink returns token and code of a link. Both are empty if the key that sealed them is lost.
func (v *Vault) OpenLink(ctx context.Context, q sqldb.Querier, l Link) (token, code string, err error) {
	if l.isPlain() {
		return l.Token, l.Code, nil
	}
	text, err := v.Open(ctx, q, l.row(), l.Sealed)
	if errors.Is(err, ErrUnknownKey) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("open link %s: %w", l.ID, err)
	}
	token, code, _ = strings.Cut(text, " ")
	return token, code, nil
}

// SetCode returns the link with another code, or none if code is empty. The token stays, even if
// only its hash is known.
func (v *Vault) SetCode(ctx context.Context, q sqldb.Querier, l Link, code string) (Link, error) {
	token, _, err := v.OpenLink(ctx, q, l)
	if err != nil {
		return Link{}, err
	}
	if l.isPlain() {
		l.Token = HashToken(token)
	}
	err = v.seal(ctx, q, &l, token, code)
	return l, err
}

// HashToken returns the column value for a token.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// TokenLookup returns the two possible column values for a token: its hash, and the token itself
// for rows of earlier versions. A token that looks like a hash is not looked up in plain, because
// otherwise a hash read from the database could be used as a token.
func TokenLookup(token string) []any {
	hash := HashToken(token)
	if strings.Contains(token, ":") {
		return []any{hash, hash}
	}
	return []any{hash, token}
}

// LinkTable is a table of links. The package that owns the table implements it.
type LinkTable interface {
	// Name returns the name of the table.
	Name() string
	// Page returns up to limit rows ordered by id, with ids greater than after.
	Page(ctx context.Context, after string, limit int) ([]Link, error)
	// Replace updates the row to now if its token, code and sealed text still equal was. Otherwise
	// it does nothing.
	Replace(ctx context.Context, tx *sqldb.Tx, was, now Link) error
}

// sealBatch is the number of rows per transaction, well within its limit of 50 ms.
const sealBatch = 200

// SealLinks seals links that an earlier version left in plain, and reseals links sealed with an old
// key. It records in meta for which key it has finished, so that later calls cost one read.
// Otherwise it reads every row once, in short transactions. It can be interrupted and may run in
// several processes concurrently.
func (v *Vault) SealLinks(ctx context.Context, table LinkTable) error {
	k, err := v.newest(ctx, v.opt.DB)
	if err != nil {
		return fmt.Errorf("seal the %s: %w", table.Name(), err)
	}
	mark := "sealed-links:" + table.Name()
	done, err := meta.Find(ctx, v.opt.DB, mark)
	if err == nil && done == k.name() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read how far the %s are sealed: %w", table.Name(), err)
	}
	if err := v.sealAll(ctx, table, k); err != nil {
		return fmt.Errorf("seal the %s: %w", table.Name(), err)
	}
	return v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Set(ctx, tx, mark, k.name()) })
}

// sealAll seals all rows of a table with the newest key, in transactions of sealBatch rows; k tells
// which rows are sealed already. After an error it may be called again.
func (v *Vault) sealAll(ctx context.Context, table LinkTable, k Key) error {
	for after := ""; ; {
		page, err := table.Page(ctx, after, sealBatch)
		if err != nil || len(page) == 0 {
			return err
		}
		err = v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, l := range page {
				if err := v.sealOne(ctx, tx, table, l, k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		after = page[len(page)-1].ID
	}
}

// sealOne seals one link again and replaces its row in tx. It does nothing if the row is sealed
// with k already or its key is lost.
func (v *Vault) sealOne(ctx context.Context, tx *sqldb.Tx, table LinkTable, was Link, k Key) error {
	if !was.isPlain() && strings.HasPrefix(was.Sealed, sealedPrefix+k.name()+":") {
		return nil
	}
	token, code, err := v.OpenLink(ctx, tx, was)
	if err != nil || token == "" && code == "" {
		return err
	}
	now := was
	if was.isPlain() {
		now.Token = HashToken(token)
	}
	if err := v.seal(ctx, tx, &now, token, code); err != nil {
		return err
	}
	return table.Replace(ctx, tx, was, now)
}
