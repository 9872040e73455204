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

// TreeOptions say how a tree is transferred.
type TreeOptions struct {
	Conflict Conflict // for uploads; default Fail
	SkipSame bool     // skip what is there with equal size and mtime, or equal content
	Keep     bool     // for downloads: never replace a local file
	Progress Progress
	Item     func(Item)  // is told how each file ended, one at a time
	Whole    func(Whole) // is told how far the tree is, one at a time, at most 5 times a second and at the end
}

// Item is how one file or folder of a tree ended.
type Item struct {
	Local, Path string
	Result      Result
	Err         error // when it failed; a folder fails with all that is in it
}

// Summary counts how a tree ended.
type Summary struct {
	Sent     int   `json:"sent"`
	Received int   `json:"received"`
	Instant  int   `json:"instant"`
	Skipped  int   `json:"skipped"`
	Failed   int   `json:"failed"`
	Folders  int   `json:"folders"`  // that were made
	Symlinks int   `json:"symlinks"` // not followed
	Special  int   `json:"special"`  // devices, sockets, pipes: left out
	Bytes    int64 `json:"bytes"`    // that were moved

	Unfinished int `json:"unfinished,omitempty"` // files of downloads that run or were interrupted: left out
}

// Add adds what another transfer counted.
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

// Count adds one ended file.
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

// crew runs the transfers of a tree side by side, within a number of connections, and keeps the
// count.
type crew struct {
	opt   TreeOptions
	room  *semaphore.Weighted
	width int64
	stop  context.CancelCauseFunc
	wait  sync.WaitGroup

	mu    sync.Mutex
	sum   Summary
	whole whole
}

func newCrew(ctx context.Context, o TreeOptions, width int) (context.Context, *crew) {
	ctx, stop := context.WithCancelCause(ctx)
	return ctx, &crew{opt: o, whole: whole{fn: o.Whole}, room: semaphore.NewWeighted(int64(width)), width: int64(width), stop: stop}
}

// run does the work with the given number of connections as soon as so many are free.
func (w *crew) run(ctx context.Context, connections int, i Item, work func(context.Context) (Result, error)) error {
	need := min(int64(connections), w.width)
	if err := w.room.Acquire(ctx, need); err != nil {
		return context.Cause(ctx)
	}
	w.wait.Go(func() {
		defer w.room.Release(need)
		i.Result, i.Err = work(ctx)
		w.ended(ctx, i)
	})
	return nil
}

// ended counts and tells of an item. What would fail for everything else too stops the whole.
func (w *crew) ended(ctx context.Context, i Item) {
	if ctx.Err() != nil && i.Err != nil {
		return // interrupted, not failed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum.Count(i)
	w.whole.ended(i)
	if w.opt.Item != nil {
		w.opt.Item(i)
	}
	if IsCode(i.Err, CodeUnauthenticated) || errors.Is(i.Err, ErrGaveUp) {
		w.stop(i.Err)
	}
}

func (w *crew) count(change func(*Summary)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.sum)
}

// progress is the Progress for one of several files.
func (w *crew) progress(ev Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opt.Progress(ev)
}

// finish waits for what runs and returns the count.
func (w *crew) finish(ctx context.Context, err error) (Summary, error) {
	w.wait.Wait()
	w.whole.finish()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	w.stop(nil)
	return w.sum, err
}

// PutTree sends the folder local to the remote folder dest, which is made if it is missing. It goes
// on after files that fail: the summary and Item tell. The error is for what stopped it.
func (u *Uploader) PutTree(ctx context.Context, local, dest string, o TreeOptions) (Summary, error) {
	if err := checkPath(dest); err != nil {
		return Summary{}, err
	}
	ctx, w := newCrew(ctx, o, u.opt.Files)
	w.whole.count(ctx, local)
	t := &treeUp{Uploader: u, w: w, lists: newLister(u.c, w), many: newBatcher(u, w)}
	t.claims = &claims{b: t.many}
	if strings.HasPrefix(dest, "//") { // in a space, or in what somebody shares: a batch is of one's own drive
		t.many.off.Store(true)
	}
	err := t.putFolder(ctx, local, dest, nil, false)
	if err == nil {
		err = t.many.flush(ctx)
	}
	if err == nil {
		err = t.claims.flush(ctx)
	}
	return w.finish(ctx, err)
}

// treeUp is a tree on its way to the server.
type treeUp struct {
	*Uploader
	w      *crew
	lists  *lister
	many   *batcher
	claims *claims
}

