package idem

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// veil is a Sealer that can lose its key.
type veil struct{ lost bool }

func (v *veil) Seal(_ context.Context, _ sqldb.Querier, row, text string) (string, error) {
	return base64.StdEncoding.EncodeToString([]byte(row + "|" + text)), nil
}

func (v *veil) Open(_ context.Context, _ sqldb.Querier, row, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	text, ok := strings.CutPrefix(string(raw), row+"|")
	if err != nil || !ok || v.lost {
		return "", errors.New("it cannot be opened")
	}
	return text, nil
}

// TestSecretRequestsAreKeptSealed: the stored data of a secret request reveals neither its response
// nor, by trying, its contents; otherwise the key works like any other.
func TestSecretRequestsAreKeptSealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := &veil{}
	f.keys = NewKeys(f.db, Options{Now: f.clock.Now, Sealer: v})
	id, _ := f.ids.New(f.user)
	for i, key := range []string{"k", id} {
		req := f.request(t, key)
		req.Secret, req.Fingerprint = true, Fingerprint{7, 7, 7}
		first, err := f.keys.Once(t.Context(), req, create)
		if err != nil {
			t.Fatal(err)
		}
		var fingerprint, body []byte
		row := f.db.QueryRow(t.Context(), "SELECT fingerprint, body FROM idempotency"+whereKey, req.scoped().key()...)
		if err := row.Scan(&fingerprint, &body); err != nil || strings.Trim(string(fingerprint), "\x00") != "" || strings.Contains(string(body), `"id"`) {
			t.Errorf("%q and %q are kept, %v", fingerprint, body, err)
		}
		again, err := f.keys.Once(t.Context(), req, create)
		if err != nil || !again.Replayed || string(again.Body) != string(first.Body) || again.Status != first.Status || f.created(t) != i+1 {
			t.Errorf("%v, %v; first %v", again, err, first)
		}
		other := req
		other.Fingerprint = Fingerprint{8}
		_, err = f.keys.Once(t.Context(), other, create)
		wantKind(t, err, drive.KeyReused)
		other.Secret, other.Fingerprint = false, Fingerprint{}
		_, err = f.keys.Once(t.Context(), other, create)
		wantKind(t, err, drive.KeyReused)
		v.lost = true
		_, err = f.keys.Once(t.Context(), req, create)
		wantKind(t, err, drive.KeyReused)
		v.lost = false
	}
	if f.created(t) != 2 {
		t.Errorf("%d were made", f.created(t))
	}
}
