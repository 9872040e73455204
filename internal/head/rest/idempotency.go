package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// keyHeader is the request header of the idempotency key.
const keyHeader = "Idempotency-Key"

// parseKey sets c.key from Idempotency-Key. It ignores the header on a route that takes no key.
// Several headers or a malformed key fail with drive.BadRequest.
func (c *call) parseKey() (err error) {
	lines := c.r.Header.Values(keyHeader)
	switch {
	case !c.route.idempotent || len(lines) == 0:
		return nil
	case len(lines) > 1:
		return drive.BadField(keyHeader, drive.Malformed, "expected", "one value")
	}
	c.key, err = c.Prepared.ParseKey(c.limitKey(), lines[0])
	return err
}

// localUser is the user id under which the keys of the local administrator, who has no user, are
// stored. No real id equals it, because real ids begin with a time.
var localUser = drive.UserID{15: 1}

// keyUser returns the user that the idempotency keys of this request belong to.
func (c *call) keyUser() drive.UserID {
	if user := c.limitKey(); !user.IsZero() {
		return user
	}
	return localUser
}

// request returns the identity of this request for its idempotency key: user, route, key, and a
// hash of path and body. The body must have been read into c.body.
func (c *call) request() idem.Request {
	h := sha256.New()
	h.Write([]byte(c.r.URL.EscapedPath() + "\n")) // a hash does not fail
	h.Write(c.body)
	return idem.Request{
		User: c.keyUser(), Method: c.route.method, Route: c.route.path, Key: c.key, Fingerprint: idem.Fingerprint(h.Sum(nil)),
		Secret: c.route.secret,
	}
}

// replay is the error that rolls back a transaction whose effect has happened before under the same
// key. It carries the stored response.
type replay struct{ idem.Response }

func (*replay) Error() string { return "answered before under the same key" }

// replayOf converts a stored response to a reply.
func replayOf(r idem.Response) reply {
	return reply{status: r.Status, raw: r.Body, replayed: r.Replayed}
}

// once calls do, which creates something, or returns the stored response if the idempotency key has
// been used. do must call keep, or a hook that does, within its transaction, so that the response
// is stored atomically. Without a key it only enforces the interval between creations. It fails
// with drive.KeyReused if the key was used for another request.
func (c *call) once(ctx context.Context, do func() (reply, error)) (reply, error) {
	if c.key.IsZero() {
		return c.withInterval(do)
	}
	stored, found, err := c.Keys.Lookup(ctx, c.db, c.request())
	if err != nil || found {
		return replayOf(stored), err
	}
	rep, err := c.withInterval(do)
	if before, replayed := errors.AsType[*replay](err); replayed {
		return replayOf(before.Response), nil
	}
	if err != nil { // a concurrent request with the same key may have created what now conflicts
		if stored, found, lookErr := c.Keys.Lookup(ctx, c.db, c.request()); lookErr == nil && found {
			return replayOf(stored), nil
		}
	}
	return rep, err
}

// withInterval calls do, which creates something, unless the caller has created such a thing too
// recently; then it fails with drive.Rate. If do fails, the attempt does not count.
func (c *call) withInterval(do func() (reply, error)) (reply, error) {
	undo, err := c.Intervals.Begin(c.limitKey(), c.route.method+" "+c.route.path)
	if err != nil {
		return reply{}, err
	}
	rep, err := do()
	if err != nil {
		undo()
	}
	return rep, err
}

// effect changes something within tx and returns the reply, which is stored under the idempotency
// key.
type effect func(ctx context.Context, tx *sqldb.Tx) (reply, error)

// keep runs do within tx and stores its reply under the idempotency key of the request. If the key
// has been used, it fails with a *replay, which carries the stored response; the caller must return
// that error, so that tx is rolled back.
func (c *call) keep(ctx context.Context, tx *sqldb.Tx, do effect) (rep reply, err error) {
	answer, err := c.Keys.Do(ctx, tx, c.request(), func(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) {
		if rep, err = do(ctx, tx); err != nil {
			return 0, nil, err
		}
		raw, err := json.Marshal(rep.body)
		return rep.status, raw, err
	})
	if err == nil && answer.Replayed {
		err = &replay{answer}
	}
	return rep, err
}

// storeResponse stores the response for a key. A use case calls it in its transaction with what it
// has created.
type storeResponse[V any] = func(ctx context.Context, tx *sqldb.Tx, made V) error

// unchanged returns made, for results that replies show as they are.
func unchanged[V any](_ *call, made V) V { return made }

// makeOnce creates something once per key and replies 201 with show's rendering. do receives the
// function that it must call in its transaction. A repeated request gets the stored response; the
// same key with another request fails with drive.KeyReused.
func makeOnce[V, W any](ctx context.Context, c *call, show func(*call, V) W, do func(storeResponse[V]) (V, error)) (reply, error) {
	return c.once(ctx, func() (reply, error) {
		made, err := do(func(ctx context.Context, tx *sqldb.Tx, made V) error {
			if c.key.IsZero() {
				return nil
			}
			_, err := c.keep(ctx, tx, func(context.Context, *sqldb.Tx) (reply, error) { return created(show(c, made)) })
			return err
		})
		if err != nil {
			return reply{}, err
		}
		return created(show(c, made))
	})
}

// hook returns a hook for the use cases of package files, which call it at the end of their
// transaction; it stores the response with the status under the idempotency key. It is nil without
// a key.
func (c *call) hook(status int) files.Hook {
	if c.key.IsZero() {
		return nil
	}
	return func(ctx context.Context, tx *sqldb.Tx, r files.Result) error {
		_, err := c.keep(ctx, tx, func(context.Context, *sqldb.Tx) (reply, error) { return resultReply(status, r), nil })
		return err
	}
}

// beginning returns the function with which an upload begins at most once per idempotency key; nil
// without a key.
func (u uploads) beginning(c *call) upload.Once[upload.View] {
	if c.key.IsZero() {
		return nil
	}
	return func(ctx context.Context, tx *sqldb.Tx, begin func(context.Context, *sqldb.Tx) (upload.View, error)) (v upload.View, err error) {
		_, err = c.keep(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (reply, error) {
			if v, err = begin(ctx, tx); err != nil {
				return reply{}, err
			}
			return u.begun(ctx, c, tx, v)
		})
		return v, err
	}
}
