package nextcloud

import (
	"context"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// transferLocks serializes the requests of each transfer, that is, chunked upload, because a second
// append to an upload would end the first. It works only within one instance and only avoids
// needless failures; the upload's offset is authoritative.
type transferLocks struct {
	mu  sync.Mutex
	all map[string]*transferLock // by user and transfer
	// ids caches the uploads of transfers by user id and transfer id.
	ids map[string]drive.UploadID
}

// maxRecalled bounds the cached upload ids, some 150 bytes each. When it is reached, the cache is
// emptied.
const maxRecalled = 10_000

// cache stores the upload of a transfer by key. If maxRecalled are stored, it drops all of them
// first. It acquires mu.
func (t *transferLocks) cache(key string, id drive.UploadID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids == nil || len(t.ids) >= maxRecalled {
		t.ids = map[string]drive.UploadID{}
	}
	t.ids[key] = id
}

// cached returns the cached upload of a transfer; false if there is none.
func (t *transferLocks) cached(key string) (drive.UploadID, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, known := t.ids[key]
	return id, known
}

// forget removes the cached upload of a transfer, because the upload no longer exists. It acquires
// mu.
func (t *transferLocks) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ids, key)
}

// transferLock serializes the requests of one transfer; transferLocks.mu guards its fields.
type transferLock struct {
	users int // requests that hold or await the lock
	// busy tells that a request owns the lock.
	busy     bool
	chunk    string             // chunk of the lock's owner
	stop     context.CancelFunc // cancels the owner
	released chan struct{}      // closed when an owner has released the lock
}

// ref returns the lock of a transfer, which it creates if needed, and counts the caller as a user.
// It does not acquire the lock. The caller must call unref.
func (t *transferLocks) ref(key string) *transferLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[key]
	if l == nil {
		l = &transferLock{released: make(chan struct{})}
		t.all[key] = l
	}
	l.users++
	return l
}

// unref drops a reference to a lock, and the lock with its last user.
func (t *transferLocks) unref(key string, l *transferLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(t.all, key)
	}
}

// lock acquires the lock of a transfer, waiting for its owner. If the owner handles the same chunk,
// it cancels the owner, because the client has abandoned that connection. It returns the context
// for the work, which a later request can cancel so; without an error the caller must call end. It
// fails with drive.InProgress if ctx ends first.
func (t *transferLocks) lock(ctx context.Context, l *transferLock, chunk string) (_ context.Context, end func(), err error) {
	for {
		t.mu.Lock()
		if !l.busy {
			ctx, stop := context.WithCancel(ctx)
			l.busy, l.chunk, l.stop = true, chunk, stop
			t.mu.Unlock()
			return ctx, func() { stop(); t.unlock(l) }, nil
		}
		if l.chunk == chunk {
			l.stop()
		}
		moved := l.released
		t.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, nil, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
		}
	}
}

// unlock releases a lock and wakes the requests that wait for it.
func (t *transferLocks) unlock(l *transferLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.busy = false
	close(l.released)
	l.released = make(chan struct{})
}

// pollEvery is the interval at which an early chunk checks whether another instance has received
// the missing ones.
const pollEvery = time.Second

// wait waits until the owner of a lock has released it, or pollEvery has passed. The caller must
// not own the lock. late reports that deadline has fired instead. It fails with drive.InProgress if
// ctx ends.
func (t *transferLocks) wait(ctx context.Context, l *transferLock, deadline <-chan time.Time) (late bool, err error) {
	t.mu.Lock()
	moved := l.released
	t.mu.Unlock()
	again := time.NewTimer(pollEvery)
	defer again.Stop()
	select {
	case <-moved:
	case <-again.C:
	case <-deadline:
		return true, nil
	case <-ctx.Done():
		return false, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
	}
	return false, nil
}
