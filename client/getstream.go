package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"smartdrive/internal/base/digest"
)

// lineMost is what a line of a stream may have, in bytes: a node with the longest path is a
// fraction of it. It is also what is read at a time.
const lineMost = 256 << 10

// errLongLine is a line that no server sends.
var errLongLine = fmt.Errorf("the server has sent a line of more than %d KiB in a stream of files", lineMost>>10)

// arrived is a file that lies beside its target, or in the draft of its folder.
type arrived struct {
	wanted
	dir  string // the folder it is in, below the local one
	part string // its name in there
}

// stream is one answer with many files.
type stream struct {
	run   *run
	from  *bufio.Reader
	known bool // the nodes are, as they were listed
	all   []wanted
	done  int // of all, those that have been dealt with
	here  []arrived

	drafts  []*draft
	changed []wanted // since they were listed
	odd     []wanted // to be fetched alone
	at      lastDir
	buf     []byte
	sum     *digest.Part
}

func newStream(c *collector, all []wanted, known bool) *stream {
	return &stream{run: &c.run, all: all, known: known, at: lastDir{root: c.root}, sum: digest.NewPart(0)}
}

// attempt reads one stream and ends the files that came.
func (c *collector) attempt(ctx context.Context, s *stream) error {
	ids := make([]string, len(s.all))
	for i, f := range s.all {
		ids[i] = f.node.ID
	}
	k := &call{method: http.MethodPost, path: "/batch/contents", in: map[string][]string{"nodes": ids}}
	if s.known {
		k.setHeader("Prefer", "return=minimal")
	}
	resp, err := c.d.c.roundTrip(ctx, k, false)
	if err != nil {
		return err
	}
	defer letGo(resp.Body)
	whole, err := c.root.Open(".") // before files are written: it is told of what fails from then on
	if err != nil {
		return err
	}
	defer letGo(whole)
	s.from = bufio.NewReaderSize(resp.Body, lineMost)
	for over := false; !over && err == nil; {
		over, err = c.next(ctx, s)
	}
	s.at.leave()
	c.settle(ctx, s, whole)
	c.alone(ctx, s.odd, true)
	return err
}

// streamLine is what a stream says of a file.
type streamLine struct {
	batchLine
	Rev  int64 `json:"rev"`
	Size int64 `json:"size"`
}

// line reads the next line; over: it is the last one.
func (s *stream) line(ctx context.Context) (l streamLine, over bool, err error) {
	raw, err := s.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return l, false, errLongLine
	case errors.Is(err, io.EOF):
		return l, false, asCut(ctx, io.ErrUnexpectedEOF)
	case err != nil:
		return l, false, asCut(ctx, err)
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, false, fmt.Errorf("read a stream of files: %w", err)
	}
	switch {
	case l.N == nil && s.done == len(s.all):
		return l, true, nil
	case l.N == nil || *l.N != s.done || s.done == len(s.all) || l.Size < 0:
		return l, false, fmt.Errorf("the server has sent another file than that which was asked for: %s", excerpt(raw))
	}
	return l, false, nil
}

// next takes the next file of a stream; over: there are no more.
func (c *collector) next(ctx context.Context, s *stream) (over bool, err error) {
	l, over, err := s.line(ctx)
	if over || err != nil {
		return over, err
	}
	f := s.all[s.done]
	if l.Problem != nil || l.Size > streamedFile { // it has gone or has grown since it was listed
		if l.Size > streamedBytes {
			over = true // the others come in another stream sooner than behind this one
		} else if _, err := io.CopyN(io.Discard, s.from, l.Size); err != nil {
			return false, asCut(ctx, err)
		}
		s.done++
		s.odd = append(s.odd, f)
		return over, nil
	}
	s.buf = slices.Grow(s.buf[:0], int(l.Size))[:l.Size]
	if _, err := io.ReadFull(s.from, s.buf); err != nil {
		return false, asCut(ctx, err)
	}
	s.done++
	switch {
	case l.Node != nil: // it was asked for, or the server does not know the preference
		f.node = *l.Node
	case l.Rev != f.node.Rev:
		s.changed = append(s.changed, f)
		return false, nil
	}
	if s.digest() != f.node.Digests[blake3Name] {
		s.odd = append(s.odd, f)
		return false, nil
	}
	here, err := s.write(f)
	if err != nil {
		c.over(ctx, f, Result{}, err)
		return false, nil
	}
	s.here = append(s.here, here)
	return false, nil
}

// digest returns the BLAKE3 of the content that has come.
func (s *stream) digest() string {
	s.sum.Reset(0)
	_, _ = s.sum.Write(s.buf) // it takes all of the first part
	return s.sum.Root().String()
}

// write puts the content that has come beside its target.
func (s *stream) write(f wanted) (arrived, error) {
	path, part := filepath.Dir(f.rel), filepath.Base(f.rel)
	var d *draft
	if f.made == nil {
		part = s.run.part()
	} else {
		var err error
		if d, err = s.draftOf(path); err != nil {
			return arrived{}, err
		}
		path = d.path
	}
	dir, file, err := s.create(path, part)
	if err != nil {
		return arrived{}, err
	}
	_, err = file.Write(s.buf)
	if err = errors.Join(err, file.Close()); err == nil && !f.node.Mtime.IsZero() {
		err = dir.Chtimes(part, f.node.Mtime, f.node.Mtime)
	}
	if err != nil {
		s.run.remove(dir, part)
	} else if d != nil {
		d.files = append(d.files, len(s.here))
	}
	return arrived{f, path, part}, err
}

// create makes a file in a folder. One that was empty may have been replaced by its draft, which
// another run had, since it was opened.
func (s *stream) create(path, name string) (dir *os.Root, file *os.File, err error) {
	for again := true; ; again = false {
		dir, err = s.at.of(path)
		if err != nil {
			return nil, nil, err
		}
		file, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !again || !errors.Is(err, fs.ErrNotExist) {
			return dir, file, err
		}
		s.at.leave()
	}
}

// lastDir is the folder of the file that was asked for last: files of one folder come one after the
// other, and finding it again for each call costs as much as the call.
type lastDir struct {
	root *os.Root
	path string
	dir  *os.Root
}

// of returns a folder.
func (p *lastDir) of(path string) (dir *os.Root, err error) {
	if p.dir == nil || p.path != path {
		p.leave()
		if p.dir, err = p.root.OpenRoot(path); err != nil {
			return nil, err
		}
		p.path = path
	}
	return p.dir, nil
}

func (p *lastDir) leave() {
	if p.dir != nil {
		letGo(p.dir)
		p.dir = nil
	}
}
