package idem

import (
	"context"
	"crypto/sha256"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// inProgress is the status of a row whose effect has not committed. Only the transaction that
// inserted it sees it on SQLite.
const inProgress = 0

// stored is a key's row.
type stored struct {
	fingerprint []byte
	status      int
	body        []byte
	createdAt   drive.Time
}

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

// isSealed reports whether fingerprint and body of a row are sealed together, in the column of the
// body. A fingerprint alone would tell a secret of few bits, such as a code, to who tries them all.
func (s stored) isSealed() bool { return string(s.fingerprint) == string(sealedFingerprint) }

var sealedFingerprint = make([]byte, sha256.Size)

// kept returns the columns fingerprint and body of a request's row.
func (k *Keys) kept(ctx context.Context, tx *sqldb.Tx, req Request, body []byte) (fingerprint, content []byte, err error) {
	if !req.Secret || k.opt.Sealer == nil {
		return req.Fingerprint[:], append([]byte{}, body...), nil
	}
	sealed, err := k.opt.Sealer.Seal(ctx, tx, req.row(), string(req.Fingerprint[:])+string(body))
	if err != nil {
		return nil, nil, fmt.Errorf("seal what a key of %s keeps: %w", req.Route, err)
	}
	return sealedFingerprint, []byte(sealed), nil
}

// reveal opens what is sealed. What cannot be opened, because its key is lost, is an answer to
// nothing: the key counts as used for something else, since whether it did its work cannot be told.
func (k *Keys) reveal(ctx context.Context, q sqldb.Querier, req Request, s *stored) error {
	switch {
	case !s.isSealed():
		return nil
	case !req.Secret || k.opt.Sealer == nil: // a prepare id that was used for something else
		return drive.Fail(drive.KeyReused)
	}
	text, err := k.opt.Sealer.Open(ctx, q, req.row(), string(s.body))
	switch {
	case err != nil && drive.KindOf(err) != drive.Internal: // the database
		return err
	case err != nil || len(text) < sha256.Size:
		return drive.Wrap(err, drive.KeyReused)
	}
	s.fingerprint, s.body = []byte(text[:sha256.Size]), []byte(text[sha256.Size:])
	return nil
}

// row is what is sealed for a request is bound to.
func (r Request) row() string {
	return fmt.Sprintf("key %s %s %s %s", r.User, r.Method, r.Route, r.Key.text)
}

// answer says what the row means for a request: its response, nothing because the key's life is
// over, or a refusal. A used prepare id has no second life.
func (s stored) answer(req Request, now drive.Time) (Response, bool, error) {
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
