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
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"lukechampine.com/blake3"

	"smartdrive/internal/base/wholesync"
)

// Small files of a tree come many in one stream. Each is written beside its target, compared with
// its digest, and gets its name once it is durable, which many become together. A stream that
// breaks off goes on with the files that have not come.

// Sizes of the streams of a tree.
const (
	streamedFile  = 256 << 10       // a file up to this comes in a stream, in bytes
	streamedBytes = 32 << 20        // of the files of one stream
	streamLanes   = 2               // streams at once: one is received while the files of another are made durable
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
// on alone: its sidecar says of ranges that they are there, and only that way keeps it true.
func (c *collector) takes(n Node, rel string) bool {
	if n.Size > streamedFile || c.off.Load() || n.Digests[blake3Name] == "" {
		return false
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

// attempt reads one stream, ends the files that came, and returns those that did not.
func (c *collector) attempt(ctx context.Context, all []wanted) (rest []wanted, err error) {
	ids := make([]string, len(all))
	for i, f := range all {
		ids[i] = f.node.ID
	}
	k := &call{method: http.MethodPost, path: "/batch/contents", in: map[string][]string{"nodes": ids}}
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
	from := bufio.NewReaderSize(resp.Body, 256<<10)
	var here []arrived
	var odd []wanted
	done := 0
	for ; ; done++ {
		var over, written bool
		if over, written, err = c.next(ctx, from, all, done, &here); over || err != nil {
			break
		}
		if !written {
			odd = append(odd, all[done])
		}
	}
	c.settle(ctx, here, whole)
	for _, f := range odd {
		c.alone(ctx, f)
	}
	return all[done:], err
}

// next takes the next file of a stream, which is all[n]. written: it lies beside its target, else
// it is to be fetched alone, which also tells what is wrong with it.
func (c *collector) next(ctx context.Context, from *bufio.Reader, all []wanted, n int, here *[]arrived) (over, written bool, err error) {
	raw, err := from.ReadBytes('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return false, false, asCut(ctx, err)
	}
	var l struct {
		batchLine
		Size int64 `json:"size"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return false, false, fmt.Errorf("read a stream of files: %w", err)
	}
	switch {
	case l.N == nil && n == len(all):
		return true, false, nil
	case l.N == nil || *l.N != n || n == len(all) || l.Size < 0:
		return false, false, fmt.Errorf("the server has sent another file than that which was asked for: %s", excerpt(raw))
	case l.Problem != nil:
		return false, false, nil
	case l.Size > streamedFile: // it has grown since it was listed
		_, err := io.CopyN(io.Discard, from, l.Size)
		return false, false, asCut(ctx, err)
	}
	content := make([]byte, l.Size)
	if _, err := io.ReadFull(from, content); err != nil {
		return false, false, asCut(ctx, err)
	}
	f := all[n]
	if sum := blake3.Sum256(content); l.Node == nil || hex.EncodeToString(sum[:]) != l.Node.Digests[blake3Name] {
		return false, false, nil
	}
	f.node = *l.Node
	part, err := c.write(f, content)
	if err != nil {
		c.over(ctx, f, Result{}, err)
		return false, true, nil
	}
	*here = append(*here, arrived{f, part})
	return false, true, nil
}

// write puts the content of a file beside its target.
func (c *collector) write(f wanted, content []byte) (part string, err error) {
	part, _ = partNames(f.rel)
	file, err := c.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil && !f.node.Mtime.IsZero() {
		err = c.root.Chtimes(part, f.node.Mtime, f.node.Mtime)
	}
	return part, err
}

// settle makes files durable and gives them their names. whole is the folder of all.
func (c *collector) settle(ctx context.Context, all []arrived, whole *os.File) {
	if len(all) == 0 {
		return
	}
	err := c.sync(all, whole)
	dirs := map[string]error{}
	for _, f := range all {
		dirs[filepath.Dir(f.rel)] = nil
	}
	errs := make([]error, len(all))
	for i, f := range all {
		if errs[i] = err; err == nil {
			errs[i] = c.root.Rename(f.part, f.rel)
		}
	}
	for dir := range dirs {
		dirs[dir] = syncFolder(c.root, dir)
	}
	for i, f := range all {
		c.over(ctx, f.wanted, Result{Node: f.node, State: StateReceived, Moved: f.node.Size}, errors.Join(errs[i], dirs[filepath.Dir(f.rel)]))
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
