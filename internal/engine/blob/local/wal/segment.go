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
	path        string   // of its file
	file        *os.File // nil: not created yet
	number      uint64   // 0: it is empty
	next        int64    // offset of the next frame
	allocated   int64    // bytes written or zeroed so far, without the reserved space
	contentRoom int64    // maximum bytes of the files of its contents
	reserved    int64    // bytes reserved for those files behind the frames
	names       []string // names of its contents
}

// A file takes whole blocks, and a share of its inode and directory. 4 KiB is the usual block size.
const (
	fileBlock = 4 << 10 // bytes
	fileOver  = 512     // bytes
)

// diskSize returns the maximum number of bytes on disk of a file with size bytes of content.
func diskSize(size int) int64 {
	return int64(size+fileBlock-1)/fileBlock*fileBlock + fileOver
}

// segmentPath returns the path of segment n.
func segmentPath(dir string, n int) string { return filepath.Join(dir, strconv.Itoa(n)) }

// write writes the pending batch to the active segment, without a sync. On an error the contents of
// the batch are not in the log. It returns errOff after the log was turned off. The caller holds
// writeMu.
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
		err = l.writeBatch(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = b.bytes[:0]
	if err == nil {
		return nil
	}
	l.lost++
	for _, name := range b.names {
		if l.held[name] == 0 { // no segment contains it
			delete(l.held, name)
		}
	}
	return err
}

// writeBatch writes a batch, without a sync, to the active segment, or to the other one if the
// active one is full or there is none. A batch without contents always fits, because it is small.
// If writing or reserving fails, it logs the error and turns the log off until a restart (see
// fail).
func (l *Log) writeBatch(b batch) error {
	s := l.active
	if s == nil || len(b.names) > 0 && (s.next+int64(len(b.bytes)) > l.limits.segment || len(s.names)+len(b.names) > l.limits.names) {
		if err := l.switchSegment(); err != nil {
			return err
		}
	}
	if err := l.active.reserve(b.room, l.limits, l.contents); err != nil {
		return l.fail(err)
	}
	seal(b.bytes, l.active.number)
	l.dirty = true
	l.recordNames(b.names)
	if err := l.active.append(b.bytes, l.limits.growth); err != nil {
		return l.fail(err)
	}
	return nil
}

// recordNames records that the active segment may contain these contents; even a failed write may
// have written some.
func (l *Log) recordNames(names []string) {
	l.active.names = append(l.active.names, names...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.held[name] = l.active.number
	}
}

// switchSegment syncs the active segment, has a goroutine make its files durable and free it, and
// makes the other segment active. It returns errFull if the other segment is still in use, and
// changes nothing then; any other error is of the disk and has turned the log off. The caller holds
// writeMu.
func (l *Log) switchSegment() error {
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
	if err := s.begin(l.number, l.limits.growth, l.contents); err != nil {
		_ = s.close()
		return l.fail(err)
	}
	l.active = s
	number := l.number // the segment may have been reused when the timer fires
	time.AfterFunc(l.limits.age, func() { l.retireNumber(number) })
	return nil
}

// retireNumber syncs the segment of that number, if it is still active, and starts a goroutine that
// makes its files durable and frees it. After a failure it stays active, to take records of removed
// contents.
func (l *Log) retireNumber(number uint64) {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.mu.Lock()
	off := l.off
	l.mu.Unlock()
	if l.active != nil && l.number == number && !off {
		_ = l.retire() // retire records a failure
	}
}

// retire syncs the active segment and starts a goroutine that makes its files durable and frees it.
// Afterwards no segment is active. The caller holds writeMu.
func (l *Log) retire() error {
	if err := l.syncActive(); err != nil {
		return err
	}
	l.settleActive()
	return nil
}

// settleActive passes the active segment to settle, which runs in the background.
func (l *Log) settleActive() {
	if l.active == nil {
		return
	}
	l.mu.Lock()
	l.retired = append(l.retired, l.active)
	l.mu.Unlock()
	l.active = nil
	l.settling.Go(func() { _ = l.settle() }) // settle records a failure
}

// syncActive makes the active segment durable, if it has unsynced bytes. A failure turns the log
// off and is returned. The caller holds writeMu.
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

