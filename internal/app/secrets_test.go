package app

import (
	"context"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// life opens the installation, hands it to look, and closes it.
func life(t *testing.T, cfg config.Config, look func(a *App)) error {
	t.Helper()
	a, err := Open(t.Context(), cfg, silent)
	if err != nil {
		return err
	}
	look(a)
	return a.Close()
}

func (a *App) linkRow(t *testing.T) (secret, row string) {
	t.Helper()
	raw, err := a.vault.LinkSecret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.platform.db.QueryRow(t.Context(), "SELECT value FROM meta WHERE name = 'link-secret'").Scan(&row); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw), row
}

// An installation of a version before keys opens, its links stay good, and a copy of its database
// does not tell their secret any more.
func TestTheSecretOfLinksIsSealedAtTheNextStart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, "--min-free", "0")
	old := strings.Repeat("ab", 32)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(life(t, cfg, func(a *App) {
		must(a.platform.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM meta WHERE name LIKE 'text-key:%'"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE meta SET value = ? WHERE name = 'link-secret'", old)
			return err
		}))
	}))
	key := filepath.Join(cfg.Data, keyFile)
	must(os.Remove(key))
	for range 2 {
		must(life(t, cfg, func(a *App) {
			if secret, row := a.linkRow(t); secret != old || strings.Contains(row, old) || !strings.HasPrefix(row, "sealed:") {
				t.Errorf("the secret is kept as %q", row)
			}
		}))
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the key: %v, %v", info, err)
	}
	must(life(t, cfg, func(a *App) {
		_, err := a.links().rotate(t.Context(), RotateRequest{})
		must(err)
		if secret, _ := a.linkRow(t); secret == old {
			t.Error("a rotation changes nothing")
		}
	}))
	must(os.Remove(key)) // as after a restore elsewhere
	must(life(t, cfg, func(a *App) { a.linkRow(t) }))

	configured := cfg
	configured.SecretKey = config.Secret(vault.NewKey().Text())
	if err := life(t, configured, func(*App) {}); err == nil || !strings.Contains(err.Error(), "--secret-key") {
		t.Errorf("another key than the one that sealed it: %v", err)
	}
	text, err := os.ReadFile(key)
	must(err)
	configured.SecretKey += config.Secret("," + strings.TrimSpace(string(text)))
	must(life(t, configured, func(a *App) { a.linkRow(t) }))
	must(os.Remove(key))
	must(life(t, configured, func(a *App) { a.linkRow(t) }))
	if _, err := os.Stat(key); err == nil {
		t.Error("a key is made that nobody asked for")
	}
}

// A share and a collect link that a version before has left open while they are sealed, after a
// rotation, and at the next start.
func TestLinksOfAnOlderVersionAreSealedByTheProgram(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, "--min-free", "0")
	const shared, code, collected = "3nV9cK2uQyS1m0aZb7xTfw", "Kq7Zw9xT", "Zt5Lx0pWbR8yHc3VdN6jEg"
	look := func(a *App, sealed bool) {
		t.Helper()
		if p, err := a.shares.Describe(t.Context(), shared, ""); err != nil || !p.NeedsCode {
			t.Errorf("the share: %v, %v", p, err)
		}
		if _, err := a.shares.Open(t.Context(), shared, code, netip.MustParseAddr("192.0.2.1")); err != nil {
			t.Errorf("the code: %v", err)
		}
		if _, err := a.collects.Describe(t.Context(), collected); err != nil {
			t.Errorf("the collect link: %v", err)
		}
		dump := sqldbtest.Dump(t, a.platform.db)
		for _, secret := range []string{shared, code, collected} {
			if strings.Contains(dump, secret) == sealed {
				t.Errorf("a copy of the database tells %s; want %v", secret, !sealed)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(life(t, cfg, func(a *App) {
		must(a.platform.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for query, args := range map[string][]any{
				`INSERT INTO shares (id, account_id, user_id, node_id, token, code, epoch, expires_at, created_at)
					SELECT ?, t.account_id, u.id, t.root_id, ?, ?, 1, 0, 1 FROM trees t JOIN users u ON u.account_id = t.account_id`: {
					drive.NewID[drive.ShareID](), shared, code,
				},
				`INSERT INTO collects (id, account_id, user_id, folder_id, token, title, message, expires_at, created_at)
					SELECT ?, t.account_id, u.id, t.root_id, ?, 'x', '', 0, 1 FROM trees t JOIN users u ON u.account_id = t.account_id`: {
					drive.NewID[drive.CollectID](), collected,
				},
			} {
				if _, err := tx.Exec(ctx, query, args...); err != nil {
					return err
				}
			}
			return nil
		}))
		look(a, false)
		must(a.links().sealUntilDone(t.Context()))
		look(a, true)
		_, err := a.links().rotate(t.Context(), RotateRequest{})
		must(err)
		look(a, true)
	}))
	must(life(t, cfg, func(a *App) { look(a, true) }))
}
