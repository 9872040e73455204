package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Texts are sealed with text keys in meta, each sealed like the secret of links, so that a new key
// outside the database changes one row instead of all. The newest text key seals. Text keys are
// never deleted, because a process that has not noticed a rotation may have sealed with an old one.
const (
	textKeyPrefix = "text-key:" // followed by a number of eight digits: the largest is the newest
	firstTextKey  = textKeyPrefix + "00000001"
)

// Prepare ensures that a text key exists, and reseals text keys that are plain or sealed by an old
// outside key. It must have succeeded once before Seal. It returns ErrUnknownKey if the newest text
// key cannot be opened.
func (v *Vault) Prepare(ctx context.Context) error {
	rows, err := textKeys(ctx, v.opt.DB)
	if err == nil && len(rows) == 0 {
		err = v.insert(ctx, firstTextKey)
	}
	if err == nil {
		_, err = v.newest(ctx, v.opt.DB)
	}
	for _, r := range rows {
		if raw, current, unreadable := v.parse(r.name, r.value); err == nil && unreadable == nil && !current {
			err = v.reseal(ctx, r.name, r.value, raw)
		}
	}
	if err != nil {
		return fmt.Errorf("prepare the key of texts: %w", err)
	}
	return nil
}

// Seal encrypts text for a row and returns the column value. row must be unique in the
// installation. Seal begins no transaction and only reads through q.
func (v *Vault) Seal(ctx context.Context, q sqldb.Querier, row, text string) (string, error) {
	k, err := v.newest(ctx, q)
	if err != nil {
		return "", fmt.Errorf("seal a text: %w", err)
	}
	return k.seal(row, []byte(text))
}

// Open decrypts a value that Seal returned for the same row. If the key is not cached it reads the
// keys from the database again. It returns ErrUnknownKey if no available key opens the value, also
// if the value is damaged or belongs to another row.
func (v *Vault) Open(ctx context.Context, q sqldb.Querier, row, sealed string) (string, error) {
	name, content, _ := strings.Cut(strings.TrimPrefix(sealed, sealedPrefix), ":")
	v.mu.Lock()
	k, known := find(v.texts, name)
	v.mu.Unlock()
	if !known { // another process has rotated, or the key is lost
		keys, _, err := v.readTextKeys(ctx, q)
		if err != nil {
			return "", err
		}
		if k, known = find(keys, name); !known {
			return "", fmt.Errorf("%w (%s)", ErrUnknownKey, name)
		}
	}
	text, err := k.open(row, content)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnknownKey, err)
	}
	return string(text), nil
}

// find returns the key with that name; false if there is none.
func find(keys []Key, name string) (Key, bool) {
	at := slices.IndexFunc(keys, func(k Key) bool { return k.name() == name })
	if at < 0 {
		return Key{}, false
	}
	return keys[at], true
}

// newest returns the text key for sealing, at most five seconds old. It returns ErrUnknownKey if
// the newest key cannot be opened.
func (v *Vault) newest(ctx context.Context, q sqldb.Querier) (Key, error) {
	v.mu.Lock()
	keys, lost, age := v.texts, v.newestLost, v.opt.Now().Sub(v.textsReadAt)
	v.mu.Unlock()
	if len(keys) == 0 || age < 0 || age >= cacheTTL {
		var err error
		if keys, lost, err = v.readTextKeys(ctx, q); err != nil {
			return Key{}, err
		}
	}
	switch {
	case lost:
		return Key{}, ErrUnknownKey
	case len(keys) == 0:
		return Key{}, errors.New("there is no key of texts")
	}
	return keys[0], nil
}

// readTextKeys reads the text keys from the database, newest first, and caches them. lost reports
// that the newest cannot be opened.
func (v *Vault) readTextKeys(ctx context.Context, q sqldb.Querier) (keys []Key, lost bool, err error) {
	now := v.opt.Now()
	v.mu.Lock()
	epoch := v.epoch
	v.mu.Unlock()
	rows, err := textKeys(ctx, q)
	if err != nil {
		return nil, false, err
	}
	for i, r := range rows {
		raw, _, err := v.parse(r.name, r.value)
		switch {
		case err == nil:
			keys = append(keys, Key{[keyBytes]byte(raw)})
		case !errors.Is(err, ErrUnknownKey):
			return nil, false, fmt.Errorf("read %s: %w", r.name, err)
		case i == 0:
			lost = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch == epoch {
		v.texts, v.newestLost, v.textsReadAt = keys, lost, now
	}
	return keys, lost, nil
}

// metaRow is a row of the table meta.
type metaRow struct{ name, value string }

// textKeys returns the rows of the text keys, newest first.
func textKeys(ctx context.Context, q sqldb.Querier) ([]metaRow, error) {
	rows, err := q.Query(ctx, "SELECT name, value FROM meta WHERE name LIKE ? ORDER BY name DESC", textKeyPrefix+"%")
	all, err := sqldb.Scan(rows, err, func(r *metaRow, scan func(...any) error) error { return scan(&r.name, &r.value) })
	if err != nil {
		return nil, fmt.Errorf("list the keys of texts: %w", err)
	}
	return all, nil
}

// addTextKey inserts a new newest text key. If another process inserts the same number
// concurrently, its key is used.
func (v *Vault) addTextKey(ctx context.Context, tx *sqldb.Tx) error {
	rows, err := textKeys(ctx, tx)
	if err != nil {
		return err
	}
	row := firstTextKey
	if len(rows) > 0 {
		var n int
		if _, err := fmt.Sscanf(rows[0].name, textKeyPrefix+"%d", &n); err != nil {
			return fmt.Errorf("read the number of %q: %w", rows[0].name, err)
		}
		row = fmt.Sprintf(textKeyPrefix+"%08d", n+1)
	}
	text, err := v.newValue(row)
	if err != nil {
		return err
	}
	_, err = meta.Create(ctx, tx, row, text)
	return err
}
