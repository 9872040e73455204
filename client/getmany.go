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
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/wholesync"
)

// Small files of a tree come many in one stream. Each is written beside its target, compared with
// its digest, and gets its name once it is durable, which many become together. A stream that
// breaks off goes on with the files that have not come.

// Sizes of the streams of a tree.
const (
	streamedFile  = 256 << 10       // a file up to this comes in a stream, in bytes
	streamedBytes = 32 << 20        // of the files of one stream
	streamLanes   = 4               // streams at once: some are received while the files of others are made durable
	syncsAtOnce   = 16              // files that are synced at a time, where they cannot be together
	syncedWhole   = 64              // files that are worth a sync of the file system
	slowSync      = 5 * time.Second // for one that others have much to write to; the next files are synced one by one
)

// wanted is a small file that waits for its stream.
type wanted struct {
	item Item
	node Node
	rel  string // its place below the local folder
	opt  GetOptions
}

// collector collects the small files of a tree.
type collector struct {
	d      *Downloader
	w      *crew
	root   *os.Root
	off    atomic.Bool // the server has no such streams
	each   atomic.Bool // files are synced one by one
	lanes  chan struct{}
	queued []wanted
	bytes  int64
}

func newCollector(d *Downloader, w *crew, root *os.Root) *collector {
	c := &collector{d: d, w: w, root: root, lanes: make(chan struct{}, min(streamLanes, d.opt.Files))}
	c.off.Store(d.opt.Single)
	return c
}

// takes reports whether a file comes in a stream. What an interrupted download has left of it goes
// on alone: its sidecar says of ranges that they are there, and only that way keeps it true. empty:
// there is nothing in its folder.
func (c *collector) takes(n Node, rel string, empty bool) bool {
	if n.Size > streamedFile || c.off.Load() || n.Digests[blake3Name] == "" {
		return false
	}
	if empty {
		return true
	}
	_, side := partNames(rel)
	_, err := c.root.Lstat(side)
	return errors.Is(err, fs.ErrNotExist)
}

func (c *collector) add(ctx context.Context, f wanted) error {
	c.queued = append(c.queued, f)
	c.bytes += f.node.Size
	if len(c.queued) < MaxBatchItems && c.bytes < streamedBytes {
		return nil
	}
	return c.flush(ctx)
}

// flush fetches what waits.
func (c *collector) flush(ctx context.Context) error {
	all := c.queued
	c.queued, c.bytes = nil, 0
	if len(all) == 0 {
		return nil
	}
	select {
	case c.lanes <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.w.wait.Go(func() {
		defer func() { <-c.lanes }()
		c.fetch(ctx, all)
	})
	return nil
}

// fetch fetches the files of one stream.
func (c *collector) fetch(ctx context.Context, all []wanted) {
	p := newPatience(c.d.opt.GiveUp)
	p.notify = func(err error, _ time.Duration) {
		if progress := all[0].opt.Progress; progress != nil {
			progress(Event{Path: all[0].node.Path, Local: all[0].item.Local, State: StateWaiting, Total: all[0].node.Size, Err: err})
		}
	}
	for failures := 0; len(all) > 0; {
		rest, err := c.attempt(ctx, all)
		if len(rest) < len(all) {
			p.touch()
			failures = 0
		}
		all = rest
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return
		case LacksBatch(err):
			c.off.Store(true)
			for _, f := range all {
				c.alone(ctx, f)
			}
			return
		}
		failures++
		if err := c.d.c.pause(ctx, p, judge(err), failures, err); err != nil {
			for _, f := range all {
				c.over(ctx, f, Result{}, err)
			}
			return
		}
	}
}

// arrived is a file that lies beside its target.
type arrived struct {
	wanted
	part string
}

// stream is one answer with many files.
type stream struct {
	from *bufio.Reader
	all  []wanted
	done int // of all, those that have been dealt with
	here []arrived
	odd  []wanted // to be fetched alone, which also tells what is wrong with them
	at   lastDir
	buf  []byte
	sum  *digest.Part
}

func newStream(from io.Reader, root *os.Root, all []wanted) *stream {
	return &stream{from: bufio.NewReaderSize(from, 256<<10), all: all, at: lastDir{root: root}, sum: digest.NewPart(0)}
}

// attempt reads one stream, ends the files that came, and returns those that did not.
func (c *collector) attempt(ctx context.Context, all []wanted) (rest []wanted, err error) {
	ids := make([]string, len(all))
	for i, f := range all {
		ids[i] = f.node.ID
	}
	k := &call{method: http.MethodPost, path: "/batch/contents", in: map[string][]string{"nodes": ids}}
	k.setHeader("Prefer", "return=minimal") // the nodes are known
	resp, err := c.d.c.roundTrip(ctx, k, false)
	if err != nil {
		return all, err
	}
	defer letGo(resp.Body)
	whole, err := c.root.Open(".") // before files are written: it is told of what fails from then on
	if err != nil {
		return all, err
	}
	defer letGo(whole)
	s := newStream(resp.Body, c.root, all)
	defer s.at.leave()
	for over := false; !over && err == nil; {
		over, err = c.next(ctx, s)
	}
	c.settle(ctx, s, whole)
	for _, f := range s.odd {
		if n, err := c.d.c.Node(ctx, f.node.ID); err == nil { // its time may be all that has changed
			f.node = n
		}
		c.alone(ctx, f)
	}
	return all[s.done:], err
}

