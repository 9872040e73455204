package idem

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	keyLife    = 24 * time.Hour      // how long a key is remembered
	purgeAfter = keyLife + time.Hour // rows are deleted an hour after they expire, to tolerate clock differences
	purgeBatch = 500                 // rows per transaction, well within its 50 ms
)

// Fingerprint is the SHA-256 of a request's path and body.
type Fingerprint [sha256.Size]byte

// Request is a creation request with its key. With a zero Key the effect runs without protection.
type Request struct {
	User        drive.UserID
	Method      string
	Route       string // route pattern, not the path: "/uploads"
	Key         Key
	Fingerprint Fingerprint
	Secret      bool // request or response contains a secret: their stored form is encrypted
}

// Response is the response to a request.
type Response struct {
	Status   int
	Body     []byte // as sent to the client
	Replayed bool   // stored by an earlier request; the effect did not run
}

// Effect performs a request inside the transaction and returns the response to store. It returns an
// error to refuse the request.
type Effect func(ctx context.Context, tx *sqldb.Tx) (status int, body []byte, err error)

// Options configure the package. The zero value of each field means its default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Sealer encrypts the stored data of secret requests. Default: none, and the data is stored
	// unencrypted.
	Sealer Sealer
}

// Sealer encrypts texts so that the database does not reveal them. row identifies the row and is
// authenticated. The methods only read the database, through q.
type Sealer interface {
	// Seal encrypts text so that only Open with the same row returns it.
	Seal(ctx context.Context, q sqldb.Querier, row, text string) (string, error)
	// Open decrypts the output of Seal. It fails if sealed is damaged or of another row.
	Open(ctx context.Context, q sqldb.Querier, row, sealed string) (string, error)
}

// withDefaults returns the options with Now set.
func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Keys stores the idempotency keys of all users.
type Keys struct {
	db  *sqldb.DB
	opt Options
}

// NewKeys returns the keys stored in db.
func NewKeys(db *sqldb.DB, opt Options) *Keys { return &Keys{db: db, opt: opt.withDefaults()} }

// Once returns the stored response of the request's key. If there is none, it runs effect in a new
// transaction, which also stores the response. It fails with KeyReused if the key was used for
// another request, with InProgress if the first request has not ended, and with the error of
// effect; the key is then free again.
func (k *Keys) Once(ctx context.Context, req Request, effect Effect) (Response, error) {
	resp, ok, err := k.Lookup(ctx, k.db, req)
	if err != nil || ok {
		return resp, err
	}
	err = k.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		resp, err = k.Do(ctx, tx, req, effect)
		return err
	})
	if err != nil {
		return Response{}, err
	}
	return resp, nil
}

// Lookup returns the stored response of the request's key, and false if there is none. Call it
// before expensive preparation; Do may still find a response. It fails with KeyReused if the key
// was used for another request, and with InProgress if the first request has not ended.
func (k *Keys) Lookup(ctx context.Context, q sqldb.Querier, req Request) (Response, bool, error) {
	if req.Key.IsZero() {
		return Response{}, false, nil
	}
	row, err := k.find(ctx, q, req.scoped())
	if drive.IsKind(err, drive.NotFound) {
		return Response{}, false, nil
	} else if err != nil {
		return Response{}, false, err
	}
	return row.response(req.scoped(), k.now())
}

// Do runs effect within tx and stores its response under the key. If a request with the key has
// succeeded, Do returns the stored response instead. With the zero Key it only runs effect. The
// caller must return Do's error from the transaction. See the package comment for work outside of
// the transaction. Do fails with KeyReused if the key was used for another request, and with
// InProgress if the first request has not ended.
func (k *Keys) Do(ctx context.Context, tx *sqldb.Tx, req Request, effect Effect) (Response, error) {
	if req.Key.IsZero() {
		status, body, err := effect(ctx, tx)
		return Response{Status: status, Body: body}, err
	}
	req = req.scoped()
	isNew, err := k.claim(ctx, tx, req)
	if err != nil {
		return Response{}, err
	}
	if !isNew {
		row, err := k.find(ctx, tx, req)
		if err != nil {
			return Response{}, err
		}
		resp, ok, err := row.response(req, k.now())
		if err != nil || ok {
			return resp, err
		}
		if err := k.renew(ctx, tx, req); err != nil {
			return Response{}, err
		}
	}
	return k.runEffect(ctx, tx, req, effect)
}

