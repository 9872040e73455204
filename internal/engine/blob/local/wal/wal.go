package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Contents writes and syncs the files of the contents.
type Contents interface {
	// Sync makes the files of names durable, and all others that were written before the call. A
	// removed file is not an error.
	Sync(names []string) error
	// Restore writes the file of a content, whatever it contains, without a sync. An invalid name
	// is not an error. A full disk is drive.DiskFull.
	Restore(name string, content []byte) error
	// Reserve allocates disk space for n unwritten bytes of a file at off.
	Reserve(f *os.File, off, n int64) error
	// SyncData makes the bytes and length of a file durable.
	SyncData(*os.File) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
}

// limits bound a log.
type limits struct {
	segment int64         // maximum bytes of a segment
	names   int           // maximum contents of a segment
	growth  int64         // bytes by which a segment's file grows
	spill   int           // bytes of a batch from which on Add writes it
	age     time.Duration // age at which a segment is settled though not full
}

// defaultLimits are the limits of Open. Files grow in large steps, because syncing overwritten
// bytes costs less than syncing a growing file.
var defaultLimits = limits{segment: 32 << 20, names: 1 << 14, growth: 4 << 20, spill: 1 << 20, age: time.Minute}

// Log is an open log. It is safe for concurrent use.
type Log struct {
	dir      string
	contents Contents
	log      *slog.Logger
	limits   limits
	segments [2]segment

	writeMu sync.Mutex // held across I/O on the active segment, so that callers wait for the running sync
	active  *segment   // segment that takes records; nil: none
	number  uint64     // last segment number used
	dirty   bool       // the active segment has unsynced bytes
	failed  bool       // the disk has failed: nothing is written any more

	settling  sync.WaitGroup // running calls of settle
	settleMu  sync.Mutex     // held while segments are settled
	settleErr error          // permanent error of settling; guarded by settleMu

	mu      sync.Mutex        // guards the fields below
	off     bool              // nothing is accepted any more
	buf     batch             // batch to be written next
	spare   []byte            // buffer for reuse
	lost    int               // number of batches that could not be written
	held    map[string]uint64 // contents in the log: the number of their segment, 0 while in buf
	free    []*segment        // empty segments
	retired []*segment        // to be settled, oldest first
	next    *sharedSync       // the next sync; nil: no caller waits
}

// batch is a sequence of frames that are written together.
type batch struct {
	bytes []byte   // the encoded frames
	names []string // names of the contents
	room  int64    // maximum bytes of their files
}

// sharedSync is a sync of the active segment that several callers of Add wait for.
type sharedSync struct {
	done chan struct{} // closed when the sync has ended
	err  error         // valid once done is closed
}

// Internal errors, after which callers sync their files instead.
var (
	errFull = errors.New("both segments are in use")
	errOff  = errors.New("the disk has failed before")
)

// Open restores the contents of existing segments in dir and returns an empty log. It creates
// nothing before the first Add; the parent of dir must exist then.
func Open(dir string, c Contents, log *slog.Logger) (*Log, error) {
	l := &Log{dir: dir, contents: c, log: log, limits: defaultLimits, held: map[string]uint64{}}
	for i := range l.segments {
		l.segments[i].path = segmentPath(dir, i)
		l.free = append(l.free, &l.segments[i])
	}
	if err := l.restore(); err != nil {
		return nil, fmt.Errorf("restore contents from the log: %w", err)
	}
	return l, nil
}

// Add adds a content whose file has been written. The content is durable once a Sync with its name
// has not returned the name. Add ignores contents that are too large, and all contents after a
// failure.
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
	l.buf.room += diskSize(len(content))
	l.appendLocked(frame{kind: kindContent, name: name, content: content})
	full := len(l.buf.bytes) >= l.limits.spill
	l.mu.Unlock()
	if full {
		l.writeMu.Lock()
		defer l.writeMu.Unlock()
		_ = l.write() // Sync reports the failure to the affected callers
	}
}

// appendLocked appends a frame to the pending batch, which is in memory only. The caller holds
// l.mu.
func (l *Log) appendLocked(f frame) {
	if l.buf.bytes == nil {
		l.buf.bytes, l.spare = l.spare[:0], nil
	}
	l.buf.bytes = f.append(l.buf.bytes)
}

// Sync makes contents durable that were added. rest are the names for which that failed or that
// were not added; the caller must sync their files.
func (l *Log) Sync(names ...string) (rest []string) {
	added, rest := l.partition(names, 0)
	if len(added) == 0 {
		return rest
	}
	if l.sync() != nil {
		return names
	}
	// Another caller may have failed to write their batch.
	_, lost := l.partition(added, 1)
	return append(rest, lost...)
}

// partition separates names that are in a segment numbered at least number (0: or in buf) from
// others.
func (l *Log) partition(names []string, number uint64) (these, others []string) {
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

// sync writes and syncs everything that was added before the call. Concurrent callers share the
// next sync and its error. After an error the caller cannot rely on the log for these contents.
func (l *Log) sync() error {
	l.mu.Lock()
	next, first := l.next, l.next == nil
	if first {
		next = &sharedSync{done: make(chan struct{})}
		l.next = next
	}
	l.mu.Unlock()
	if !first {
		<-next.done
		return next.err
	}
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.mu.Lock()
	l.next = nil
	l.mu.Unlock()
	if next.err = l.write(); next.err == nil {
		next.err = l.syncActive()
	}
	close(next.done)
	return next.err
}

// Discard ensures that contents whose files were removed are not restored. On an error they may be.
func (l *Log) Discard(names ...string) error {
	held, lost := l.addForgotten(names)
	if !held {
		return nil
	}
	if l.sync() != nil || l.lostSince(lost) { // the record was not written: settle all segments instead
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

// NotHeld returns the names that the log does not contain.
func (l *Log) NotHeld(names []string) []string {
	_, others := l.partition(names, 0)
	return others
}

// addForgotten adds a forgotten record for each of names in the log. held reports that there was
// one. The names stay in held until the record is durable.
func (l *Log) addForgotten(names []string) (held bool, lost int) {
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

// lostSince reports whether a batch could not be written since the counter lost had that value.
func (l *Log) lostSince(since int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost != since
}

// Close makes the files of all contents durable, waits for the goroutines and removes the segments;
// the log accepts nothing afterwards. After an error segments stay, and the next Open restores
// their contents.
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
