package upload

import (
	"context"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// liveTable holds the liveUploads of this process. An active upload's stays cached; any other is
// removed when its last user releases it.
type liveTable struct {
	db      *sqldb.DB
	staging blob.Staging
	disk    *disk.Reservations // disk space promised to uploads; each liveUpload holds a share
	shared  bool               // other instances may change what is cached: see shared.go
	order   *lockOrder
	auth    *authorizer

	mu  sync.Mutex
	all map[drive.UploadID]*liveUpload

	// evictAfter is how long an unused active upload stays cached if another instance may park
	// it; zero: until this instance parks it.
	evictAfter time.Duration
	now        func() drive.Time
	swept      drive.Time // when unused uploads were last evicted
}

// acquire returns the liveUpload of an id, creating an empty one if needed, and counts a reference.
// It does not check that the upload exists. The caller must call release.
func (t *liveTable) acquire(id drive.UploadID) *liveUpload {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[id]
	if l == nil {
		l = &liveUpload{id: id, table: t, stateLock: make(chan struct{}, 1), writers: map[int]*partWriter{}}
		l.stateLock <- struct{}{}
		t.all[id] = l
	}
	l.refs++
	return l
}

// release drops a reference counted by acquire. The last one evicts an upload that is not active.
func (t *liveTable) release(l *liveUpload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.refs--; l.refs == 0 && !l.keepCached() {
		delete(t.all, l.id)
	}
	if t.evictAfter > 0 {
		t.sweepLocked(l)
	}
}

// sweepLocked evicts the uploads unused for evictAfter, at most once per evictAfter. just was
// released now.
func (t *liveTable) sweepLocked(just *liveUpload) {
	now := t.now()
	just.used = now
	if now.Sub(t.swept) < t.evictAfter {
		return
	}
	t.swept = now
	for id, l := range t.all {
		if l.refs == 0 && now.Sub(l.used) >= t.evictAfter {
			l.invalidate()
			delete(t.all, id)
		}
	}
}

// load returns the current row; NotFound if there is none. If the row is not cached, it reads the
// row, and for an active upload the journal, into l. With a shared staging it always reads the row
// again. A missing staging counts as one without parts. The caller holds the state lock.
func (t *liveTable) load(ctx context.Context, l *liveUpload) (Row, error) {
	l.mu.Lock()
	row, loaded := l.row, l.loaded
	l.mu.Unlock()
	if loaded && !t.shared {
		return row, nil
	}
	row, err := findRow(ctx, t.db, l.id)
	if err != nil {
		return Row{}, err
	}
	if row, ok := l.refreshRow(row); ok {
		return row, nil
	}
	if row.State != Active {
		l.setRow(row)
		return row, nil
	}
	return row, t.readStaged(l, row, func() (blob.Staged, error) {
		staged, err := t.staging.Load(ctx, row.Ref())
		if drive.IsKind(err, drive.NotFound) {
			return blob.Staged{}, nil // staging lost: the upload can still be parked and cancelled
		}
		return staged, err
	})
}

// loadAuthorized returns the current row of an upload that who may continue; otherwise NotFound or
// Forbidden. The caller holds the state lock.
func (t *liveTable) loadAuthorized(ctx context.Context, who drive.Who, l *liveUpload) (row Row, err error) {
	err = withRetry(func() (outcome, error) {
		if row, err = t.load(ctx, l); err != nil {
			return finished, err
		}
		return t.auth.authorizeOrReclaim(ctx, who, l, &row)
	})
	return row, err
}

// readStaged caches row and the journal content that from returns. If a part is accepted meanwhile
// it reads again; otherwise that part would look missing.
func (t *liveTable) readStaged(l *liveUpload, row Row, from func() (blob.Staged, error)) error {
	for {
		l.mu.Lock()
		before := l.accepts
		l.mu.Unlock()
		staged, err := from()
		if err != nil {
			return err
		}
		if l.setStagedIf(before, row, staged) {
			return nil
		}
	}
}
