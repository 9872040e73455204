package wal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/filelock"
)

// restore rewrites the files of the contents in the segments, makes them durable, and removes the
// segments. It fails if another process has locked a segment or a file cannot be written; in that
// case files may have been rewritten in part. It closes the segments in every case.
func (l *Log) restore() error {
	var found []*segment
	defer func() {
		for i := range l.segments {
			if f := l.segments[i].file; f != nil {
				_ = f.Close()
			}
			l.segments[i] = segment{path: l.segments[i].path}
		}
	}()
	for i := range l.segments {
		s := &l.segments[i]
		f, err := os.OpenFile(s.path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.file = f
		if err := lock(f); err != nil {
			return err
		}
		if s.number, err = readHeader(f); err != nil {
			return err
		}
		found = append(found, s)
	}
	// A content is older than the record of its removal, so older segments are cleared first.
	slices.SortFunc(found, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	names, err := l.restoreFrom(found)
	if drive.KindOf(err) == drive.DiskFull {
		for _, s := range found {
			if err := s.releaseReserved(l.contents); err != nil {
				return err
			}
		}
		names, err = l.restoreFrom(found)
	}
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if err := l.contents.Sync(names); err != nil {
			return err
		}
		l.log.Info("small files restored from the write-ahead log", "contents", len(names))
	}
	for _, s := range found {
		if err := s.clear(l.contents); err != nil {
			return err
		}
		s.number = 0
		if err := s.close(); err != nil { // also removes the file, which Windows does only with no open handle
			return err
		}
	}
	return nil
}

// lock locks a segment's file. It fails if another process has the log open, perhaps under another
// name of the directory.
func lock(f *os.File) error {
	held, err := filelock.Try(f)
	if held {
		err = fmt.Errorf("%s is in use", f.Name())
	}
	return err
}

// restoreFrom calls Contents.Restore for each content in the segments that no segment records as
// forgotten, and returns their names. It does not make the files durable and does not clear the
// segments; the caller does both. It returns no names with an error.
func (l *Log) restoreFrom(segments []*segment) (names []string, err error) {
	forgotten := map[string]bool{}
	for _, s := range segments {
		err := s.each(func(f frame) error {
			if f.kind == kindForgotten {
				forgotten[f.name] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, s := range segments {
		err := s.each(func(f frame) error {
			if f.kind != kindContent || forgotten[f.name] {
				return nil
			}
			names = append(names, f.name)
			return l.contents.Restore(f.name, f.content)
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// each calls fn for each frame of a segment and sets s.next to their end. It stops at the first
// error of fn.
func (s *segment) each(fn func(frame) error) error {
	if s.number == 0 {
		return nil
	}
	end := int64(headerSize)
	if _, err := s.file.Seek(end, 0); err != nil {
		return err
	}
	in := bufio.NewReaderSize(s.file, 256<<10)
	for {
		f, ok, err := readFrame(in, s.number)
		if err != nil {
			return err
		}
		if !ok {
			s.next = end
			return nil
		}
		end += int64(f.size())
		if err := fn(f); err != nil {
			return err
		}
	}
}
