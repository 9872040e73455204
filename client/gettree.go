package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// GetTree fetches the remote folder into the local one, which is made if it is missing. It goes on
// after files that fail, and writes nowhere outside the local folder, whatever names the server
// sends and whatever links are in it.
func (d *Downloader) GetTree(ctx context.Context, remote, local string, o TreeOptions) (Summary, error) {
	n, err := d.c.NodeAt(ctx, remote)
	if err != nil {
		return Summary{}, err
	}
	if n.Type != Folder {
		return Summary{}, fmt.Errorf("%s: is not a folder", remote)
	}
	if err := notOwn(filepath.Base(local)); err != nil {
		return Summary{}, err
	}
	if err := os.MkdirAll(local, 0o777); err != nil { //nolint:gosec // the umask decides, as for cp
		return Summary{}, err
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return Summary{}, err
	}
	defer letGo(root)
	sweep(root)
	defer sweep(root) // of those that were killed beside this one
	ctx, w := newCrew(ctx, o, d.opt.Files)
	t := &treeDown{Downloader: d, w: w, root: root, lists: newLister(d.c, w), many: newCollector(d, w, root)}
	if strings.HasPrefix(remote, "//") { // in a space, or in what somebody shares: a stream is of one's own drive
		t.many.off.Store(true)
	}
	err = t.getFolder(ctx, ".", n, &listing{folder: n.ID}, &made{mixed: true})
	w.whole.foundAll()
	if err == nil {
		err = t.many.flush(ctx)
	}
	sum, err := w.finish(ctx, err)
	t.many.run.end()
	if err == nil {
		err = staysAt(local, root)
	}
	return sum, err
}

// treeDown is a tree on its way to this computer.
type treeDown struct {
	*Downloader
	w     *crew
	root  *os.Root
	lists *lister
	many  *collector
}

// errClash is a name that the local file system takes for another one's.
var errClash = errors.New("differs only in upper and lower case from another name, which this computer cannot keep apart")

// getFolder fetches what is in one folder; it fails only when the whole is to stop.
func (d *treeDown) getFolder(ctx context.Context, dir string, folder Node, list *listing, m *made) error {
	w, root := d.w, d.root
	seen := make(map[string]bool)
	empty := !w.opt.Keep && isEmpty(root, dir) // what comes meanwhile is to be kept, too
	for e, err := range d.lists.children(ctx, list) {
		n := e.Node
		if err != nil {
			w.ended(ctx, Item{Local: filepath.Join(root.Name(), dir), Path: folder.Path, Err: err})
			return context.Cause(ctx)
		}
		name, err := localName(n.Name, runtime.GOOS == "windows")
		if err == nil {
			err = notOwn(name)
		}
		if err == nil && foldsCase(runtime.GOOS) {
			if fold := strings.ToLower(name); seen[fold] {
				err = errClash
			} else {
				seen[fold] = true
			}
		}
		rel := filepath.Join(dir, name)
		item := Item{Local: filepath.Join(root.Name(), rel), Path: n.Path, Err: err}
		if err != nil {
			w.ended(ctx, item)
			continue
		}
		if n.Type == Folder {
			m.mixed = true
			err = d.enterFolder(ctx, rel, e, item)
		} else {
			w.whole.found(n.Size)
			err = d.getEntry(ctx, wanted{item: item, node: n, rel: rel, made: m}, empty)
		}
		if err != nil {
			return err
		}
	}
	m.listed = true
	return context.Cause(ctx)
}

func (d *treeDown) enterFolder(ctx context.Context, rel string, e child, item Item) error {
	w, root := d.w, d.root
	err := root.Mkdir(rel, 0o777)
	m := &made{mixed: err != nil || w.opt.Keep || !draftsFolders}
	switch {
	case err == nil:
		w.count(func(s *Summary) { s.Folders++ })
	case errors.Is(err, os.ErrExist):
		if info, statErr := root.Stat(rel); statErr == nil && info.IsDir() {
			err = nil
		}
	}
	if err != nil {
		item.Err = err
		w.ended(ctx, item)
		return context.Cause(ctx)
	}
	return d.getFolder(ctx, rel, e.Node, e.within, m)
}

// isEmpty reports whether there is nothing in a local folder, so that nothing is to be looked for
// there.
func isEmpty(root *os.Root, dir string) bool {
	f, err := root.Open(dir)
	if err != nil {
		return false
	}
	defer letGo(f)
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// getEntry fetches a file. empty: there was nothing in its folder.
func (d *treeDown) getEntry(ctx context.Context, f wanted, empty bool) error {
	w := d.w
	f.opt = GetOptions{SkipSame: w.opt.SkipSame, Keep: w.opt.Keep}
	if w.opt.Progress != nil {
		f.opt.Progress = w.progress
	}
	if d.many.takes(f.node, f.rel, empty) {
		if empty {
			return d.many.add(ctx, f)
		}
		return d.getSmall(ctx, f)
	}
	f.made.mixed = true
	connections := 1
	if f.node.Size > d.opt.PartSize {
		connections = d.opt.Parallel
	}
	return w.run(ctx, connections, f.item, func(ctx context.Context) (Result, error) { return d.get(ctx, d.root, f.rel, f.node, f.opt) })
}

// getSmall fetches a small file with others, unless it is here.
func (d *treeDown) getSmall(ctx context.Context, f wanted) error {
	note, err := d.present(d.root, f.rel, f.node, f.opt, newMeter(nil, Event{}))
	if note != "" || err != nil {
		d.many.over(ctx, f, Result{Node: f.node, State: StateSkipped, Note: note}, err)
		return context.Cause(ctx)
	}
	return d.many.add(ctx, f)
}

// foldsCase reports whether the usual file system of a platform takes "A" and "a" for one name.
func foldsCase(goos string) bool { return goos == "windows" || goos == "darwin" }
