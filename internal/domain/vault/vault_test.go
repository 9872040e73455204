package vault_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

func row(t *testing.T, db *sqldb.DB) (value string) {
	t.Helper()
	if err := db.QueryRow(t.Context(), "SELECT value FROM meta WHERE name = 'link-secret'").Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func secretOf(t *testing.T, db *sqldb.DB, keys ...vault.Key) []byte {
	t.Helper()
	secret, err := vault.New(vault.Options{DB: db, Keys: keys}).LinkSecret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestLinkSecretSurvivesKeyChanges opens the secret without a key, with one, and with another one.
func TestLinkSecretSurvivesKeyChanges(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	plain := secretOf(t, db)
	if got := row(t, db); got != hex.EncodeToString(plain) {
		t.Errorf("without a key the row is %q", got)
	}
	first, second := vault.NewKey(), vault.NewKey()
	for _, keys := range [][]vault.Key{{first}, {first}, {second, first}, {second}} {
		if got := secretOf(t, db, keys...); !bytes.Equal(got, plain) {
			t.Errorf("the secret is another one: links are void")
		}
		if got := row(t, db); strings.Contains(got, hex.EncodeToString(plain)) || !strings.HasPrefix(got, "sealed:") {
			t.Errorf("the row is %q", got)
		}
	}
	for name, keys := range map[string][]vault.Key{"the key before": {first}, "no key": nil} {
		if _, err := vault.New(vault.Options{DB: db, Keys: keys}).LinkSecret(t.Context()); !errors.Is(err, vault.ErrUnknownKey) {
			t.Errorf("%s opens it: %v", name, err)
		}
	}
}

func TestRotationReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	db, now := sqldbtest.Open(t), time.Now()
	opt := vault.Options{DB: db, Keys: []vault.Key{vault.NewKey()}, Now: func() time.Time { return now }}
	here, there := vault.New(opt), vault.New(opt)
	links := func(v *vault.Vault) string {
		t.Helper()
		secret, err := v.LinkSecret(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(secret)
	}
	old := links(here)
	if links(there) != old {
		t.Fatal("two processes have two secrets")
	}
	if err := here.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if links(here) == old || links(there) != old {
		t.Error("it is not the one who rotates who hears first")
	}
	now = now.Add(5 * time.Second)
	if links(there) != links(here) {
		t.Error("the other process does not hear of it")
	}
	lost := vault.New(vault.Options{DB: db, Keys: []vault.Key{vault.NewKey()}})
	if err := lost.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if links(lost) == old {
		t.Error("a lost key cannot be replaced")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	a, b := vault.NewKey(), vault.NewKey()
	keys, err := vault.ParseKeys("\n" + a.Text() + ", " + b.Text() + "\n")
	if err != nil || len(keys) != 2 || keys[0] != a || keys[1] != b {
		t.Errorf("%v, %v", keys, err)
	}
	for _, bad := range []string{"", " \n", "c2hvcnQ=", a.Text()[1:], a.Text() + " x"} {
		if _, err := vault.ParseKeys(bad); err == nil {
			t.Errorf("%q is taken for keys", bad)
		}
	}
}

// TestDamagedSecretIsRejected changes a sealed value, and moves one to another row.
func TestDamagedSecretIsRejected(t *testing.T) {
	t.Parallel()
	db, key := sqldbtest.Open(t), vault.NewKey()
	secretOf(t, db, key)
	value := []byte(row(t, db))
	at := len(value) - 10
	if value[at]++; value[at] > 'z' || value[at] == '`' || value[at] == ':' || value[at] == '[' {
		value[at] = '-'
	}
	if err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE meta SET value = ? WHERE name = 'link-secret'", string(value))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.New(vault.Options{DB: db, Keys: []vault.Key{key}}).LinkSecret(t.Context()); err == nil {
		t.Error("a damaged secret is used")
	}
}

// TestPlainOptionUnsealsSecret: more instances are added that do not have the key.
func TestPlainOptionUnsealsSecret(t *testing.T) {
	t.Parallel()
	db, key := sqldbtest.Open(t), vault.NewKey()
	secret := secretOf(t, db, key)
	got, err := vault.New(vault.Options{DB: db, Keys: []vault.Key{key}, Plain: true}).LinkSecret(t.Context())
	if err != nil || !bytes.Equal(got, secret) || !bytes.Equal(secretOf(t, db), secret) {
		t.Errorf("it is another one, or sealed: %v", err)
	}
}

func open(t *testing.T, db *sqldb.DB, row, sealed string, keys ...vault.Key) (string, error) {
	t.Helper()
	return vault.New(vault.Options{DB: db, Keys: keys}).Open(t.Context(), db, row, sealed)
}

// TestTextOpensOnlyForItsRow seals a text without a key, then with one, another one, after a
// rotation, and with all keys lost.
func TestTextOpensOnlyForItsRow(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	const text = "a code"
	prepare := func(keys ...vault.Key) *vault.Vault {
		t.Helper()
		v := vault.New(vault.Options{DB: db, Keys: keys})
		if err := v.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		return v
	}
	sealed, err := prepare().Seal(t.Context(), db, "row 1", text)
	if err != nil {
		t.Fatal(err)
	}
	first, second := vault.NewKey(), vault.NewKey()
	for _, keys := range [][]vault.Key{nil, {first}, {second, first}, {second}} {
		v := prepare(keys...)
		if got, err := v.Open(t.Context(), db, "row 1", sealed); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := v.Open(t.Context(), db, "row 2", sealed); !errors.Is(err, vault.ErrUnknownKey) {
			t.Errorf("it is opened in another row: %v", err)
		}
	}
	if _, err := open(t, db, "row 1", sealed, first); !errors.Is(err, vault.ErrUnknownKey) {
		t.Errorf("the key before opens it: %v", err)
	}
	if err := vault.New(vault.Options{DB: db, Keys: []vault.Key{first}}).Prepare(t.Context()); !errors.Is(err, vault.ErrUnknownKey) {
		t.Errorf("a process with another key begins to seal: %v", err)
	}
	here, there := prepare(second), prepare(second)
	for range 2 {
		if err := here.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	newer, err := here.Seal(t.Context(), db, "row 1", text)
	if err != nil || newer[:15] == sealed[:15] {
		t.Errorf("a rotation makes no other key: %v", err)
	}
	for _, form := range []string{sealed, newer} { // also by who has not heard of it
		if got, err := there.Open(t.Context(), db, "row 1", form); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	lost := vault.NewKey()
	if err := vault.New(vault.Options{DB: db, Keys: []vault.Key{lost}}).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sealed, err = prepare(lost).Seal(t.Context(), db, "row 1", text); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, db, "row 1", sealed, lost); err != nil || got != text {
		t.Errorf("after a lost key: %q, %v", got, err)
	}
	if got, err := open(t, db, "row 1", newer, lost, second); err != nil || got != text {
		t.Errorf("the lost key is found again: %q, %v", got, err)
	}
}
