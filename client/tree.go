package client

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"
	"golang.org/x/text/unicode/norm"
)

// TreeOptions configure PutTree and GetTree.
type TreeOptions struct {
	Conflict     Conflict // for uploads; default Fail
	SkipSame     bool     // skip files whose target has equal size and mtime, or equal content
	Keep         bool     // for downloads: never replace a local file
	Progress     Progress
	OnItem       func(Item)         // receives the result of each file, never concurrently; may be nil
	TreeProgress func(TreeProgress) // receives the progress of the tree, never concurrently, at most 5 times a second and at the end; may be nil
}

// Item is the result of one file, or of a folder that failed.
type Item struct {
	Local, Path string
	Result      Result
	Err         error // nil: success. A failed folder stands for everything in it
}

// Summary counts the results of a tree.
type Summary struct {
	Sent     int   `json:"sent"`
	Received int   `json:"received"`
	Instant  int   `json:"instant"`
	Skipped  int   `json:"skipped"`
	Failed   int   `json:"failed"`
	Folders  int   `json:"folders"`  // folders created
	Symlinks int   `json:"symlinks"` // skipped symbolic links
	Special  int   `json:"special"`  // skipped devices, sockets and pipes
	Bytes    int64 `json:"bytes"`    // bytes transferred

	Unfinished int `json:"unfinished,omitempty"` // skipped partial files of running or interrupted downloads
}

// Add adds the counts of another summary.
func (s *Summary) Add(o Summary) {
	s.Sent += o.Sent
	s.Received += o.Received
	s.Instant += o.Instant
	s.Skipped += o.Skipped
	s.Failed += o.Failed
	s.Folders += o.Folders
	s.Symlinks += o.Symlinks
	s.Special += o.Special
	s.Bytes += o.Bytes
	s.Unfinished += o.Unfinished
}

// Count adds one file to the counter of its outcome: failed if it has an error, else by the state
// of its result. It also adds the bytes moved.
func (s *Summary) Count(i Item) {
	switch {
	case i.Err != nil:
		s.Failed++
	case i.Result.State == StateSent:
		s.Sent++
	case i.Result.State == StateReceived:
		s.Received++
	case i.Result.State == StateInstant:
		s.Instant++
	case i.Result.State == StateSkipped:
		s.Skipped++
	}
	s.Bytes += i.Result.Moved
}

// pool runs the transfers of a tree concurrently within a limit of connections, and counts their
// results.
type pool struct {
	opt      TreeOptions
	slots    *semaphore.Weighted
	capacity int64
	cancel   context.CancelCauseFunc
	running  sync.WaitGroup

	mu            sync.Mutex
	sum           Summary
	progressMeter treeMeter
}

// newPool returns a pool of width connections, and a context for all its work. The pool cancels the
// context when the whole tree stops. The caller must call finish.
func newPool(ctx context.Context, o TreeOptions, width int) (context.Context, *pool) {
	ctx, stop := context.WithCancelCause(ctx)
	return ctx, &pool{opt: o, progressMeter: treeMeter{fn: o.TreeProgress}, slots: semaphore.NewWeighted(int64(width)), capacity: int64(width), cancel: stop}
}

// start runs work in a goroutine once the given number of connections is free, and reports its
// result. It returns the context's cause if ctx ends first.
func (p *pool) start(ctx context.Context, connections int, i Item, work func(context.Context) (Result, error)) error {
	need := min(int64(connections), p.capacity)
	if err := p.slots.Acquire(ctx, need); err != nil {
		return context.Cause(ctx)
	}
	p.running.Go(func() {
		defer p.slots.Release(need)
		i.Result, i.Err = work(ctx)
		p.report(ctx, i)
	})
	return nil
}