// fail turns the log off after a disk error. The caller holds writeMu. Acknowledged contents are
// settled, nothing is accepted any more, and reserved space is released.
func (l *Log) fail(err error) error {
	l.log.Error("write-ahead log of small files failed; each small file is synced by itself until a restart: check the disk", "error", err)
	l.dirty, l.failed = false, true
	l.mu.Lock()
	l.off = true
	for _, s := range l.free {
		_ = s.close()
	}
	l.mu.Unlock()
	l.settleActive()
	return err
}

// settle makes the files of the retired segments durable and frees the segments, oldest first,
// because a later segment may record that a content of an earlier one was forgotten. A failure is
// permanent: the system reports a lost write once, so a second sync may succeed without the bytes.
func (l *Log) settle() error {
	l.settleMu.Lock()
	defer l.settleMu.Unlock()
	if l.settleErr != nil {
		return l.settleErr
	}
	for s := l.oldest(); s != nil; s = l.oldest() {
		err := l.contents.Sync(s.names)
		if err == nil {
			err = s.clear(l.contents)
		}
		if err != nil {
			l.mu.Lock()
			l.off = true
			l.mu.Unlock()
			l.settleErr = err
			l.log.Error("sync of small files failed; they are in the write-ahead log, and a restart writes them again: check the disk and restart", "contents", len(s.names), "error", err)
			return err
		}
		l.freeSegment(s)
	}
	return nil
}

// oldest returns the oldest retired segment; nil if there is none.
func (l *Log) oldest() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.retired) == 0 {
		return nil
	}
	return l.retired[0]
}

// freeSegment frees the oldest segment, whose contents are durable in their files.
func (l *Log) freeSegment(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range s.names {
		if l.held[name] == s.number {
			delete(l.held, name)
		}
	}
	s.number, s.next, s.contentRoom, s.names = 0, 0, 0, nil
	if l.off {
		_ = s.close() // the segment is empty
	}
	l.retired, l.free = l.retired[1:], append(l.free, s)
}

// settleAll makes the files of all contents written so far durable and frees their segments. New
// contents may be added meanwhile. It returns the error of making the files durable.
func (l *Log) settleAll() error {
	l.writeMu.Lock()
	_ = l.retire() // retire records a failure, and the segment is settled anyway
	l.writeMu.Unlock()
	return l.settle()
}

// begin creates the segment's file if there is none, writes a header with number and sets s.number.
// On an error the number stays.
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

// open creates the file of a segment and its directory, makes their names durable, and locks the
// file. It fails if the file exists. After an error s.file may be set.
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

// append writes b after the existing frames, unsynced, and advances s.next, unless the file cannot
// grow. If necessary it first grows the file by zeros, grown bytes at a time.
func (s *segment) append(b []byte, grown int64) error {
	end := s.next + int64(len(b))
	for ; s.allocated < end; s.allocated += grown {
		if _, err := s.file.WriteAt(make([]byte, grown), s.allocated); err != nil {
			return err
		}
	}
	_, err := s.file.WriteAt(b, s.next)
	s.next = end
	return err
}

// reserve reserves n more bytes of disk space behind the segment, in steps of to.growth, so that
// files can be restored on a disk that is full by then. If few frames hold much content, they may
// use the first of the reserved space.
func (s *segment) reserve(n int64, to limits, c Contents) error {
	s.contentRoom += n
	for ; s.reserved < s.contentRoom; s.reserved += to.growth {
		if err := c.Reserve(s.file, to.segment+s.reserved, to.growth); err != nil {
			return err
		}
	}
	return nil
}

// releaseReserved cuts the file at s.next, which frees the reserved space, and syncs it. The caller
// must have called each, which finds the end of the frames and sets s.next.
func (s *segment) releaseReserved(c Contents) error {
	if err := s.file.Truncate(s.next); err != nil {
		return err
	}
	return c.SyncData(s.file) // some file systems release space only then
}

// clear overwrites the header with zeros and syncs, after which a restart ignores the frames behind
// it. The file keeps its length.
func (s *segment) clear(c Contents) error {
	if _, err := s.file.WriteAt(make([]byte, headerSize), 0); err != nil {
		return err
	}
	return c.SyncData(s.file)
}

// close closes the file of a segment and, if the segment is empty (number 0), removes it. The
// segment may be opened again. It does nothing if there is no file.
func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.number == 0 {
		err = errors.Join(err, os.Remove(s.path))
	}
	s.file, s.allocated, s.reserved = nil, 0, 0
	return err
}
