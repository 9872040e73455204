package s3

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

type scriptOf = *redis.Script

// tries is how often an answer is asked for that a lost journal has spoilt.
const tries = 3

var (
	// errLease: somebody else may have taken the part over.
	errLease = errors.New("the lease of the part has run out")
	// errUnrest: each time the journal was made again it was lost again.
	errUnrest = errors.New("the journal does not stay")
)

// writers are the parts of one upload that this process writes.
type writers struct {
	gens  map[int]int64 // part, gen
	ended chan struct{} // closed when one ends, if somebody waits
}

// enter reserves a part in this process; leave gives it back.
func (s *Staging) enter(id drive.UploadID, n int, gen int64) (leave func(), err error) {
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
	return func() { s.leave(id, n) }, nil
}

func (s *Staging) leave(id drive.UploadID, n int) {
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

// waitWriters returns when nothing in this process writes under gen or a smaller one.
func (s *Staging) waitWriters(ctx context.Context, id drive.UploadID, gen int64) error {
	for {
		ended := s.nextEnd(id, gen)
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

// nextEnd returns a channel that closes when the next part ends, or nil when none of gen or below
// is being written.
func (s *Staging) nextEnd(id drive.UploadID, gen int64) <-chan struct{} {
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

// lease is the right to write a part.
type lease struct {
	id          drive.UploadID
	n           int
	token       string
	mpu         string
	incarnation string
	tail        string       // that a Write or Drop has given up
	before      int64        // bytes of the part that lay at the store
	until       atomic.Int64 // ns since started: nobody else has it before
	started     time.Time    // has the monotonic clock
}

// claim takes the lease of w.N. mode is "write", or "drop" and the entry that is to be dropped.
func (s *Staging) claim(ctx context.Context, ref blob.Ref, w blob.Write, mode ...any) (*lease, error) {
	room := w.Size
	if room == blob.UnknownSize {
		room = ref.PartSize
	}
	l := &lease{id: ref.ID, n: w.N, token: randomID(), started: time.Now()}
	args := append([]any{w.N, s.owner, l.token, w.Gen, s.lease.Milliseconds(), int64(room)}, mode...)
	a, err := s.script(ctx, ref, claimScript, args...)
	if err != nil {
		return nil, err
	}
	l.mpu, l.incarnation, l.before, l.tail = a.text(1), a.text(2), a.number(3), a.text(4)
	l.until.Store(int64(s.lease))
	return l, nil
}

// alive is the last look before the part's last byte goes out: whoever has lost the lease must not
// write over the part of whoever has it now.
func (l *lease) alive() error {
	if time.Since(l.started) >= time.Duration(l.until.Load()) {
		return drive.Wrap(errLease, drive.Unavailable)
	}
	return nil
}

// beats is how many times a lease is extended before it would run out.
const beats = 4

// keep extends l until stop is called, and cancels the sending of its part when it is lost.
func (s *Staging) keep(ctx context.Context, l *lease, cancel context.CancelCauseFunc) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(s.lease / beats)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if s.extend(ctx, l) != nil {
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

// extend is one beat. That Redis does not answer, or has lost the journal, is not a reason to give
// up while the lease lasts.
func (s *Staging) extend(ctx context.Context, l *lease) error {
	ctx, stop := context.WithTimeout(ctx, s.lease/beats)
	defer stop()
	asked := time.Since(l.started)
	a, err := s.j.run(ctx, extendScript, l.id, l.n, l.token, s.lease.Milliseconds())
	if err == nil && a.refused() == nil {
		l.until.Store(int64(asked + s.lease))
		return nil
	}
	return l.alive()
}

// release gives l back without an entry; left are the bytes of the part that may lie at the store.
func (s *Staging) release(ctx context.Context, l *lease, left int64) error {
	ctx, stop := detached(ctx)
	defer stop()
	_, err := s.j.run(ctx, releaseScript, l.id, l.n, l.token, left)
	return err
}
