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

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	linkRow  = "link-secret"   // name of the row in meta
	cacheTTL = 5 * time.Second // how long cached values are used
)

// ErrUnknownKey reports that a secret is sealed by a key that this process does not have.
var ErrUnknownKey = errors.New("a secret in the database is sealed by another key")

// Options configure New. DB is required.
type Options struct {
	DB *sqldb.DB
	// Keys: the first one is used for sealing, all of them for opening. Empty: secrets stay plain.
	Keys []Key
	// Plain stores secrets in plain even though Keys can open them.
	Plain bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Vault manages the secret of signed links and the text keys. It is safe for concurrent use.
type Vault struct {
	opt Options

	mu          sync.Mutex
	secret      []byte    // cached secret of links; nil: not read
	readAt      time.Time // when secret was read
	epoch       int       // increased by Rotate, so that values read before are not cached after
	texts       []Key     // cached text keys that can be opened, newest first
	newestLost  bool      // the newest text key cannot be opened
	textsReadAt time.Time // when texts was read
}

// New returns the vault of a database. It does no I/O.
func New(opt Options) *Vault {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Plain = opt.Plain || len(opt.Keys) == 0
	return &Vault{opt: opt}
}

// LinkSecret returns the secret of signed links, from which other packages derive keys per kind of
// link. The first call of an installation creates it. A plain secret, or one sealed by an old key,
// is resealed. It returns ErrUnknownKey if no available key opens the secret.
func (v *Vault) LinkSecret(ctx context.Context) ([]byte, error) {
	now := v.opt.Now()
	v.mu.Lock()
	secret, epoch := v.secret, v.epoch
	age := now.Sub(v.readAt)
	v.mu.Unlock()
	if secret != nil && age >= 0 && age < cacheTTL {
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

// load returns the secret of links. If there is none it stores a new one, or takes that of a faster
// process; if it is stored in an older form, it stores it again in the current one.
func (v *Vault) load(ctx context.Context) ([]byte, error) {
	text, err := meta.Find(ctx, v.opt.DB, linkRow)
	if err == nil && text == "" {
		if err := v.insert(ctx, linkRow); err != nil {
			return nil, err
		}
		text, err = meta.Find(ctx, v.opt.DB, linkRow) // perhaps of a faster process
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

// parse decodes the value of a row of meta. current reports that the value has the form in which
// this vault stores secrets.
func (v *Vault) parse(row, text string) (secret []byte, current bool, err error) {
	rest, sealed := strings.CutPrefix(text, sealedPrefix)
	if !sealed {
		secret, err = hex.DecodeString(text)
		return secret, v.opt.Plain, checkLength(secret, err)
	}
	name, content, _ := strings.Cut(rest, ":")
	for i, k := range v.opt.Keys {
		if k.name() == name {
			secret, err = k.open(row, content)
			return secret, i == 0 && !v.opt.Plain, checkLength(secret, err)
		}
	}
	return nil, false, fmt.Errorf("%w (%s)", ErrUnknownKey, name)
}

// checkLength returns err; if err is nil, it returns an error unless secret has 32 bytes.
func checkLength(secret []byte, err error) error {
	if err == nil && len(secret) != sha256.Size {
		err = fmt.Errorf("it has %d bytes", len(secret))
	}
	return err
}

// encode returns the text that stores secret in a row: hex digits if Options.Plain, else encrypted
// with the newest key and bound to the row.
func (v *Vault) encode(row string, secret []byte) (string, error) {
	if v.opt.Plain {
		return hex.EncodeToString(secret), nil
	}
	return v.opt.Keys[0].seal(row, secret)
}

// newValue returns the value of a new random secret for a row.
func (v *Vault) newValue(row string) (string, error) {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // does not fail
	return v.encode(row, secret)
}

// insert stores a new random secret in a row, in a transaction of its own. If the row exists, it
// stays and there is no error; the caller must read the row.
func (v *Vault) insert(ctx context.Context, row string) error {
	text, err := v.newValue(row)
	if err != nil {
		return err
	}
	return v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := meta.Create(ctx, tx, row, text)
		return err
	})
}

// reseal stores the same secret in the current form by compare-and-set: if the row is not old
// anymore, it does nothing and returns nil.
func (v *Vault) reseal(ctx context.Context, row, old string, secret []byte) error {
	text, err := v.encode(row, secret)
	if err != nil {
		return err
	}
	return v.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := meta.CompareAndSwap(ctx, tx, row, old, text)
		return err
	})
}

// Rotate replaces the secret of links, without opening the old one. All signed links, share
// accesses and sender tokens become invalid. It also adds a text key for new texts. Existing texts
// can still be opened and are resealed by SealLinks. Each call replaces the secret again.
func (v *Vault) Rotate(ctx context.Context) error {
	text, err := v.newValue(linkRow)
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