// report counts the result of an item and passes it to TreeOptions.OnItem. An error that would hit
// every other file too (unauthenticated, retry budget exhausted) stops the whole tree.
func (p *pool) report(ctx context.Context, i Item) {
	if ctx.Err() != nil && i.Err != nil {
		return // interrupted, not failed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.Count(i)
	p.progressMeter.add(i)
	if p.opt.OnItem != nil {
		p.opt.OnItem(i)
	}
	if IsCode(i.Err, CodeUnauthenticated) || errors.Is(i.Err, ErrRetriesExhausted) {
		p.cancel(i.Err)
	}
}

// update calls change with the summary while it holds p.mu; change must not call methods of the
// pool.
func (p *pool) update(change func(*Summary)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.sum)
}

// progress passes an event to TreeOptions.Progress, which must be set. Calls are serialized.
func (p *pool) progress(ev Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opt.Progress(ev)
}

// finish waits for the running transfers, ends the progress reports and cancels the pool's context.
// It returns the summary, and as error the cause of ctx, the pool's context, if that has ended,
// else err. It must be called once.
func (p *pool) finish(ctx context.Context, err error) (Summary, error) {
	p.running.Wait()
	p.progressMeter.finish()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.cancel(nil)
	return p.sum, err
}

// PutTree uploads the directory local to the remote folder dest, which it creates if missing. A
// file that fails does not stop the others; TreeOptions.OnItem and Summary.Failed report it. The
// error tells why the whole upload stopped.
func (u *Uploader) PutTree(ctx context.Context, local, dest string, o TreeOptions) (Summary, error) {
	if err := checkPath(dest); err != nil {
		return Summary{}, err
	}
	ctx, w := newPool(ctx, o, u.opt.Files)
	w.progressMeter.count(ctx, local)
	t := &treeUpload{Uploader: u, pool: w, lists: newLister(u.c, w), batches: newBatcher(u, w)}
	t.claims = &claimBatcher{batcher: t.batches}
	if strings.HasPrefix(dest, "//") { // batches are available for the user's own drive only, not in a space or a shared folder
		t.batches.disabled.Store(true)
	}
	err := t.putFolder(ctx, local, dest, nil, false)
	if err == nil {
		err = t.batches.flush(ctx)
	}
	if err == nil {
		err = t.claims.flush(ctx)
	}
	return w.finish(ctx, err)
}

// treeUpload is the state of one PutTree.
type treeUpload struct {
	*Uploader
	pool    *pool
	lists   *lister
	batches *batcher
	claims  *claimBatcher
}