// putFolder sends what is in one folder; it fails only when the whole is to stop. there is the list
// of the folder at dest, where it is known. fresh says that nothing is at dest: what it would be in
// has just been made, or was listed.
func (u *treeUp) putFolder(ctx context.Context, local, dest string, there *listing, fresh bool) error {
	w := u.w
	entries, err := os.ReadDir(local)
	var known map[string]Node
	switch {
	case err != nil:
	case fresh && u.many.takes(0):
		err = u.many.add(ctx, entry{item: Item{Local: local, Path: dest}, dest: dest, dir: true})
		if err != nil {
			return err
		}
	default:
		known, fresh, err = u.arrive(ctx, dest, there)
	}
	if err != nil {
		w.ended(ctx, Item{Local: local, Path: dest, Err: err})
		return context.Cause(ctx)
	}
	given := namesOf(entries)
	next := u.lists.expect(ctx, foldersIn(entries, known))
	defer next.end()
	for _, entry := range entries {
		if u.leavesOut(entry) {
			continue
		}
		name, err := given.take(entry.Name())
		from, to := filepath.Join(local, entry.Name()), JoinPath(dest, name)
		if err == nil {
			err = checkPath(to)
		}
		n, taken := known[name]
		switch {
		case err != nil:
			w.ended(ctx, Item{Local: from, Path: to, Err: err})
			err = context.Cause(ctx)
		case entry.IsDir():
			var within *listing
			if taken {
				within = next.take(ctx, n.ID)
			}
			err = u.putFolder(ctx, from, to, within, (fresh || w.opt.SkipSame) && !taken)
			u.lists.end(within)
		default:
			err = u.putEntry(ctx, from, to, known)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leavesOut reports whether an entry of a local folder is not sent, and counts it.
func (u *treeUp) leavesOut(entry os.DirEntry) bool {
	switch mode := entry.Type(); {
	case (mode.IsRegular() || mode.IsDir()) && isOwn(entry.Name()):
		u.w.count(func(s *Summary) { s.Unfinished++ })
	case mode.IsRegular(), mode.IsDir():
		return false
	case mode&os.ModeSymlink != 0:
		u.w.count(func(s *Summary) { s.Symlinks++ })
	default:
		u.w.count(func(s *Summary) { s.Special++ })
	}
	return true
}

// foldersIn returns the ids of the remote folders that local ones will go into, in their order.
func foldersIn(entries []os.DirEntry, known map[string]Node) (ids []string) {
	for _, e := range entries {
		if n, ok := known[norm.NFC.String(e.Name())]; ok && e.IsDir() && n.Type == Folder {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// arrive makes sure that the remote folder is there and returns what is in it. there is its list,
// where it is known. fresh: it was not there.
func (u *treeUp) arrive(ctx context.Context, dest string, there *listing) (known map[string]Node, fresh bool, err error) {
	if there != nil {
		known, err = u.list(ctx, there)
		if !IsCode(err, CodeNotFound) { // it may have gone since it was listed
			return known, false, err
		}
	}
	folder, created, err := u.c.MakeFolder(ctx, dest)
	if err != nil {
		return nil, false, err
	}
	if created {
		u.w.count(func(s *Summary) { s.Folders++ })
		return nil, true, nil
	}
	if !u.w.opt.SkipSame {
		return nil, false, nil
	}
	there = &listing{folder: folder.ID}
	defer u.lists.end(there)
	known, err = u.list(ctx, there)
	return known, false, err
}

// list returns what is in a remote folder by its name.
func (u *treeUp) list(ctx context.Context, folder *listing) (map[string]Node, error) {
	known := make(map[string]Node)
	for page := range u.lists.read(ctx, folder) {
		if page.err != nil {
			return nil, page.err
		}
		for _, n := range page.nodes {
			known[n.Name] = n
		}
	}
	return known, context.Cause(ctx)
}

// putEntry hands one file to the crew.
func (u *treeUp) putEntry(ctx context.Context, local, dest string, known map[string]Node) error {
	w := u.w
	item := Item{Local: local, Path: dest}
	src, err := FileSource(local)
	if err != nil {
		item.Err = err
		w.ended(ctx, item)
		return context.Cause(ctx)
	}
	o := PutOptions{Conflict: w.opt.Conflict, Parents: true, SkipSame: w.opt.SkipSame, New: true}
	if n, ok := known[path.Base(dest)]; ok {
		o.Known, o.New = &n, false
	}
	if w.opt.Progress != nil {
		o.Progress = w.progress
	}
	e := entry{item: item, src: src, opt: o, dest: dest}
	if u.many.takes(src.Size) {
		return u.many.add(ctx, e)
	}
	if u.claims.takes(e) {
		return u.claims.add(ctx, e)
	}
	connections := 1
	if src.Size > u.opt.PartSize {
		connections = u.opt.Parallel
	}
	return w.run(ctx, connections, item, func(ctx context.Context) (Result, error) { return u.Put(ctx, src, dest, o) })
}
