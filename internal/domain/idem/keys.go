package idem

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	keyLife    = 24 * time.Hour
	purgeAfter = keyLife + time.Hour // rows are removed later than they stop counting, so that no clock is cut fine
	purgeBatch = 500                 // rows a transaction, well within its 50 ms
)

// Fingerprint is the SHA-256 of what a request asks for: its path and body.
type Fingerprint [sha256.Size]byte

// Request is a creation under a key. A zero Key means that the client asked for no protection: the
// effect simply runs.
type Request struct {
	User        drive.UserID
	Method      string
	Route       string // the pattern, not the path: "/uploads"
	Key         Key
	Fingerprint Fingerprint
	Secret      bool // the request or its response tells a secret: what is kept of both is sealed
}

// Response is what was answered, now or the first time.
type Response struct {
	Status   int
	Body     []byte
	Replayed bool // it was answered before; the effect did not run
}

// Effect does the work of a request inside the transaction and returns the response to keep. A
// refusal is an error.
type Effect func(ctx context.Context, tx *sqldb.Tx) (status int, body []byte, err error)

// Options configure the package. The zero value of each field is its default.
type Options struct {
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Sealer seals what is kept of secret requests. Default: none, and they are kept like all
	// others.
	Sealer Sealer
}

// Sealer makes of a text one that tells nothing to who reads the database. Both methods make no
// transaction, and read by q at most.
type Sealer interface {
	Seal(ctx context.Context, q sqldb.Querier, row, text string) (string, error)
	Open(ctx context.Context, q sqldb.Querier, row, sealed string) (string, error)
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Keys are the idempotency keys of all users.
type Keys struct {
	db  *sqldb.DB
	opt Options
}

// NewKeys returns the keys kept in db.
func NewKeys(db *sqldb.DB, opt Options) *Keys { return &Keys{db: db, opt: opt.withDefaults()} }

// Once is Lookup, then Do in a transaction of its own: for effects that need no preparation.
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

// Lookup returns the stored response, if there is one: the cheap question to ask before expensive
// work. It is not a promise that Do will run the effect. KeyReused when the key was used for
// something else, InProgress when its first use has not ended.
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
	return row.answer(req.scoped(), k.now())
}

// Do runs the effect once for the key: the first caller's effect runs, later ones get its response.
// The caller must return Do's error from the transaction. Use the package comment's pattern where
// there is work outside the transaction.
func (k *Keys) Do(ctx context.Context, tx *sqldb.Tx, req Request, effect Effect) (Response, error) {
	if req.Key.IsZero() {
		status, body, err := effect(ctx, tx)
		return Response{Status: status, Body: body}, err
	}
	req = req.scoped()
	mine, err := k.claim(ctx, tx, req)
	if err != nil {
		return Response{}, err
	}
	if !mine {
		row, err := k.find(ctx, tx, req)
		if err != nil {
			return Response{}, err
		}
		resp, ok, err := row.answer(req, k.now())
		if err != nil || ok {
			return resp, err
		}
		if err := k.renew(ctx, tx, req); err != nil {
			return Response{}, err
		}
	}
	return k.run(ctx, tx, req, effect)
}

func (k *Keys) now() drive.Time { return drive.TimeOf(k.opt.Now()) }

// run runs the effect under a claimed key and keeps its response if it is a success.
func (k *Keys) run(ctx context.Context, tx *sqldb.Tx, req Request, effect Effect) (Response, error) {
	status, body, err := effect(ctx, tx)
	if err != nil {
		return Response{}, err
	}
	_, kept, err := k.kept(ctx, tx, req, body)
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

// claim inserts the key's row if it is absent and reports whether it did.
func (k *Keys) claim(ctx context.Context, tx *sqldb.Tx, req Request) (bool, error) {
	fingerprint, body, err := k.kept(ctx, tx, req, nil)
	if err != nil {
		return false, err
	}
	mine, err := tx.InsertNew(ctx, "INSERT INTO idempotency (user_id, method, route, `key`, fingerprint, status, body, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", append(req.key(), fingerprint, inProgress, body, k.now())...)
	switch {
	case sqldb.IsLockTimeout(err): // the first user of the key has not ended
		return false, drive.Fail(drive.InProgress, "retry_after", 1)
	case err != nil:
		return false, fmt.Errorf("claim a key of %s: %w", req.Route, err)
	}
	return mine, nil
}

// renew takes over the row of a key whose life is over but which was not purged yet.
func (k *Keys) renew(ctx context.Context, tx *sqldb.Tx, req Request) error {
	fingerprint, body, err := k.kept(ctx, tx, req, nil)
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

const whereKey = " WHERE user_id = ? AND method = ? AND route = ? AND `key` = ?"

func (r Request) key() []any { return []any{r.User, r.Method, r.Route, r.Key.text} }

// scoped widens the scope of a prepare id from one route to all, so that it creates one thing in
// all; what it was used for goes into the fingerprint instead.
func (r Request) scoped() Request {
	if !r.Key.prepared {
		return r
	}
	r.Fingerprint = sha256.Sum256(fmt.Appendf(nil, "%s %s\n%s", r.Method, r.Route, r.Fingerprint[:]))
	r.Method, r.Route = "*", "prepared"
	return r
}

// Purge removes the rows of keys that ended, in batches, and returns how many.
func (k *Keys) Purge(ctx context.Context, now time.Time) (int64, error) {
	before := drive.TimeOf(now.Add(-purgeAfter))
	for total := int64(0); ; {
		var n int64
		err := k.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			var last drive.Time // of the batch: they go by age, which is one range of one index
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