// now returns the current time.
func (k *Keys) now() drive.Time { return drive.TimeOf(k.opt.Now()) }

// runEffect calls effect in the transaction that has claimed the key and returns its response. If
// the status is 2xx it stores the response with the key; else it deletes the key, so that the
// client may retry with it. On an error tx must be rolled back, which releases the key too.
func (k *Keys) runEffect(ctx context.Context, tx *sqldb.Tx, req Request, effect Effect) (Response, error) {
	status, body, err := effect(ctx, tx)
	if err != nil {
		return Response{}, err
	}
	_, kept, err := k.storedForm(ctx, tx, req, body)
	if err != nil {
		return Response{}, err
	}
	query, args := "UPDATE idempotency SET status = ?, body = ?", []any{status, kept}
	if status < 200 || status > 299 {
		query, args = "DELETE FROM idempotency", nil
	}
	if _, err := tx.Exec(ctx, query+whereKey, append(args, req.key()...)...); err != nil {
		return Response{}, fmt.Errorf("store the response of %s: %w", req.Route, err)
	}
	return Response{Status: status, Body: body}, nil
}

// claim inserts the key's row and reports whether it is new. It fails with InProgress if a
// concurrent request holds the row for too long.
func (k *Keys) claim(ctx context.Context, tx *sqldb.Tx, req Request) (bool, error) {
	fingerprint, body, err := k.storedForm(ctx, tx, req, nil)
	if err != nil {
		return false, err
	}
	isNew, err := tx.InsertNew(ctx, "INSERT INTO idempotency (user_id, method, route, `key`, fingerprint, status, body, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", append(req.key(), fingerprint, inProgress, body, k.now())...)
	switch {
	case sqldb.IsLockTimeout(err): // a concurrent request with the key has not ended
		return false, drive.Fail(drive.InProgress, "retry_after", 1)
	case err != nil:
		return false, fmt.Errorf("claim a key of %s: %w", req.Route, err)
	}
	return isNew, nil
}

// renew makes the row of an expired key that is not purged yet a claim of req: in progress, from
// now on, with req's fingerprint.
func (k *Keys) renew(ctx context.Context, tx *sqldb.Tx, req Request) error {
	fingerprint, body, err := k.storedForm(ctx, tx, req, nil)
	if err != nil {
		return err
	}
	args := append([]any{fingerprint, inProgress, body, k.now()}, req.key()...)
	if _, err := tx.Exec(ctx, "UPDATE idempotency SET fingerprint = ?, status = ?, body = ?, created_at = ?"+whereKey,
		args...); err != nil {
		return fmt.Errorf("renew a key of %s: %w", req.Route, err)
	}
	return nil
}

// whereKey is the condition for the row of Request.key.
const whereKey = " WHERE user_id = ? AND method = ? AND route = ? AND `key` = ?"

// key returns the columns that identify the row.
func (r Request) key() []any { return []any{r.User, r.Method, r.Route, r.Key.text} }

// scoped returns the request for a prepare id with one scope for all routes, so that the id creates
// only one thing. The route becomes part of the fingerprint instead.
func (r Request) scoped() Request {
	if !r.Key.prepared {
		return r
	}
	r.Fingerprint = sha256.Sum256(fmt.Appendf(nil, "%s %s\n%s", r.Method, r.Route, r.Fingerprint[:]))
	r.Method, r.Route = "*", "prepared"
	return r
}

// Purge deletes the rows of keys that expired long enough ago (purgeAfter), in transactions of
// about purgeBatch rows, until none is left. It returns the number of deleted rows, also with an
// error, after which earlier batches stay deleted.
func (k *Keys) Purge(ctx context.Context, now time.Time) (int64, error) {
	before := drive.TimeOf(now.Add(-purgeAfter))
	for total := int64(0); ; {
		var n int64
		err := k.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			var last drive.Time // created_at of the last row of the batch: deleting by age uses one range of one index
			err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(created_at), 0) FROM
				(SELECT created_at FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?) AS oldest`, before, purgeBatch).Scan(&last)
			if n = 0; err == nil && last > 0 {
				n, err = tx.Exec(ctx, "DELETE FROM idempotency WHERE created_at <= ?", last)
			}
			return err
		})
		if err != nil {
			return total, fmt.Errorf("purge keys: %w", err)
		}
		if total += n; n < purgeBatch {
			return total, nil
		}
	}
}
