package wal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// segment is a file of the log.
type segment struct {
	path   string
	file   *os.File // nil: it was not needed yet
	number uint64   // 0: it holds nothing
	next   int64    // where the next frame goes
	made   int64    // bytes that the file has before the room
	need   int64    // bytes that the files of its contents take at most
	room   int64    // bytes that are reserved for them behind the frames
	names  []string // of contents
}

// A file takes whole blocks, and something of its inode and its directory: 4 KiB is the block of
// all file systems that the log is used on, unless somebody chose another one.
const (
	fileBlock = 4 << 10 // bytes
	fileOver  = 512     // bytes
)

// roomOf returns how many bytes of the disk the file of a content takes at most.
func roomOf(size int) int64 {
	return int64(size+fileBlock-1)/fileBlock*fileBlock + fileOver
}

func segmentPath(dir string, n int) string { return filepath.Join(dir, strconv.Itoa(n)) }

// write writes what waits to the active segment, with running held. If no segment takes it, the log
// does not hold these contents any more.
func (l *Log) write() error {
	l.mu.Lock()
	b := l.buf
	l.buf = batch{}
	l.mu.Unlock()
	err := errOff
	switch {
	case l.failed:
	case len(b.bytes) == 0:
		return nil
	default:
		err = l.place(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = b.bytes[:0]
	if err == nil {
		return nil
	}
	l.lost++
	for _, name := range b.names {
		if l.held[name] == 0 { // no segment has it
			delete(l.held, name)
		}
	}
	return err
}

// place writes a batch. One without contents always has room where there is a segment: it is small.
func (l *Log) place(b batch) error {
	s := l.active
	if s == nil || len(b.names) > 0 && (s.next+int64(len(b.bytes)) > l.limits.segment || len(s.names)+len(b.names) > l.limits.names) {
		if err := l.turn(); err != nil {
			return err
		}
	}
	if err := l.active.reserve(b.room, l.limits, l.contents); err != nil {
		return l.fail(err)
	}
	seal(b.bytes, l.active.number)
	l.dirty = true
	l.hold(b.names)
	if err := l.active.append(b.bytes, l.limits.grown); err != nil {
		return l.fail(err)
	}
	return nil
}

// hold notes that the active segment may have these contents: also a write that fails may have
// written some.
func (l *Log) hold(names []string) {
	l.active.names = append(l.active.names, names...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.held[name] = l.active.number
	}
}

// turn goes on with the other segment, and has the one that was active settled.
func (l *Log) turn() error {
	l.mu.Lock()
	if len(l.free) == 0 {
		l.mu.Unlock()
		return errFull
	}
	s := l.free[0]
	l.free = l.free[1:]
	l.mu.Unlock()
	if err := l.retire(); err != nil {
		return err
	}
	l.number++
	if err := s.begin(l.number, l.limits.grown, l.contents); err != nil {
		_ = s.close()
		return l.fail(err)
	}
	l.active = s
	number := l.number // the segment may have another one when its time has come
	time.AfterFunc(l.limits.age, func() { l.old(number) })
	return nil
}

// old settles the segment of that number if it is still active. After a failure it stays, to take
// records of what is forgotten.
func (l *Log) old(number uint64) {
	l.running.Lock()
	defer l.running.Unlock()
	l.mu.Lock()
	off := l.off
	l.mu.Unlock()
	if l.active != nil && l.number == number && !off {
		_ = l.retire() // a failure is noted
	}
}

// retire settles the active segment beside what goes on.
func (l *Log) retire() error {
	if err := l.syncActive(); err != nil {
		return err
	}
	l.hand()
	return nil
}

// hand has the active segment settled, after those before it.
func (l *Log) hand() {
	if l.active == nil {
		return
	}
	l.mu.Lock()
	l.retired = append(l.retired, l.active)
	l.mu.Unlock()
	l.active = nil
	l.settling.Go(func() { _ = l.settle() }) // a failure is noted
}

func (l *Log) syncActive() error {
	if !l.dirty {
		return nil
	}
	if err := l.contents.SyncData(l.active.file); err != nil {
		return l.fail(err)
	}
	l.dirty = false
	return nil
}

// fail notes that the log cannot be written, with running held: what was acknowledged is settled,
// and nothing is taken any more. Whatever the disk lacks, the room of the segments is given back.
func (l *Log) fail(err error) error {
	l.log.Error("The log of small contents cannot be written; each is synced by itself from now on.", "error", err)
	l.dirty, l.failed = false, true
	l.mu.Lock()
	l.off = true
	for _, s := range l.free {
		_ = s.close()
	}
	l.mu.Unlock()
	l.hand()
	return err
}

// settle frees the segments that were active, the oldest first: a later one may say that a content
// of an earlier one was forgotten. What has failed is not tried again: the system tells of bytes
// that it could not write once, so that another sync may succeed without them.
func (l *Log) settle() error {
	l.ordered.Lock()
	defer l.ordered.Unlock()
	if l.unsettled != nil {
		return l.unsettled
	}
	for s := l.oldest(); s != nil; s = l.oldest() {
		err := l.contents.Settle(s.names)
		if err == nil {
			err = s.clear(l.contents)
		}
		if err != nil {
			l.mu.Lock()
			l.off = true
			l.mu.Unlock()
			l.unsettled = err
			l.log.Error("Small contents could not be synced. They are in the log, and a restart writes them again.", "contents", len(s.names), "error", err)
			return err
		}
		l.release(s)
	}
	return nil
}

func (l *Log) oldest() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.retired) == 0 {
		return nil
	}
	return l.retired[0]
}

