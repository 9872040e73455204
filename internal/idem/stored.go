package idem

import (
	"context"
	"fmt"

	"smartdrive/internal/drive"
	"smartdrive/internal/sqldb"
)

// inProgress is the status of a row whose effect has not committed. Only the transaction that inserted it sees it on SQLite.
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
	return s, nil
}

// answer says what the row means for a request: its response, nothing because the key's life is over, or a refusal. A used
// prepare id has no second life.
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
