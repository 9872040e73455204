package vault

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

const (
	linkRow  = "link-secret" // the name in meta
	trustFor = 5 * time.Second
)

// ErrOtherKey says that the secret is sealed by a key that this process does not have.
var ErrOtherKey = errors.New("a secret in the database is sealed by another key")

// Options configure New. DB is required.
type Options struct {
	DB *sqldb.DB
	// Keys: the first one seals, all of them open. None: the secret is kept in plain.
	Keys []Key
	// Plain keeps the secret in plain although there are keys that open it.
	Plain bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Vault keeps the secret of signed links. It is safe for concurrent use.
type Vault struct {
	opt Options

	mu     sync.Mutex
	secret []byte
	readAt time.Time
	epoch  int   // raised by Rotate: what was read before it is not kept after it
	texts  []Key // that texts are sealed with, as far as they can be opened; the newest first
	lost   bool  // the newest is not among them
	heard  time.Time
}

// New returns the vault of a database. It does no I/O.
func New(opt Options) *Vault {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Plain = opt.Plain || len(opt.Keys) == 0
	return &Vault{opt: opt}
}

// Links returns the secret of signed links, of which other kinds of link make keys of their own.
// The first caller ever makes it; one that is in plain, or sealed by an older key, is sealed.
// ErrOtherKey: it cannot be opened with the keys that there are.
func (v *Vault) Links(ctx context.Context) ([]byte, error) {
	now := v.opt.Now()
	v.mu.Lock()
	secret, epoch := v.secret, v.epoch
	age := now.Sub(v.readAt)
	v.mu.Unlock()
	if secret != nil && age >= 0 && age < trustFor {
		return secret, nil
	}
	secret, err := v.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the secret of links: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch == epoch {
		v.secret, v.readAt = secret, now
	}
	return secret, nil
}

func (v *Vault) load(ctx context.Context) ([]byte, error) {
	text, err := meta.Find(ctx, v.opt.DB, linkRow)
	if err == nil && text == "" {
		if err := v.insert(ctx, linkRow); err != nil {
			return nil, err
		}
		text, err = meta.Find(ctx, v.opt.DB, linkRow) // somebody else's, if they were faster
	}
	if err != nil {
		return nil, err
	}
	secret, current, err := v.parse(linkRow, text)
	if err == nil && !current {
		err = v.reseal(ctx, linkRow, text, secret)
	}
	return secret, err
}

// parse reads the value of a row of meta; current: it is kept as this vault keeps it.
func (v *Vault) parse(row, text string) (secret []byte, current bool, err error) {
	rest, sealed := strings.CutPrefix(text, sealedPrefix)
	if !sealed {
		secret, err = hex.DecodeString(text)
		return secret, v.opt.Plain, check(secret, err)
	}
	name, content, _ := strings.Cut(rest, ":")
	for i, k := range v.opt.Keys {
		if k.name() == name {
			secret, err = k.open(row, content)
			return secret, i == 0 && !v.opt.Plain, check(secret, err)
		}
	}
	return nil, false, fmt.Errorf("%w (%s)", ErrOtherKey, name)
}

func check(secret []byte, err error) error {
	if err == nil && len(secret) != sha256.Size {
		err = fmt.Errorf("it has %d bytes", len(secret))
	}
	return err
}

// format is the value that keeps a secret.
func (v *Vault) format(row string, secret []byte) (string, error) {
	if v.opt.Plain {
		return hex.EncodeToString(secret), nil
	}
	return v.opt.Keys[0].seal(row, secret)
}

func (v *Vault) fresh(row string) (string, error) {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // does not fail
	return v.format(row, secret)
}

func (v *Vault) insert(ctx context.Context, row string) error {
	text, err := v.fresh(row)
	if err != nil {
		return err
	}
	return v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := meta.Make(ctx, tx, row, text)
		return err
	})
}

// reseal writes the same secret in another form, unless somebody else has changed the row.
func (v *Vault) reseal(ctx context.Context, row, old string, secret []byte) error {
	text, err := v.format(row, secret)
	if err != nil {
		return err
	}
	return v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := meta.Swap(ctx, tx, row, old, text)
		return err
	})
}

// Rotate puts a new secret in the place of the one that there is, whatever key has sealed it: every
// signed link, access to a share and sender's token is void. Texts are sealed with a new key from
// then on; those that are sealed stay as they are, and can still be opened, until SealLinks has
// sealed them again. Running it again makes others.
func (v *Vault) Rotate(ctx context.Context) error {
	text, err := v.fresh(linkRow)
	if err != nil {
		return err
	}
	err = v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := meta.Set(ctx, tx, linkRow, text); err != nil {
			return err
		}
		return v.addTextKey(ctx, tx)
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secret, v.texts, v.epoch = nil, nil, v.epoch+1
	if err != nil {
		return fmt.Errorf("rotate the secret of links: %w", err)
	}
	return nil
}
