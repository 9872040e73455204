package client

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"lukechampine.com/blake3"
)

// maxLine is the maximum length of a line of a stream, in bytes, and the size of the read buffer. A
// node with the longest path needs a fraction of it.
const maxLine = 256 << 10

// errLongLine reports a line longer than maxLine.
var errLongLine = fmt.Errorf("the server has sent a line of more than %d KiB in a stream of files", maxLine>>10)

// stagedFile is a received file that is not yet renamed to its final name.
type stagedFile struct {
	queuedFile
	dir  string // path of its folder or draft below the local directory
	part string // its name in dir
}

// stream is one reply with many files.
type stream struct {
	run      *downloadRun
	reader   *bufio.Reader
	listed   bool // the reply carries no nodes; those of the listing are used
	all      []queuedFile
	consumed int // number of files of all that were processed
	staged   []stagedFile

	drafts     []*draft
	changed    []queuedFile // files that changed since they were listed
	retryAlone []queuedFile // files to be downloaded on their own
	dirs       dirCache
	buf        []byte
}

// newStream returns a stream that will receive the files all; known as in stream.listed.
func newStream(c *collector, all []queuedFile, known bool) *stream {
	return &stream{run: &c.run, all: all, listed: known, dirs: dirCache{root: c.root}}
}

// attempt requests and reads one stream, commits the received files, and starts to download each
// file of s.retryAlone on its own. On an error, s.consumed files are dealt with, and the caller
// continues after them.
func (c *collector) attempt(ctx context.Context, s *stream) error {
	ids := make([]string, len(s.all))
	for i, f := range s.all {
		ids[i] = f.node.ID
	}
	k := &request{method: http.MethodPost, path: "/batch/contents", input: map[string][]string{"nodes": ids}}
	if s.listed {
		k.setHeader("Prefer", "return=minimal")
	}
	resp, err := c.d.c.roundTrip(ctx, k, false)
	if err != nil {
		return err
	}
	defer closeQuietly(resp.Body)
	top, err := c.root.Open(".") // opened before any write, so that its sync reports every later write error
	if err != nil {
		return err
	}
	defer closeQuietly(top)
	s.reader = bufio.NewReaderSize(resp.Body, maxLine)
	for last := false; !last && err == nil; {
		last, err = c.next(ctx, s)
	}
	s.dirs.close()
	c.commit(ctx, s, top)
	c.fetchAlone(ctx, s.retryAlone, true)
	return err
}

// streamLine is the header of a file in a stream.
type streamLine struct {
	batchLine
	Rev  int64 `json:"rev"`
	Size int64 `json:"size"`
}

// line reads the next header; last reports the end of the stream. It fails with a connection error
// if the stream ends early, and if the server sends another file than requested.
func (s *stream) line(ctx context.Context) (l streamLine, last bool, err error) {
	raw, err := s.reader.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return l, false, errLongLine
	case errors.Is(err, io.EOF):
		return l, false, wrapConnError(ctx, io.ErrUnexpectedEOF)
	case err != nil:
		return l, false, wrapConnError(ctx, err)
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, false, fmt.Errorf("read a stream of files: %w", err)
	}
	switch {
	case l.N == nil && s.consumed == len(s.all):
		return l, true, nil
	case l.N == nil || *l.N != s.consumed || s.consumed == len(s.all) || l.Size < 0:
		return l, false, fmt.Errorf("the server has sent another file than that which was asked for: %s", excerpt(raw))
	}
	return l, false, nil
}

// next reads the next file of the stream and writes it to disk under a temporary name. last reports
// that no more files are read from this stream. A file that the server cannot send, that has grown
// or that is damaged is added to s.retryAlone, and one that changed to s.changed. It fails only if
// the stream itself is broken.
func (c *collector) next(ctx context.Context, s *stream) (last bool, err error) {
	l, last, err := s.line(ctx)
	if last || err != nil {
		return last, err
	}
	f := s.all[s.consumed]
	if l.Problem != nil || l.Size > maxStreamedFile { // deleted or grown since it was listed
		if l.Size > maxStreamBytes {
			last = true // a new stream is faster than skipping this content
		} else if _, err := io.CopyN(io.Discard, s.reader, l.Size); err != nil {
			return false, wrapConnError(ctx, err)
		}
		s.consumed++
		s.retryAlone = append(s.retryAlone, f)
		return last, nil
	}
	s.buf = slices.Grow(s.buf[:0], int(l.Size))[:l.Size]
	if _, err := io.ReadFull(s.reader, s.buf); err != nil {
		return false, wrapConnError(ctx, err)
	}
	s.consumed++
	switch {
	case l.Node != nil: // requested, or the server ignored the preference
		f.node = *l.Node
	case l.Rev != f.node.Rev:
		s.changed = append(s.changed, f)
		return false, nil
	}
	if sum := blake3.Sum256(s.buf); hex.EncodeToString(sum[:]) != f.node.Digests[blake3Name] {
		s.retryAlone = append(s.retryAlone, f)
		return false, nil
	}
	here, err := s.write(f)
	if err != nil {
		c.finishFile(ctx, f, Result{}, err)
		return false, nil
	}
	s.staged = append(s.staged, here)
	return false, nil
}

// write writes s.buf to a temporary file beside the target, or into the draft of its folder, and
// sets the mtime. On an error the file is removed.
func (s *stream) write(f queuedFile) (stagedFile, error) {
	path, part := filepath.Dir(f.rel), filepath.Base(f.rel)
	var d *draft
	if f.created == nil {
		part = s.run.newPartName()
	} else {
		var err error
		if d, err = s.draftOf(path); err != nil {
			return stagedFile{}, err
		}
		path = d.path
	}
	dir, file, err := s.create(path, part)
	if err != nil {
		return stagedFile{}, err
	}
	_, err = file.Write(s.buf)
	if err = errors.Join(err, file.Close()); err == nil && !f.node.Mtime.IsZero() {
		err = dir.Chtimes(part, f.node.Mtime.Time, f.node.Mtime.Time)
	}
	if err != nil {
		s.run.remove(dir, part)
	} else if d != nil {
		d.files = append(d.files, len(s.staged))
	}
	return stagedFile{f, path, part}, err
}

// create creates a file in a folder. If the folder was replaced by another run's draft since it was
// opened, create opens it again. dir belongs to the cache; the caller closes file. An existing file
// is an error.
func (s *stream) create(path, name string) (dir *os.Root, file *os.File, err error) {
	for again := true; ; again = false {
		dir, err = s.dirs.open(path)
		if err != nil {
			return nil, nil, err
		}
		file, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !again || !errors.Is(err, fs.ErrNotExist) {
			return dir, file, err
		}
		s.dirs.close()
	}
}

// dirCache keeps the last opened folder, because consecutive files are in the same folder and
// opening it costs as much as creating a file.
type dirCache struct {
	root *os.Root
	path string
	dir  *os.Root
}

// open returns the folder at path, from the cache if it was the last one. The cache owns it: it is
// valid up to the next open of another path or close.
func (c *dirCache) open(path string) (dir *os.Root, err error) {
	if c.dir == nil || c.path != path {
		c.close()
		if c.dir, err = c.root.OpenRoot(path); err != nil {
			return nil, err
		}
		c.path = path
	}
	return c.dir, nil
}

// close closes the cached folder, if any. The cache remains usable.
func (c *dirCache) close() {
	if c.dir != nil {
		closeQuietly(c.dir)
		c.dir = nil
	}
}
