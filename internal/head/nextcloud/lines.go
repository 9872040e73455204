package nextcloud

import (
	"context"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// lines let the chunks of one file in one after the other, in the order of their numbers: a file is
// filled from its beginning, and to begin one chunk would end another that still comes. What a line
// knows is a help, not the truth: that is the offset of the upload.
type lines struct {
	mu  sync.Mutex
	all map[string]*line // by user and transfer
	ids map[string]drive.UploadID
}

// maxRecalled is how many uploads of transfers are remembered, some 150 bytes each; then all are
// forgotten, and looked for once more.
const maxRecalled = 10_000

// note remembers which upload a transfer is.
func (ls *lines) note(key string, id drive.UploadID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.ids == nil || len(ls.ids) >= maxRecalled {
		ls.ids = map[string]drive.UploadID{}
	}
	ls.ids[key] = id
}

// recall returns which upload a transfer was; false: it is not known.
func (ls *lines) recall(key string) (drive.UploadID, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	id, known := ls.ids[key]
	return id, known
}

func (ls *lines) forget(key string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.ids, key)
}

type line struct {
	users   int // requests that hold the line
	busy    bool
	running string             // the chunk that is coming
	stop    context.CancelFunc // ends it
	moved   chan struct{}      // closed when one has ended
}

func (ls *lines) join(key string) *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[key]
	if l == nil {
		l = &line{moved: make(chan struct{})}
		ls.all[key] = l
	}
	l.users++
	return l
}

func (ls *lines) leave(key string, l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(ls.all, key)
	}
}

// enter waits until no other chunk of the transfer comes. The same one ends the other: its client
// has given that connection up.
func (ls *lines) enter(ctx context.Context, l *line, chunk string) (_ context.Context, end func(), err error) {
	for {
		ls.mu.Lock()
		if !l.busy {
			ctx, stop := context.WithCancel(ctx)
			l.busy, l.running, l.stop = true, chunk, stop
			ls.mu.Unlock()
			return ctx, func() { stop(); ls.end(l) }, nil
		}
		if l.running == chunk {
			l.stop()
		}
		moved := l.moved
		ls.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, nil, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
		}
	}
}

func (ls *lines) end(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.busy = false
	close(l.moved)
	l.moved = make(chan struct{})
}

// lookAgain is how often a chunk that is early looks whether another instance has got those before
// it.
const lookAgain = time.Second

// wait waits for another chunk of the transfer to end, or some time. late: the deadline is over.
func (ls *lines) wait(ctx context.Context, l *line, deadline <-chan time.Time) (late bool, err error) {
	ls.mu.Lock()
	moved := l.moved
	ls.mu.Unlock()
	again := time.NewTimer(lookAgain)
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
