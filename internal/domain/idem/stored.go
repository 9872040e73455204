package idem

import (
	"context"
	"crypto/sha256"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// inProgress is the status of a row before its effect has committed. On SQLite only the inserting
// transaction sees it.
const inProgress = 0

// stored is the row of a key.
type stored struct {
	fingerprint []byte     // of the request that claimed the key
	status      int        // of the response; inProgress: none yet
	body        []byte     // of the response
	createdAt   drive.Time // when the key was claimed
}

// find reads and decrypts the row of a request's key, or fails with NotFound.
func (k *Keys) find(ctx context.Context, q sqldb.Querier, req Request) (stored, error) {
	var s stored
	row := q.QueryRow(ctx, "SELECT fingerprint, status, body, created_at FROM idempotency"+whereKey, req.key()...)
	if err := row.Scan(&s.fingerprint, &s.status, &s.body, &s.createdAt); err != nil {
		return stored{}, fmt.Errorf("find a key of %s: %w", req.Route, err)
	}
	if err := k.reveal(ctx, q, req, &s); err != nil {
		return stored{}, err
	}
	return s, nil
}

// isSealed reports whether fingerprint and body are encrypted together in the column of the body. A
// stored fingerprint would reveal a short secret, such as a code, by trying all values.
func (s stored) isSealed() bool { return string(s.fingerprint) == string(sealedFingerprint) }

// sealedFingerprint marks an encrypted row.
var sealedFingerprint = make([]byte, sha256.Size)

// storedForm returns the values of the columns fingerprint and body for a response. If the request
// is secret and there is a Sealer, the body holds both, encrypted, and the fingerprint is
// sealedFingerprint; else they are stored plainly. It fails if sealing fails.
func (k *Keys) storedForm(ctx context.Context, tx *sqldb.Tx, req Request, body []byte) (fingerprint, content []byte, err error) {
	if !req.Secret || k.opt.Sealer == nil {
		return req.Fingerprint[:], append([]byte{}, body...), nil
	}
	sealed, err := k.opt.Sealer.Seal(ctx, tx, req.sealContext(), string(req.Fingerprint[:])+string(body))
	if err != nil {
		return nil, nil, fmt.Errorf("seal what a key of %s keeps: %w", req.Route, err)
	}
	return sealedFingerprint, []byte(sealed), nil
}

// reveal decrypts an encrypted row. If that is impossible, because the encryption key is lost, it
// fails with KeyReused, since the result of the first request is unknown.
func (k *Keys) reveal(ctx context.Context, q sqldb.Querier, req Request, s *stored) error {
	switch {
	case !s.isSealed():
		return nil
	case !req.Secret || k.opt.Sealer == nil: // a prepare id that was used for another request
		return drive.Fail(drive.KeyReused)
	}
	text, err := k.opt.Sealer.Open(ctx, q, req.sealContext(), string(s.body))
	switch {
	case err != nil && drive.KindOf(err) != drive.Internal: // an error of the database
		return err
	case err != nil || len(text) < sha256.Size:
		return drive.Wrap(err, drive.KeyReused)
	}
	s.fingerprint, s.body = []byte(text[:sha256.Size]), []byte(text[sha256.Size:])
	return nil
}

// sealContext returns the identity of the row to which its encrypted data is bound.
func (r Request) sealContext() string {
	return fmt.Sprintf("key %s %s %s %s", r.User, r.Method, r.Route, r.Key.text)
}

// response returns the stored response for a request. It returns false if the key has expired. It
// fails with Gone for an expired prepare id, KeyReused for another request, and InProgress for an
// unfinished one.
func (s stored) response(req Request, now drive.Time) (Response, bool, error) {
	switch {
	case now.Sub(s.createdAt) >= keyLife && req.Key.prepared:
		return Response{}, false, drive.Fail(drive.Gone, "reason", "expired")
	case now.Sub(s.createdAt) >= keyLife:
		return Response{}, false, nil
	case string(s.fingerprint) != string(req.Fingerprint[:]):
		return Response{}, false, drive.Fail(drive.KeyReused)
	case s.status == inProgress:
		return Response{}, false, drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return Response{Status: s.status, Body: s.body, Replayed: true}, true, nil
}
