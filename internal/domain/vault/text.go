package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// Texts are sealed with keys that lie in meta, each sealed itself as the secret of links is, so
// that another key outside the database changes one row and not all. The newest one seals. None is
// ever removed: what a process has sealed that had not heard of a rotation can be opened.
const (
	textRows  = "text-key:" // a number of eight digits follows: the largest is the newest
	firstText = textRows + "00000001"
)

// Prepare sees to it that there is a key to seal texts with, and seals the keys that are in plain
// or sealed by an older key outside the database. It must have succeeded once before Seal.
// ErrOtherKey: the newest one cannot be opened.
func (v *Vault) Prepare(ctx context.Context) error {
	rows, err := textKeys(ctx, v.opt.DB)
	if err == nil && len(rows) == 0 {
		err = v.insert(ctx, firstText)
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

// Seal returns the form in which a text is kept in a row, which it is bound to: row names it,
// unlike any other of the installation. It makes no transaction, and reads by q at most.
func (v *Vault) Seal(ctx context.Context, q sqldb.Querier, row, text string) (string, error) {
	k, err := v.newest(ctx, q)
	if err != nil {
		return "", fmt.Errorf("seal a text: %w", err)
	}
	return k.seal(row, []byte(text))
}

// Open returns the text of a form that Seal has made for the row. ErrOtherKey: it cannot be opened
// with the keys that there are.
func (v *Vault) Open(ctx context.Context, q sqldb.Querier, row, sealed string) (string, error) {
	name, content, _ := strings.Cut(strings.TrimPrefix(sealed, sealedPrefix), ":")
	v.mu.Lock()
	k, known := find(v.texts, name)
	v.mu.Unlock()
	if !known { // another process has rotated, or it is lost
		keys, _, err := v.hear(ctx, q)
		if err != nil {
			return "", err
		}
		if k, known = find(keys, name); !known {
			return "", fmt.Errorf("%w (%s)", ErrOtherKey, name)
		}
	}
	text, err := k.open(row, content)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOtherKey, err)
	}
	return string(text), nil
}

func find(keys []Key, name string) (Key, bool) {
	at := slices.IndexFunc(keys, func(k Key) bool { return k.name() == name })
	if at < 0 {
		return Key{}, false
	}
	return keys[at], true
}

// newest returns the key that seals, as it was within the last five seconds.
func (v *Vault) newest(ctx context.Context, q sqldb.Querier) (Key, error) {
	v.mu.Lock()
	keys, lost, age := v.texts, v.lost, v.opt.Now().Sub(v.heard)
	v.mu.Unlock()
	if len(keys) == 0 || age < 0 || age >= trustFor {
		var err error
		if keys, lost, err = v.hear(ctx, q); err != nil {
			return Key{}, err
		}
	}
	switch {
	case lost:
		return Key{}, ErrOtherKey
	case len(keys) == 0:
		return Key{}, errors.New("there is no key of texts")
	}
	return keys[0], nil
}

// hear reads the keys of texts.
func (v *Vault) hear(ctx context.Context, q sqldb.Querier) (keys []Key, lost bool, err error) {
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
		case !errors.Is(err, ErrOtherKey):
			return nil, false, fmt.Errorf("read %s: %w", r.name, err)
		case i == 0:
			lost = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch == epoch {
		v.texts, v.lost, v.heard = keys, lost, now
	}
	return keys, lost, nil
}

type metaRow struct{ name, value string }

// textKeys returns the rows of the keys of texts, the newest first.
func textKeys(ctx context.Context, q sqldb.Querier) ([]metaRow, error) {
	rows, err := q.Query(ctx, "SELECT name, value FROM meta WHERE name LIKE ? ORDER BY name DESC", textRows+"%")
	all, err := sqldb.Scan(rows, err, func(r *metaRow, scan func(...any) error) error { return scan(&r.name, &r.value) })
	if err != nil {
		return nil, fmt.Errorf("list the keys of texts: %w", err)
	}
	return all, nil
}

// addTextKey makes a key of texts that is newer than all others. When somebody else does so just
// now, theirs is as good.
func (v *Vault) addTextKey(ctx context.Context, tx *sqldb.Tx) error {
	rows, err := textKeys(ctx, tx)
	if err != nil {
		return err
	}
	row := firstText
	if len(rows) > 0 {
		var n int
		if _, err := fmt.Sscanf(rows[0].name, textRows+"%d", &n); err != nil {
			return fmt.Errorf("read the number of %q: %w", rows[0].name, err)
		}
		row = fmt.Sprintf(textRows+"%08d", n+1)
	}
	text, err := v.fresh(row)
	if err != nil {
		return err
	}
	_, err = meta.Make(ctx, tx, row, text)
	return err
}