// putFolder uploads the contents of the directory local to dest, which it creates if missing. there
// is the listing of the remote folder, nil if not fetched. fresh reports that nothing exists at
// dest. It fails only if ctx ends; the whole tree then stops. Failures of single files and folders
// are reported to the pool.
func (t *treeUpload) putFolder(ctx context.Context, local, dest string, there *listing, fresh bool) error {
	w := t.pool
	entries, err := os.ReadDir(local)
	var known map[string]Node
	switch {
	case err != nil:
	case fresh && t.batches.accepts(0):
		err = t.batches.add(ctx, batchEntry{item: Item{Local: local, Path: dest}, dest: dest, dir: true})
		if err != nil {
			return err
		}
	default:
		known, fresh, err = t.openFolder(ctx, dest, there)
	}
	if err != nil {
		w.report(ctx, Item{Local: local, Path: dest, Err: err})
		return context.Cause(ctx)
	}
	given := namesOf(entries)
	next := t.lists.prefetch(ctx, foldersIn(entries, known))
	defer next.stop()
	for _, entry := range entries {
		if t.isSkipped(entry) {
			continue
		}
		name, err := given.assign(entry.Name())
		from, to := filepath.Join(local, entry.Name()), JoinPath(dest, name)
		if err == nil {
			err = checkPath(to)
		}
		n, taken := known[name]
		switch {
		case err != nil:
			w.report(ctx, Item{Local: from, Path: to, Err: err})
			err = context.Cause(ctx)
		case entry.IsDir():
			var within *listing
			if taken {
				within = next.take(ctx, n.ID)
			}
			err = t.putFolder(ctx, from, to, within, (fresh || w.opt.SkipSame) && !taken)
			t.lists.stop(within)
		default:
			err = t.putEntry(ctx, from, to, known)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isSkipped reports whether a directory entry is not uploaded, and counts it if so.
func (t *treeUpload) isSkipped(entry os.DirEntry) bool {
	switch mode := entry.Type(); {
	case (mode.IsRegular() || mode.IsDir()) && isTempName(entry.Name()):
		t.pool.update(func(s *Summary) { s.Unfinished++ })
	case mode.IsRegular(), mode.IsDir():
		return false
	case mode&os.ModeSymlink != 0:
		t.pool.update(func(s *Summary) { s.Symlinks++ })
	default:
		t.pool.update(func(s *Summary) { s.Special++ })
	}
	return true
}

// foldersIn returns the ids of the remote folders that match the local subdirectories, in the same
// order.
func foldersIn(entries []os.DirEntry, known map[string]Node) (ids []string) {
	for _, e := range entries {
		if n, ok := known[norm.NFC.String(e.Name())]; ok && e.IsDir() && n.Type == Folder {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// openFolder creates the remote folder if missing and returns its nodes by name; known is nil
// unless SkipSame is set or a listing is given. there is the folder's listing, nil if not fetched.
// fresh reports that the folder was created.
func (t *treeUpload) openFolder(ctx context.Context, dest string, there *listing) (known map[string]Node, fresh bool, err error) {
	if there != nil {
		known, err = t.list(ctx, there)
		if !IsCode(err, CodeNotFound) { // the folder may have been deleted since its parent was listed
			return known, false, err
		}
	}
	folder, created, err := t.c.MakeFolder(ctx, dest)
	if err != nil {
		return nil, false, err
	}
	if created {
		t.pool.update(func(s *Summary) { s.Folders++ })
		return nil, true, nil
	}
	if !t.pool.opt.SkipSame {
		return nil, false, nil
	}
	there = &listing{folder: folder.ID}
	defer t.lists.stop(there)
	known, err = t.list(ctx, there)
	return known, false, err
}

// list returns the nodes of a remote folder by name. It fails with the error of a page or the cause
// of ctx.
func (t *treeUpload) list(ctx context.Context, folder *listing) (map[string]Node, error) {
	known := make(map[string]Node)
	for page := range t.lists.read(ctx, folder) {
		if page.err != nil {
			return nil, page.err
		}
		for _, n := range page.nodes {
			known[n.Name] = n
		}
	}
	return known, context.Cause(ctx)
}

// putEntry uploads one file: small ones in a batch, files whose content the server may have by a
// claim, and others on their own. It only starts that, and the pool reports the result. It fails
// only if ctx ends; the whole tree then stops.
func (t *treeUpload) putEntry(ctx context.Context, local, dest string, known map[string]Node) error {
	w := t.pool
	item := Item{Local: local, Path: dest}
	src, err := FileSource(local)
	if err != nil {
		item.Err = err
		w.report(ctx, item)
		return context.Cause(ctx)
	}
	o := PutOptions{Conflict: w.opt.Conflict, Parents: true, SkipSame: w.opt.SkipSame, New: true}
	if n, ok := known[path.Base(dest)]; ok {
		o.Known, o.New = &n, false
	}
	if w.opt.Progress != nil {
		o.Progress = w.progress
	}
	e := batchEntry{item: item, src: src, opt: o, dest: dest}
	if t.batches.accepts(src.Size) {
		return t.batches.add(ctx, e)
	}
	if t.claims.accepts(e) {
		return t.claims.add(ctx, e)
	}
	connections := 1
	if src.Size > t.opt.PartSize {
		connections = t.opt.Parallel
	}
	return w.start(ctx, connections, item, func(ctx context.Context) (Result, error) { return t.Put(ctx, src, dest, o) })
}
