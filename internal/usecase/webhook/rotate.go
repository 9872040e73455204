package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/sqldb"
)

// MostKeep is how long a secret may go on beside the one that has taken its place, at most: until
// then whoever has found it out can sign as well.
const MostKeep = 7 * 24 * time.Hour

func newSecret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // does not fail
	return secretPrefix + base64.StdEncoding.EncodeToString(random)
}

// Rotate gives a webhook another secret, which is in the answer and never shown again. For as long
// as keep says requests are signed with the one before, too; zero: it ends at once. Of two
// rotations within that time the later one ends the secret that the first has kept.
func (w *Webhooks) Rotate(ctx context.Context, who drive.Who, id ID, keep time.Duration, hook Keep) (h Hook, err error) {
	if keep < 0 || keep > MostKeep {
		return Hook{}, drive.Bad("keep_for", drive.OutOfRange, "min", 0, "max", int64(MostKeep/time.Second))
	}
	if h, err = w.Find(ctx, who, id); err != nil {
		return Hook{}, err
	}
	secret := newSecret()
	err = w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if h, err = findToChange(ctx, tx, id); err != nil {
			return err
		}
		h.oldSealed, h.OldUntil = "", 0
		if keep > 0 {
			h.oldSealed, h.OldUntil = h.sealed, w.now().Add(keep)
		}
		if h.sealed, err = w.parts.Vault.Seal(ctx, tx, h.row(), secret); err != nil {
			return err
		}
		h.Secret, h.Updated = secret, w.now()
		_, err := tx.Exec(ctx, "UPDATE webhooks SET secret = ?, old_secret = ?, old_until = ?, updated_at = ? WHERE id = ?",
			h.sealed, h.oldSealed, h.OldUntil, h.Updated, id)
		if err != nil {
			return fmt.Errorf("rotate the secret of webhook %s: %w", id, err)
		}
		if err := w.note(tx, activity.WebhookChanged, h); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, h)
	})
	return h, err
}

// openSecrets reads what requests are signed with. The old secret is no reason to send nothing.
func (w *Webhooks) openSecrets(ctx context.Context, h *Hook) (err error) {
	if h.Secret, err = w.parts.Vault.Open(ctx, w.parts.DB, h.row(), h.sealed); err != nil {
		return err
	}
	if h.oldSealed == "" || h.OldUntil <= w.now() {
		return nil
	}
	old, err := w.parts.Vault.Open(ctx, w.parts.DB, h.row(), h.oldSealed)
	if err != nil {
		w.opt.Log.WarnContext(ctx, "the old secret of a webhook cannot be opened", "webhook", h.ID, "error", err)
		return nil
	}
	h.oldSecret = old
	return nil
}

// sign makes the signatures of a request: with the secret, and with the one before for as long as
// it is kept.
func (w *Webhooks) sign(h Hook, id, timestamp string, body []byte) (string, error) {
	signature, err := Sign(h.Secret, id, timestamp, body)
	if err != nil || h.oldSecret == "" || h.OldUntil <= w.now() {
		return signature, err
	}
	old, err := Sign(h.oldSecret, id, timestamp, body)
	return signature + " " + old, err
}