// release frees the oldest segment: its contents are durable without it.
func (l *Log) release(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range s.names {
		if l.held[name] == s.number {
			delete(l.held, name)
		}
	}
	s.number, s.next, s.need, s.names = 0, 0, 0, nil
	if l.off {
		_ = s.close() // it holds nothing
	}
	l.retired, l.free = l.retired[1:], append(l.free, s)
}

// settleAll settles what was written before. Others go on meanwhile.
func (l *Log) settleAll() error {
	l.running.Lock()
	_ = l.retire() // a failure is noted, and the segment is settled all the same
	l.running.Unlock()
	return l.settle()
}

// begin makes the file of a segment ready.
func (s *segment) begin(number uint64, grown int64, c Contents) error {
	if s.file == nil {
		if err := s.open(c); err != nil {
			return err
		}
	}
	if err := s.append(header(number), grown); err != nil {
		return err
	}
	s.number = number
	return nil
}

func (s *segment) open(c Contents) error {
	dir := filepath.Dir(s.path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.file = f
	return errors.Join(lock(f), c.SyncDir(dir), c.SyncDir(filepath.Dir(dir)))
}

// append puts bytes behind those that are there. It lets the file grow by so many at a time.
func (s *segment) append(b []byte, grown int64) error {
	end := s.next + int64(len(b))
	for ; s.made < end; s.made += grown {
		if _, err := s.file.WriteAt(make([]byte, grown), s.made); err != nil {
			return err
		}
	}
	_, err := s.file.WriteAt(b, s.next)
	s.next = end
	return err
}

// reserve takes room for more contents, which a start needs if their files are lost and somebody
// has filled the disk since. Where few frames say much, some of them may use the first of it.
func (s *segment) reserve(n int64, to limits, c Contents) error {
	s.need += n
	for ; s.room < s.need; s.room += to.grown {
		if err := c.Reserve(s.file, to.segment+s.room, to.grown); err != nil {
			return err
		}
	}
	return nil
}

// giveRoom gives back what is behind the frames, once each has read them.
func (s *segment) giveRoom(c Contents) error {
	if err := s.file.Truncate(s.next); err != nil {
		return err
	}
	return c.SyncData(s.file) // some file systems let others have it only then
}

// clear makes a segment hold nothing, durably.
func (s *segment) clear(c Contents) error {
	if _, err := s.file.WriteAt(make([]byte, headerSize), 0); err != nil {
		return err
	}
	return c.SyncData(s.file)
}

// close removes the file of a segment that holds nothing.
func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.number == 0 {
		err = errors.Join(err, os.Remove(s.path))
	}
	s.file, s.made, s.room = nil, 0, 0
	return err
}
