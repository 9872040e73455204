package vault

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// Link is what a link is found and opened by, as its row keeps it:
//
//	Token    sha256:<base64url>   of the token, which has 128 random bits and so needs no salt; links are found by it
//	Code     *                    a code is asked for; empty: none
//	Sealed   what Seal made of the token, a space and the code: the owner sees both again, and visitors type the code
//
// A row of a version before has both in plain and nothing sealed.
type Link struct{ ID, Token, Code, Sealed string }

const (
	hashPrefix = "sha256:" // no token has a colon
	asksCode   = "*"       // no code has one
)

// NewLink returns the row of a link.
func (v *Vault) NewLink(ctx context.Context, q sqldb.Querier, id, token, code string) (Link, error) {
	l := Link{ID: id, Token: HashToken(token)}
	err := v.seal(ctx, q, &l, token, code)
	return l, err
}

func (v *Vault) seal(ctx context.Context, q sqldb.Querier, l *Link, token, code string) (err error) {
	if l.Code = ""; code != "" {
		l.Code = asksCode
	}
	l.Sealed, err = v.Seal(ctx, q, l.row(), token+" "+code)
	return err
}

// row is what the sealed text of a link is bound to. Ids are unlike those of all other links.
func (l Link) row() string { return "link " + l.ID }

// AsksCode reports whether one needs a code, also where it cannot be read any more.
func (l Link) AsksCode() bool { return l.Code != "" }

func (l Link) isPlain() bool { return !strings.HasPrefix(l.Token, hashPrefix) }

// OpenLink returns the token and the code of a link; both are empty when the key that has sealed
// them is lost.
func (v *Vault) OpenLink(ctx context.Context, q sqldb.Querier, l Link) (token, code string, err error) {
	if l.isPlain() {
		return l.Token, l.Code, nil
	}
	text, err := v.Open(ctx, q, l.row(), l.Sealed)
	if errors.Is(err, ErrOtherKey) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("open link %s: %w", l.ID, err)
	}
	token, code, _ = strings.Cut(text, " ")
	return token, code, nil
}

// Recode gives a link another code, or none. Its token stays, also where it is only known by its
// hash.
func (v *Vault) Recode(ctx context.Context, q sqldb.Querier, l Link, code string) (Link, error) {
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

// HashToken is what a row keeps of a token.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Lookup returns the two values of which a row has one that keeps the token: the hash, or the token
// itself where the row is of a version before. What looks like a hash is not a token: else whoever
// has read the database could show what they have read.
func Lookup(token string) []any {
	hash := HashToken(token)
	if strings.Contains(token, ":") {
		return []any{hash, hash}
	}
	return []any{hash, token}
}

// Links is a table of links. It belongs to the package that implements this.
type Links interface {
	// Name of the table.
	Name() string
	// Page returns up to limit rows in the order of their ids, after the one given.
	Page(ctx context.Context, after string, limit int) ([]Link, error)
	// Replace writes now where the row is still as it was: its token, code and sealed text. Where
	// it is not, it does nothing.
	Replace(ctx context.Context, tx *sqldb.Tx, was, now Link) error
}

// sealBatch is rows a transaction, well within its 50 ms.
const sealBatch = 200

// SealLinks seals what a version before has left in plain, and seals again what is sealed with a
// key before the newest. It notes for which key it has ended, and so costs one read once it is
// done: else every row is read once, and written if it has to be. It works in short transactions,
// may stop anywhere, and may run in several processes at once.
func (v *Vault) SealLinks(ctx context.Context, table Links) error {
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

func (v *Vault) sealAll(ctx context.Context, table Links, k Key) error {
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

// sealOne leaves alone what is sealed with the key, and what is lost.
func (v *Vault) sealOne(ctx context.Context, tx *sqldb.Tx, table Links, was Link, k Key) error {
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