// next takes the next file of a stream; over: there are no more.
func (c *collector) next(ctx context.Context, s *stream) (over bool, err error) {
	raw, err := s.from.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return false, asCut(ctx, err)
	}
	var l struct {
		batchLine
		Rev  int64 `json:"rev"`
		Size int64 `json:"size"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return false, fmt.Errorf("read a stream of files: %w", err)
	}
	switch {
	case l.N == nil && s.done == len(s.all):
		return true, nil
	case l.N == nil || *l.N != s.done || s.done == len(s.all) || l.Size < 0:
		return false, fmt.Errorf("the server has sent another file than that which was asked for: %s", excerpt(raw))
	}
	listed := s.all[s.done]
	fits := l.Problem == nil && l.Size <= streamedFile // else it has gone or has grown since it was listed
	if fits {
		s.buf = slices.Grow(s.buf[:0], int(l.Size))[:l.Size]
		_, err = io.ReadFull(s.from, s.buf)
	} else {
		_, err = io.CopyN(io.Discard, s.from, l.Size)
	}
	if err != nil {
		return false, asCut(ctx, err)
	}
	s.done++
	f := listed
	if l.Node != nil { // a server that does not know the preference
		f.node, l.Rev = *l.Node, l.Node.Rev
	}
	if !fits || l.Rev != f.node.Rev || s.digest() != f.node.Digests[blake3Name] {
		s.odd = append(s.odd, listed)
		return false, nil
	}
	part, err := s.write(f)
	if err != nil {
		c.over(ctx, f, Result{}, err)
		return false, nil
	}
	s.here = append(s.here, arrived{f, part})
	return false, nil
}

// digest returns the BLAKE3 of the content that has come.
func (s *stream) digest() string {
	s.sum.Reset(0)
	_, _ = s.sum.Write(s.buf) // it takes all of the first part
	return s.sum.Root().String()
}

// write puts the content that has come beside its target.
func (s *stream) write(f wanted) (part string, err error) {
	part, _ = partNames(f.rel)
	dir, name, err := s.at.of(part)
	if err != nil {
		return "", err
	}
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return "", err
	}
	_, err = file.Write(s.buf)
	if err = errors.Join(err, file.Close()); err == nil && !f.node.Mtime.IsZero() {
		err = dir.Chtimes(name, f.node.Mtime, f.node.Mtime)
	}
	return part, err
}

// settle makes the files of a stream durable and gives them their names. whole is the folder of
// all.
func (c *collector) settle(ctx context.Context, s *stream, whole *os.File) {
	if len(s.here) == 0 {
		return
	}
	err := c.sync(s.here, whole)
	dirs := map[string]error{}
	errs := make([]error, len(s.here))
	for i, f := range s.here {
		dirs[filepath.Dir(f.rel)] = nil
		if errs[i] = err; err == nil {
			errs[i] = s.name(f)
		}
	}
	for dir := range dirs {
		dirs[dir] = syncFolder(c.root, dir)
	}
	for i, f := range s.here {
		c.over(ctx, f.wanted, Result{Node: f.node, State: StateReceived, Moved: f.node.Size}, errors.Join(errs[i], dirs[filepath.Dir(f.rel)]))
	}
}

// name gives a file its name.
func (s *stream) name(f arrived) error {
	dir, part, err := s.at.of(f.part)
	if err != nil {
		return err
	}
	return dir.Rename(part, filepath.Base(f.rel))
}

// lastDir is the folder of the file that was asked for last: files of one folder come one after the
// other, and finding it again for each call costs as much as the call.
type lastDir struct {
	root *os.Root
	path string
	dir  *os.Root
}

// of returns the folder of a file and the file's name in it.
func (p *lastDir) of(rel string) (dir *os.Root, name string, err error) {
	if path := filepath.Dir(rel); p.dir == nil || p.path != path {
		p.leave()
		if p.dir, err = p.root.OpenRoot(path); err != nil {
			return nil, "", err
		}
		p.path = path
	}
	return p.dir, filepath.Base(rel), nil
}

func (p *lastDir) leave() {
	if p.dir != nil {
		letGo(p.dir)
		p.dir = nil
	}
}

// sync makes files durable: many by a sync of the file system, where it can be relied on, unless
// that takes long or fails: what it failed about may be somebody else's, and each file tells of its
// own.
func (c *collector) sync(all []arrived, whole *os.File) error {
	if len(all) < syncedWhole || c.each.Load() || !wholesync.Can(whole) {
		return c.syncEach(all)
	}
	began := time.Now()
	err := wholesync.Sync(whole)
	if err != nil || time.Since(began) > slowSync {
		c.each.Store(true)
	}
	if err != nil {
		return c.syncEach(all)
	}
	return nil
}

func (c *collector) syncEach(all []arrived) error {
	var g errgroup.Group
	g.SetLimit(syncsAtOnce)
	for _, f := range all {
		g.Go(func() error {
			file, err := c.root.OpenFile(f.part, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return errors.Join(file.Sync(), file.Close())
		})
	}
	return g.Wait()
}

// alone fetches a file by itself.
func (c *collector) alone(ctx context.Context, f wanted) {
	f.item.Result, f.item.Err = c.d.get(ctx, c.root, f.rel, f.node, f.opt)
	c.w.ended(ctx, f.item)
}

// over ends a file.
func (c *collector) over(ctx context.Context, f wanted, res Result, err error) {
	m := newMeter(f.opt.Progress, Event{Path: f.node.Path, Local: f.item.Local, State: StateReceiving, Total: f.node.Size})
	if err != nil {
		m.end(StateFailed, err)
		res = Result{}
	} else {
		m.end(res.State, nil)
	}
	f.item.Result, f.item.Err = res, err
	c.w.ended(ctx, f.item)
}
