package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/upload"
)

const keyHeader = "Idempotency-Key"

// parseKey reads the Idempotency-Key of a route that takes one; elsewhere it means nothing.
func (c *call) parseKey() (err error) {
	lines := c.r.Header.Values(keyHeader)
	switch {
	case !c.route.once || len(lines) == 0:
		return nil
	case len(lines) > 1:
		return drive.Bad(keyHeader, drive.Malformed, "expected", "one value")
	}
	c.key, err = c.Prepared.ParseKey(c.actor(), lines[0])
	return err
}

// localUser stands for the machine's administrator, who has no user, where keys are kept. A real id
// begins with a time.
var localUser = drive.UserID{15: 1}

// keyUser returns the user whom the keys of this request belong to.
func (c *call) keyUser() drive.UserID {
	if user := c.actor(); !user.IsZero() {
		return user
	}
	return localUser
}

// request names the creation that the key protects.
func (c *call) request() idem.Request {
	h := sha256.New()
	h.Write([]byte(c.r.URL.EscapedPath() + "\n")) // a hash does not fail
	h.Write(c.body)
	return idem.Request{
		User: c.keyUser(), Method: c.route.method, Route: c.route.path, Key: c.key, Fingerprint: idem.Fingerprint(h.Sum(nil)),
		Secret: c.route.secret,
	}
}

// replay is the error by which a use case is stopped whose effect has happened before: nothing of
// this attempt stays.
type replay struct{ idem.Response }

func (*replay) Error() string { return "answered before under the same key" }

func replayOf(r idem.Response) reply {
	return reply{status: r.Status, raw: r.Body, replayed: r.Replayed}
}

// once does what creates something, or answers as the first time. do must run keep, or files' hook,
// in its transaction.
func (c *call) once(ctx context.Context, do func() (reply, error)) (reply, error) {
	if c.key.IsZero() {
		return c.spaced(do)
	}
	stored, found, err := c.Keys.Lookup(ctx, c.db, c.request())
	if err != nil || found {
		return replayOf(stored), err
	}
	rep, err := c.spaced(do)
	if before, replayed := errors.AsType[*replay](err); replayed {
		return replayOf(before.Response), nil
	}
	if err != nil { // a twin of this request may have been first, and what it made may be what is in the way now
		if stored, found, lookErr := c.Keys.Lookup(ctx, c.db, c.request()); lookErr == nil && found {
			return replayOf(stored), nil
		}
	}
	return rep, err
}

// spaced does what creates something, unless the interval of the caller's last such creation has
// not ended. A repeat under a key does not come here: it gets the first answer.
func (c *call) spaced(do func() (reply, error)) (reply, error) {
	undo, err := c.Intervals.Begin(c.actor(), c.route.method+" "+c.route.path)
	if err != nil {
		return reply{}, err
	}
	rep, err := do()
	if err != nil {
		undo()
	}
	return rep, err
}

// effect does what a key makes happen once, and renders what is kept.
type effect func(ctx context.Context, tx *sqldb.Tx) (reply, error)

// keep runs the effect under the key within the transaction that creates, or stops it with a
// replay.
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

// keeping is what a use case calls in its transaction with what it has made.
type keeping[V any] = func(ctx context.Context, tx *sqldb.Tx, made V) error

func asItIs[V any](_ *call, made V) V { return made }

// makeOnce makes something once for a key, and answers with it as show renders it.
func makeOnce[V, W any](ctx context.Context, c *call, show func(*call, V) W, do func(keeping[V]) (V, error)) (reply, error) {
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

// hook is keep for the use cases of package files, which have done their work by then.
func (c *call) hook(status int) files.Hook {
	if c.key.IsZero() {
		return nil
	}
	return func(ctx context.Context, tx *sqldb.Tx, r files.Result) error {
		_, err := c.keep(ctx, tx, func(context.Context, *sqldb.Tx) (reply, error) { return settled(status, r), nil })
		return err
	}
}

// beginning is keep for the begin of an upload.
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
