package s3

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// redisScript is a Lua script that runs in Redis.
type redisScript = *redis.Script

// maxTries bounds the attempts of an operation whose journal was lost or changed meanwhile.
const maxTries = 3

var (
	// errLease reports that the part's lease has expired; another instance may hold it now.
	errLease = errors.New("the lease of the part has run out")
	// errJournalUnstable reports that the journal was lost again after each rebuild.
	errJournalUnstable = errors.New("the journal does not stay")
)

// writers are the running writes of one upload in this process.
type writers struct {
	gens  map[int]int64 // gen by part number
	ended chan struct{} // closed when the next write ends; nil if no caller waits
}

// reservePart reserves part n in this process. The caller must call unreserve. It returns
// InProgress if the part is reserved already.
func (s *Staging) reservePart(id drive.UploadID, n int, gen int64) (unreserve func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[id]
	if w == nil {
		w = &writers{gens: make(map[int]int64)}
		s.writers[id] = w
	}
	if _, taken := w.gens[n]; taken {
		return nil, drive.Fail(drive.InProgress)
	}
	w.gens[n] = gen
	return func() { s.unreservePart(id, n) }, nil
}

// unreservePart ends this process's reservation of part n and wakes the callers of waitWriters for
// the upload.
func (s *Staging) unreservePart(id drive.UploadID, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[id]
	delete(w.gens, n)
	if w.ended != nil {
		close(w.ended)
		w.ended = nil
	}
	if len(w.gens) == 0 {
		delete(s.writers, id)
	}
}

// waitWriters waits until this process has no running write under gen or a smaller one, or returns
// the error of ctx.
func (s *Staging) waitWriters(ctx context.Context, id drive.UploadID, gen int64) error {
	for {
		ended := s.writerEnded(id, gen)
		if ended == nil {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("wait for running parts: %w", ctx.Err())
		}
	}
}

// writerEnded returns a channel that is closed when the next write ends, or nil if no write under
// gen or a smaller one runs.
func (s *Staging) writerEnded(id drive.UploadID, gen int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[id]
	if w == nil {
		return nil
	}
	for _, g := range w.gens {
		if g > gen {
			continue
		}
		if w.ended == nil {
			w.ended = make(chan struct{})
		}
		return w.ended
	}
	return nil
}

// lease is the exclusive right to write a part.
type lease struct {
	id          drive.UploadID
	n           int          // part number
	token       string       // identifies this lease in Redis
	mpu         string       // id of the multipart upload
	incarnation string       // of the journal when the lease was taken
	tail        string       // encoded tail that a Write or Drop has replaced; its pieces are to be removed
	before      int64        // bytes of the part that were in the store before
	until       atomic.Int64 // expiry, in ns since started
	started     time.Time    // has a monotonic clock reading
}

// claim acquires the exclusive right to write part w.N, which the caller must renew and release or
// commit. mode is "write", "drop" with the entry to drop, or "extend" with the current tail. Errors
// are those of answer.refused.
func (s *Staging) claim(ctx context.Context, ref blob.Ref, w blob.Write, mode ...any) (*lease, error) {
	room := w.Size
	if room == blob.UnknownSize {
		room = ref.PartSize
	}
	l := &lease{id: ref.ID, n: w.N, token: randomID(), started: time.Now()}
	args := append([]any{w.N, s.owner, l.token, w.Gen, s.lease.Milliseconds(), int64(room)}, mode...)
	a, err := s.runRestoring(ctx, ref, claimScript, args...)
	if err != nil {
		return nil, err
	}
	l.mpu, l.incarnation, l.before, l.tail = a.text(1), a.text(2), a.number(3), a.text(4)
	l.until.Store(int64(s.lease))
	return l, nil
}

// checkHeld returns Unavailable if the lease may have expired. It is called before the part's last
// byte is sent, because a former lease holder must not overwrite the part of the current one.
func (l *lease) checkHeld() error {
	if time.Since(l.started) >= time.Duration(l.until.Load()) {
		return drive.Wrap(errLease, drive.Unavailable)
	}
	return nil
}

// renewalsPerLease is the number of renewals per lease duration.
const renewalsPerLease = 4

// startRenewal renews l in the background until stop is called. If the lease is lost, it cancels
// the sending of the part with errLease.
func (s *Staging) startRenewal(ctx context.Context, l *lease, cancel context.CancelCauseFunc) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(s.lease / renewalsPerLease)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if s.renew(ctx, l) != nil {
					cancel(errLease)
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// renew extends the lease in Redis and, if that succeeds, l.until. If the call fails it returns nil
// while the lease has not expired, and checkHeld's error afterwards.
func (s *Staging) renew(ctx context.Context, l *lease) error {
	ctx, stop := context.WithTimeout(ctx, s.lease/renewalsPerLease)
	defer stop()
	asked := time.Since(l.started)
	a, err := s.j.run(ctx, renewScript, l.id, l.n, l.token, s.lease.Milliseconds())
	if err == nil && a.asError() == nil {
		l.until.Store(int64(asked + s.lease))
		return nil
	}
	return l.checkHeld()
}

// release ends lease l without journaling a part, even if ctx has ended. left is the number of
// bytes of the part that may be in the store; the journal counts them as held.
func (s *Staging) release(ctx context.Context, l *lease, left int64) error {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	_, err := s.j.run(ctx, releaseScript, l.id, l.n, l.token, left)
	return err
}
