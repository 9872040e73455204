package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Contents is what the log makes durable.
type Contents interface {
	// Settle makes these contents durable, and all others that were written before it was called.
	// One that was removed is not an error.
	Settle(names []string) error
	// Restore writes a content again, whatever its file has, without a sync. A name that no content
	// can have is not an error; that there is no room is drive.DiskFull.
	Restore(name string, content []byte) error
	// Reserve takes room on the disk for n bytes of a file, where none was written.
	Reserve(f *os.File, off, n int64) error
	// SyncData makes the bytes and the length of a file durable.
	SyncData(*os.File) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
}

// limits are those of a log.
type limits struct {
	segment int64         // most bytes of a segment
	names   int           // most contents of a segment
	grown   int64         // bytes of a segment that are made at a time
	spill   int           // bytes that may wait in memory before whoever adds more writes them
	age     time.Duration // when a segment is settled that is not full
}

// To sync what is overwritten costs less than to sync a file that grows.
var defaults = limits{segment: 32 << 20, names: 1 << 14, grown: 4 << 20, spill: 1 << 20, age: time.Minute}

// Log is an open log. It is safe for concurrent use.
type Log struct {
	dir      string
	contents Contents
	log      *slog.Logger
	limits   limits
	segments [2]segment

	running sync.Mutex // held across I/O on the active segment: to wait for the sync that runs is what it is for
	active  *segment   // nil: none
	number  uint64     // the last one given to a segment
	dirty   bool       // bytes of the active segment are not synced
	failed  bool       // the disk has failed: nothing is written any more

	settling  sync.WaitGroup
	ordered   sync.Mutex // held while segments are settled
	unsettled error      // of the disk, guarded by ordered: nothing is settled any more

	mu      sync.Mutex // guards what follows
	off     bool       // nothing is taken any more
	buf     batch      // waits to be written
	spare   []byte
	lost    int               // batches that could not be written
	held    map[string]uint64 // contents that will be restored: the number of their segment, 0 while they wait
	free    []*segment
	retired []*segment // to be settled, the oldest first
	next    *shared
}

// batch is frames that are written together.
type batch struct {
	bytes []byte
	names []string // of contents
	room  int64    // bytes that their files take at most
}

// shared is a sync on behalf of several.
type shared struct {
	done chan struct{}
	err  error // once done is closed
}

// Errors that stay inside: whoever waits syncs files instead.
var (
	errFull = errors.New("both segments are in use")
	errOff  = errors.New("the disk has failed before")
)

// Open restores what segments in dir hold, and returns a log that has none. It makes nothing before
// something is added; the parent of dir must be there then.
func Open(dir string, c Contents, log *slog.Logger) (*Log, error) {
	l := &Log{dir: dir, contents: c, log: log, limits: defaults, held: map[string]uint64{}}
	for i := range l.segments {
		l.segments[i].path = segmentPath(dir, i)
		l.free = append(l.free, &l.segments[i])
	}
	if err := l.restore(); err != nil {
		return nil, fmt.Errorf("restore contents from the log: %w", err)
	}
	return l, nil
}

// Add hands a content over whose file has been written. It is durable once a Sync of it has
// returned no rest.
func (l *Log) Add(name string, content []byte) {
	if len(content) > MaxContent || len(name) > maxName {
		return
	}
	l.mu.Lock()
	if l.off {
		l.mu.Unlock()
		return
	}
	l.held[name] = 0
	l.buf.names = append(l.buf.names, name)
	l.buf.room += roomOf(len(content))
	l.appendLocked(frame{kind: kindContent, name: name, content: content})
	much := len(l.buf.bytes) >= l.limits.spill
	l.mu.Unlock()
	if much {
		l.running.Lock()
		defer l.running.Unlock()
		_ = l.write() // Sync tells whom it concerns
	}
}

func (l *Log) appendLocked(f frame) {
	if l.buf.bytes == nil {
		l.buf.bytes, l.spare = l.spare[:0], nil
	}
	l.buf.bytes = f.append(l.buf.bytes)
}

// Sync makes durable what was added of these contents, and returns the rest: whoever wants them
// durable syncs their files.
func (l *Log) Sync(names ...string) (rest []string) {
	added, rest := l.split(names, 0)
	if len(added) == 0 {
		return rest
	}
	if l.sync() != nil {
		return names
	}
	// They may have been in a batch that somebody else could not write.
	_, lost := l.split(added, 1)
	return append(rest, lost...)
}

// split tells contents that are held, by a segment of at least that number, from others.
func (l *Log) split(names []string, number uint64) (these, others []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if n, ok := l.held[name]; ok && n >= number {
			these = append(these, name)
		} else {
			others = append(others, name)
		}
	}
	return these, others
}

// sync syncs what was added before. Those who come while a sync runs share the next one.
func (l *Log) sync() error {
	l.mu.Lock()
	next, first := l.next, l.next == nil
	if first {
		next = &shared{done: make(chan struct{})}
		l.next = next
	}
	l.mu.Unlock()
	if !first {
		<-next.done
		return next.err
	}
	l.running.Lock()
	defer l.running.Unlock()
	l.mu.Lock()
	l.next = nil
	l.mu.Unlock()
	if next.err = l.write(); next.err == nil {
		next.err = l.syncActive()
	}
	close(next.done)
	return next.err
}

// Forget makes sure that contents whose files were removed are not restored.
func (l *Log) Forget(names ...string) error {
	held, lost := l.forget(names)
	if !held {
		return nil
	}
	if l.sync() != nil || l.hasLost(lost) { // no room for a record of it, or a disk that fails: the segments go
		if err := l.settleAll(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		delete(l.held, name)
	}
	return nil
}

// Without returns those names of which the log holds no content.
func (l *Log) Without(names []string) []string {
	_, others := l.split(names, 0)
	return others
}

// forget adds a record for each of these contents that is held, as it is until that is durable.
func (l *Log) forget(names []string) (held bool, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if _, ok := l.held[name]; ok {
			held = true
			l.appendLocked(frame{kind: kindForgotten, name: name})
		}
	}
	return held, l.lost
}

func (l *Log) hasLost(since int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost != since
}

// Close settles everything and removes the segments. Nothing is taken any more. After an error they
// stay, and the next Open restores them.
func (l *Log) Close() error {
	l.mu.Lock()
	l.off = true
	l.mu.Unlock()
	err := l.settleAll()
	l.settling.Wait()
	for i := range l.segments {
		err = errors.Join(err, l.segments[i].close())
	}
	return err
}
