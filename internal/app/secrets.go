package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"smartdrive/internal/domain/vault"
	"smartdrive/internal/usecase/collect"
	"smartdrive/internal/usecase/share"
)

// openVault opens the secret of links with the key that the configuration names, or else with the
// one that lies beside an embedded database; the first start makes that one. Several instances that
// were given no key keep the secret in plain, as there is no place that all of them see and no copy
// of the database has; one that was embedded before opens it with the key of that time.
func (g *ground) openVault(ctx context.Context) (*vault.Vault, error) {
	keys, err := g.secretKeys()
	if err != nil {
		return nil, err
	}
	plain := g.cfg.SecretKey == "" && !g.mode.keyFile
	if plain {
		g.log.Warn("the secrets of links are in the database in plain: whoever copies it can sign links and open those of shares; give all instances one --secret-key")
	}
	v := vault.New(vault.Options{DB: g.db, Keys: keys, Plain: plain})
	if _, err = v.Links(ctx); err == nil {
		err = v.Prepare(ctx)
	}
	if errors.Is(err, vault.ErrOtherKey) && g.cfg.SecretKey == "" && g.mode.keyFile {
		g.log.Warn("the key of the secrets of links is lost, as after a restore: a new one is made; links that were signed are void, links of shares and their codes cannot be shown any more")
		return v, v.Rotate(ctx)
	}
	if errors.Is(err, vault.ErrOtherKey) {
		err = fmt.Errorf("%w; give --secret-key, with that key behind the newest one (one that was made for an embedded database is the file secret.key in its directory); if it is lost, delete the rows link-secret and text-key:... of the table meta: signed links are void then, and links of shares and their codes cannot be shown any more", err)
	}
	return v, err
}

// links are what can be had with a token alone: their tokens and codes are sealed.
type links struct {
	log      *slog.Logger
	vault    *vault.Vault
	shares   *share.Shares
	collects *collect.Links
}

// sealUntilDone seals in the background what a version before has left in plain: it is served
// meanwhile as it is.
func (l links) sealUntilDone(ctx context.Context) error {
	return untilDone(ctx, l.log, "seal the tokens of links", l.seal)
}

func (l links) seal(ctx context.Context) error {
	return errors.Join(l.shares.Seal(ctx), l.collects.Seal(ctx))
}

func (g *ground) secretKeys() ([]vault.Key, error) {
	if text := string(g.cfg.SecretKey); text != "" {
		keys, err := vault.ParseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("read --secret-key: %w", err)
		}
		return keys, nil
	}
	path := filepath.Join(g.cfg.Data, keyFile)
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		keys, err := vault.ParseKeys(string(text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return keys, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the key of secrets: %w", err)
	case !g.mode.keyFile:
		return nil, nil
	}
	key := vault.NewKey()
	if err := appear(path, key.Text()+"\n"); err != nil {
		return nil, fmt.Errorf("write the key of secrets: %w", err)
	}
	return []vault.Key{key}, nil
}

// appear makes a file that is there as a whole or not at all, also after a loss of power.
func appear(path, text string) error {
	part := path + ".part"
	if err := writeDurably(part, text); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// RotateRequest and RotateAnswer are what RouteRotate takes and gives.
type (
	RotateRequest struct{}
	RotateAnswer  struct{}
)

// rotate voids whatever was signed, and seals the tokens and codes of links with a new key.
// Dying between the two leaves them under the one before; the next start goes on.
func (l links) rotate(ctx context.Context, _ RotateRequest) (RotateAnswer, error) {
	if err := l.vault.Rotate(ctx); err != nil {
		return RotateAnswer{}, err
	}
	if _, err := l.vault.Links(ctx); err != nil {
		return RotateAnswer{}, err
	}
	return RotateAnswer{}, l.seal(ctx)
}
