package wal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/filelock"
)

// restore writes the contents again that the segments hold, and removes these.
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
	// A content is older than the record that it was forgotten, and so must go before it.
	slices.SortFunc(found, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	names, err := l.restoreFrom(found)
	if drive.KindOf(err) == drive.DiskFull {
		for _, s := range found {
			if err := s.giveRoom(l.contents); err != nil {
				return err
			}
		}
		names, err = l.restoreFrom(found)
	}
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if err := l.contents.Settle(names); err != nil {
			return err
		}
		l.log.Info("Small contents were written again from the log.", "contents", len(names))
	}
	for _, s := range found {
		if err := s.clear(l.contents); err != nil {
			return err
		}
		s.number = 0
		if err := s.close(); err != nil { // which removes it: Windows does so with no open file
			return err
		}
	}
	return nil
}

// lock refuses a segment that another log has open: the same directory may have two names.
func lock(f *os.File) error {
	held, err := filelock.Try(f)
	if held {
		err = fmt.Errorf("%s is in use", f.Name())
	}
	return err
}

// restoreFrom returns the names of what it has written.
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

// each calls fn for each frame of a segment, and notes where they end once it has seen all.
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
