package idem

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// PrepareLife is the validity of a prepare id (SOURCES I3: 12 hours).
const PrepareLife = 12 * time.Hour

// A prepare id is "pre_" followed by the base64url of
//
//	version 1 | expiry 8, Unix ms, big endian | random 16 | HMAC-SHA256 32
//
// It has 57 bytes, so that base64 needs no padding and has no unused bits. The MAC covers the
// preceding bytes and the user, so that other users cannot use the id. The prefix distinguishes ids
// from the clients' own keys.
const (
	preparePrefix  = "pre_"
	prepareVersion = 1
	nonceBytes     = 16
	signedBytes    = 1 + 8 + nonceBytes
	prepareBytes   = signedBytes + sha256.Size
	secretBytes    = 32
	secretName     = "prepare_secret"
)

// preparedBase64 rejects non-canonical encodings.
var preparedBase64 = base64.RawURLEncoding.Strict()

// PreparedIDs issues and verifies prepare ids. It stores only the installation's secret.
type PreparedIDs struct {
	secret []byte
	opt    Options
}

// OpenPreparedIDs reads the installation's secret from meta, or creates and stores it at the first
// start; of concurrent first starts one secret wins. It fails if the stored secret is damaged.
func OpenPreparedIDs(ctx context.Context, db *sqldb.DB, opt Options) (*PreparedIDs, error) {
	fresh := make([]byte, secretBytes)
	rand.Read(fresh) // never fails
	text, err := meta.Find(ctx, db, secretName)
	if err == nil && text == "" {
		text, err = storeSecret(ctx, db, base64.StdEncoding.EncodeToString(fresh))
	}
	if err != nil {
		return nil, fmt.Errorf("open the secret of prepare ids: %w", err)
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("the secret of prepare ids is damaged: %d characters", len(text))
	}
	return &PreparedIDs{secret: secret, opt: opt.withDefaults()}, nil
}

// storeSecret stores fresh as the secret in a transaction of its own, unless there is one, and
// returns the secret that is stored then.
func storeSecret(ctx context.Context, db *sqldb.DB, fresh string) (text string, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if made, err := meta.Create(ctx, tx, secretName, fresh); err != nil || made {
			text = fresh
			return err
		}
		text, err = meta.Find(ctx, tx, secretName)
		return err
	})
	return text, err
}

// New returns a signed random prepare id for the user and the time, PrepareLife from now, after
// which it is refused. It stores nothing.
func (p *PreparedIDs) New(user drive.UserID) (id string, expires drive.Time) {
	expires = drive.TimeOf(p.opt.Now().Add(PrepareLife))
	var nonce [nonceBytes]byte
	rand.Read(nonce[:]) // never fails
	return p.sign(user, expires, nonce), expires
}

// sign returns the prepare id with the given contents.
func (p *PreparedIDs) sign(user drive.UserID, expires drive.Time, nonce [nonceBytes]byte) string {
	b := make([]byte, 0, prepareBytes)
	b = append(b, prepareVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(expires))
	b = append(b, nonce[:]...)
	b = append(b, p.mac(user, b)...)
	return preparePrefix + preparedBase64.EncodeToString(b)
}

// mac returns the MAC of a user's prepare id.
func (p *PreparedIDs) mac(user drive.UserID, signed []byte) []byte {
	h := hmac.New(sha256.New, p.secret)
	h.Write([]byte("smartdrive prepare id\x00")) // domain separation
	h.Write(user[:])
	h.Write(signed)
	return h.Sum(nil)
}

// Verify checks a prepare id of the user. It fails with BadRequest if this installation did not
// issue the id to the user, and with Gone if the id has expired.
func (p *PreparedIDs) Verify(user drive.UserID, id string, now time.Time) error {
	text, ok := strings.CutPrefix(id, preparePrefix)
	b, err := preparedBase64.DecodeString(text)
	if !ok || err != nil || len(b) != prepareBytes || b[0] != prepareVersion || preparePrefix+preparedBase64.EncodeToString(b) != id {
		return drive.BadField(header, drive.Malformed, "expected", "a prepare id of this server")
	}
	if !hmac.Equal(p.mac(user, b[:signedBytes]), b[signedBytes:]) {
		return drive.BadField(header, drive.Malformed, "expected", "a prepare id of this server")
	}
	if expires := drive.Time(binary.BigEndian.Uint64(b[1:])); drive.TimeOf(now) >= expires {
		return drive.Fail(drive.Gone, "reason", "expired")
	}
	return nil
}

// ParseKey parses the Idempotency-Key header of a user's request: a key chosen by the client, or a
// prepare id, which it verifies. Without the header, use the zero Key instead; an empty header
// fails with BadRequest.
func (p *PreparedIDs) ParseKey(user drive.UserID, value string) (Key, error) {
	text, err := parseKey(value)
	if err != nil {
		return Key{}, err
	}
	if !strings.HasPrefix(text, preparePrefix) {
		return Key{text: text}, nil
	}
	if err := p.Verify(user, text, p.opt.Now()); err != nil {
		return Key{}, err
	}
	return Key{text: text, prepared: true}, nil
}
