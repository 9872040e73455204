package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
)

// MaxSecretOverlap bounds how long the previous secret stays valid after a rotation, because a
// leaked one can sign requests until then.
const MaxSecretOverlap = 7 * 24 * time.Hour

// newSecret returns a new random secret in its text form. It never fails.
func newSecret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(random)
}

// Rotate replaces the secret of a webhook and returns the new one, which is never shown again.
// Requests are also signed with the previous secret for keep; zero: not any more. A second rotation
// within that time ends the secret that the first one kept. hook runs at the end of the
// transaction; nil: nothing. It fails with BadRequest if keep is out of range, and with NotFound.
func (w *Webhooks) Rotate(ctx context.Context, who drive.Who, id ID, keep time.Duration, hook CommitHook) (h Hook, err error) {
	if keep < 0 || keep > MaxSecretOverlap {
		return Hook{}, drive.BadField("keep_for", drive.OutOfRange, "min", 0, "max", int64(MaxSecretOverlap/time.Second))
	}
	if h, err = w.Find(ctx, who, id); err != nil {
		return Hook{}, err
	}
	secret := newSecret()
	err = w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if h, err = findForUpdate(ctx, tx, id); err != nil {
			return err
		}
		h.oldSealed, h.OldSecretUntil = "", 0
		if keep > 0 {
			h.oldSealed, h.OldSecretUntil = h.sealed, w.now().Add(keep)
		}
		if h.sealed, err = w.parts.Vault.Seal(ctx, tx, h.vaultRow(), secret); err != nil {
			return err
		}
		h.Secret, h.Updated = secret, w.now()
		_, err := tx.Exec(ctx, "UPDATE webhooks SET secret = ?, old_secret = ?, old_until = ?, updated_at = ? WHERE id = ?",
			h.sealed, h.oldSealed, h.OldSecretUntil, h.Updated, id)
		if err != nil {
			return fmt.Errorf("rotate the secret of webhook %s: %w", id, err)
		}
		if err := w.record(tx, activity.WebhookChanged, h); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, h)
	})
	return h, err
}

// openSecrets decrypts the secrets into h. It fails only for the current secret; a previous one
// that cannot be decrypted is ignored.
func (w *Webhooks) openSecrets(ctx context.Context, h *Hook) (err error) {
	if h.Secret, err = w.parts.Vault.Open(ctx, w.parts.DB, h.vaultRow(), h.sealed); err != nil {
		return err
	}
	if h.oldSealed == "" || h.OldSecretUntil <= w.now() {
		return nil
	}
	old, err := w.parts.Vault.Open(ctx, w.parts.DB, h.vaultRow(), h.oldSealed)
	if err != nil {
		w.opt.Log.WarnContext(ctx, "the previous secret of a webhook cannot be decrypted; requests are signed with the current one only", "webhook", h.ID, "error", err)
		return nil
	}
	h.oldSecret = old
	return nil
}

// sign returns the signatures of a request: by the secret, and by the previous one while that is
// valid.
func (w *Webhooks) sign(h Hook, id, timestamp string, body []byte) (string, error) {
	signature, err := Sign(h.Secret, id, timestamp, body)
	if err != nil || h.oldSecret == "" || h.OldSecretUntil <= w.now() {
		return signature, err
	}
	old, err := Sign(h.oldSecret, id, timestamp, body)
	return signature + " " + old, err
}
