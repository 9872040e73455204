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

// table finds the live of an upload. Active uploads stay in it; others only while a request holds
// them.
type table struct {
	db      *sqldb.DB
	staging blob.Staging
	disk    *disk.Promises // each live has its share
	shared  bool           // other instances change what a live knows: see shared.go
	order   *lockOrder
	gate    *gate

	mu  sync.Mutex
	all map[drive.UploadID]*live

	// keepFor is how long an active upload stays that nobody asks for, where another instance may
	// park it; zero: until it is parked here.
	keepFor time.Duration
	now     func() drive.Time
	swept   drive.Time
}

// enter returns the one live of an upload and keeps it until leave.
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

// sweepLocked drops what nobody has asked for since keepFor, now and then.
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

// load reads the row, and the journal of an active upload, unless they are in memory. Where other
// instances may have changed the row it is read in any case. The caller holds the turn.
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
			return blob.Staged{}, nil // its directory is lost: it can still be parked and cancelled
		}
		return staged, err
	})
}

// loadFor is load for a caller: an upload that is not theirs to go on with is NotFound.
func (t *table) loadFor(ctx context.Context, who drive.Who, l *live) (row Row, err error) {
	err = attempts(func() (outcome, error) {
		if row, err = t.load(ctx, l); err != nil {
			return settled, err
		}
		return t.gate.let(ctx, who, l, &row)
	})
	return row, err
}

// read makes row and what from finds in the journal what the live holds. Parts that were on their
// way before the row was forgotten may be accepted meanwhile; then it looks again, or a part that
// is there would be taken for missing.
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
