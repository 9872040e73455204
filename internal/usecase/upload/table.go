package upload

import (
	"context"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/disk"
)

// liveTable holds the liveUploads of this process. An active upload's stays cached; any other is
// removed when its last user releases it.
type table struct {
	db      *sqldb.DB
	staging blob.Staging
	disk    *disk.Promises // disk space promised to uploads; each liveUpload holds a share
	shared  bool           // other instances may change what is cached: see shared.go
	order   *lockOrder
	gate    *gate

	mu  sync.Mutex
	all map[drive.UploadID]*live

	// evictAfter is how long an unused active upload stays cached if another instance may park
	// it; zero: until this instance parks it.
	keepFor time.Duration
	now     func() drive.Time
	swept   drive.Time
}

// acquire returns the liveUpload of an id, creating it if needed, and takes a reference. The caller
// must call release.
func (t *table) enter(id drive.UploadID) *live {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[id]
	if l == nil {
		l = &live{id: id, of: t, turn: make(chan struct{}, 1), writers: map[int]*partWriter{}}
		l.turn <- struct{}{}
		t.all[id] = l
	}
	l.users++
	return l
}

// release returns a reference of acquire. The last one evicts an upload that is not active.
func (t *table) leave(l *live) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users == 0 && !l.keep() {
		delete(t.all, l.id)
	}
	if t.keepFor > 0 {
		t.sweepLocked(l)
	}
}

// sweepLocked evicts the uploads unused for evictAfter, at most once per evictAfter. just was
// released now.
func (t *table) sweepLocked(just *live) {
	now := t.now()
	just.used = now
	if now.Sub(t.swept) < t.keepFor {
		return
	}
	t.swept = now
	for id, l := range t.all {
		if l.users == 0 && now.Sub(l.used) >= t.keepFor {
			l.forget()
			delete(t.all, id)
		}
	}
}

// load returns the current row. If needed it reads the row, and for an active upload the journal,
// into l. With a shared staging the row is always read again. The caller holds the state lock.
func (t *table) load(ctx context.Context, l *live) (Row, error) {
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
	if row, ok := l.renew(row); ok {
		return row, nil
	}
	if row.State != Active {
		l.setRow(row)
		return row, nil
	}
	return row, t.read(l, row, func() (blob.Staged, error) {
		staged, err := t.staging.Load(ctx, row.Ref())
		if drive.IsKind(err, drive.NotFound) {
			return blob.Staged{}, nil // staging lost: the upload can still be parked and cancelled
		}
		return staged, err
	})
}

// loadAuthorized is load for a request: NotFound or Forbidden if who may not continue the upload.
func (t *table) loadFor(ctx context.Context, who drive.Who, l *live) (row Row, err error) {
	err = attempts(func() (outcome, error) {
		if row, err = t.load(ctx, l); err != nil {
			return settled, err
		}
		return t.gate.let(ctx, who, l, &row)
	})
	return row, err
}

// readStaged caches row and the journal content that from returns. If a part is accepted meanwhile
// it reads again; otherwise that part would look missing.
func (t *table) read(l *live, row Row, from func() (blob.Staged, error)) error {
	for {
		l.mu.Lock()
		before := l.accepts
		l.mu.Unlock()
		staged, err := from()
		if err != nil {
			return err
		}
		if l.adoptIf(before, row, staged) {
			return nil
		}
	}
}
