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

	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/share"
)

// openVault opens the secrets of links with --secret-key, or with the key file of an embedded
// database, which the first start creates. Several instances without a --secret-key store the
// secrets in plain text, because no place except the database is shared by all of them. It fails
// for a key that does not match the stored secrets.
func (p *platform) openVault(ctx context.Context) (*vault.Vault, error) {
	keys, err := p.secretKeys()
	if err != nil {
		return nil, err
	}
	plain := p.cfg.SecretKey == "" && !p.mode.keyFile
	if plain {
		p.log.Warn("the secrets of links are stored unencrypted: a copy of the database can open shares and sign links; start all instances with the same --secret-key")
	}
	v := vault.New(vault.Options{DB: p.db, Keys: keys, Plain: plain})
	if _, err = v.LinkSecret(ctx); err == nil {
		err = v.Prepare(ctx)
	}
	if errors.Is(err, vault.ErrUnknownKey) && p.cfg.SecretKey == "" && p.mode.keyFile {
		p.log.Warn("the key of the secrets of links is lost, as after a restore; a new key was created: signed links are void, and links of shares and their codes cannot be shown any more")
		return v, v.Rotate(ctx)
	}
	if errors.Is(err, vault.ErrUnknownKey) {
		err = fmt.Errorf("%w; give --secret-key, with that key behind the newest one (one that was made for an embedded database is the file secret.key in its directory); if it is lost, delete the rows link-secret and text-key:... of the table meta: signed links are void then, and links of shares and their codes cannot be shown any more", err)
	}
	return v, err
}

// links seals the tokens and codes of public links, which give access by themselves.
type links struct {
	log      *slog.Logger
	vault    *vault.Vault
	shares   *share.Shares
	collects *collect.Links
}

// sealUntilDone encrypts the tokens of links that an earlier release stored in plain text, and
// retries until that is done or ctx ends. Requests are served meanwhile.
func (l links) sealUntilDone(ctx context.Context) error {
	return untilDone(ctx, l.log, "seal the tokens of links", l.seal)
}

// seal encrypts the tokens and codes of all links, shares and collects, with the current key. It
// returns the errors joined and may be repeated.
func (l links) seal(ctx context.Context) error {
	return errors.Join(l.shares.SealAll(ctx), l.collects.SealAll(ctx))
}

// secretKeys returns the keys of --secret-key or of the key file, which it creates where the mode
// keeps one. Without a key it returns nil.
func (p *platform) secretKeys() ([]vault.Key, error) {
	if text := string(p.cfg.SecretKey); text != "" {
		keys, err := vault.ParseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("read --secret-key: %w", err)
		}
		return keys, nil
	}
	path := filepath.Join(p.cfg.Data, keyFile)
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
	case !p.mode.keyFile:
		return nil, nil
	}
	key := vault.NewKey()
	if err := writeAtomically(path, key.Text()+"\n"); err != nil {
		return nil, fmt.Errorf("write the key of secrets: %w", err)
	}
	return []vault.Key{key}, nil
}

// writeAtomically writes a file that is complete or absent, also after a power loss. It replaces an
// existing file and fails with an error of the file system.
func writeAtomically(path, text string) error {
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

// RotateRequest and RotateResult are the request and response of RouteRotate.
type (
	RotateRequest struct{}
	RotateResult  struct{}
)

// rotate invalidates all signatures and seals the tokens and codes of links with a new key. After a
// crash between the two, the next start continues sealing. It fails with an error of the database.
func (l links) rotate(ctx context.Context, _ RotateRequest) (RotateResult, error) {
	if err := l.vault.Rotate(ctx); err != nil {
		return RotateResult{}, err
	}
	if _, err := l.vault.LinkSecret(ctx); err != nil {
		return RotateResult{}, err
	}
	return RotateResult{}, l.seal(ctx)
}
