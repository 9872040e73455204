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

// GetTree downloads the folder at the path remote into the directory local, which it creates if
// missing. A file that fails does not stop the others; TreeOptions.OnItem and Summary.Failed report
// it. The error tells why the whole download stopped.
//
// GetTree never writes outside the directory local, whatever names the server sends and whatever
// symbolic links the directory contains.
func (d *Downloader) GetTree(ctx context.Context, remote, local string, o TreeOptions) (Summary, error) {
	n, err := d.c.NodeAt(ctx, remote)
	if err != nil {
		return Summary{}, err
	}
	if n.Type != Folder {
		return Summary{}, fmt.Errorf("%s: is not a folder", remote)
	}
	if err := checkNotTempName(filepath.Base(local)); err != nil {
		return Summary{}, err
	}
	if err := os.MkdirAll(local, 0o777); err != nil { //nolint:gosec // the umask decides, as for cp
		return Summary{}, err
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return Summary{}, err
	}
	defer closeQuietly(root)
	removeDeadRuns(root)
	defer removeDeadRuns(root) // of runs that were killed during this one
	ctx, w := newPool(ctx, o, d.opt.Files)
	t := &treeDownload{Downloader: d, pool: w, root: root, lists: newLister(d.c, w), streams: newCollector(d, w, root)}
	if strings.HasPrefix(remote, "//") { // the streams are available for the user's own drive only, not in a space or a shared folder
		t.streams.disabled.Store(true)
	}
	err = t.getFolder(ctx, ".", n, &listing{folder: n.ID}, &createdFolder{noDraft: true})
	w.progressMeter.setCounted()
	if err == nil {
		err = t.streams.flush(ctx)
	}
	sum, err := w.finish(ctx, err)
	t.streams.run.close()
	if err == nil {
		err = checkPathInPlace(local, root)
	}
	return sum, err
}

// treeDownload is the state of one GetTree.
type treeDownload struct {
	*Downloader
	pool    *pool
	root    *os.Root
	lists   *lister
	streams *collector
}

// errCaseClash reports a name that the local file system cannot tell from another one in the same
// folder.
var errCaseClash = errors.New("differs only in upper and lower case from another name, which this computer cannot keep apart")

// getFolder downloads the contents of folder, whose listing is list, into dir, a path relative to
// t.root. It sets m.listed, or m.noDraft if the folder has subfolders. It fails only if the whole
// tree stops; failures of single files and folders are reported to the pool.
func (t *treeDownload) getFolder(ctx context.Context, dir string, folder Node, list *listing, m *createdFolder) error {
	w, root := t.pool, t.root
	seen := make(map[string]bool)
	empty := !w.opt.Keep && isEmpty(root, dir) // with Keep, other programs' files that appear later must be checked for, too
	for e, err := range t.lists.children(ctx, list) {
		n := e.Node
		if err != nil {
			w.report(ctx, Item{Local: filepath.Join(root.Name(), dir), Path: folder.Path, Err: err})
			return context.Cause(ctx)
		}
		name, err := localName(n.Name, runtime.GOOS == "windows")
		if err == nil {
			err = checkNotTempName(name)
		}
		if err == nil && foldsCase(runtime.GOOS) {
			if fold := strings.ToLower(name); seen[fold] {
				err = errCaseClash
			} else {
				seen[fold] = true
			}
		}
		rel := filepath.Join(dir, name)
		item := Item{Local: filepath.Join(root.Name(), rel), Path: n.Path, Err: err}
		if err != nil {
			w.report(ctx, item)
			continue
		}
		if n.Type == Folder {
			m.noDraft = true
			err = t.getSubfolder(ctx, rel, e, item)
		} else {
			w.progressMeter.addFound(n.Size)
			err = t.getEntry(ctx, queuedFile{item: item, node: n, rel: rel, created: m}, empty)
		}
		if err != nil {
			return err
		}
	}
	m.listed = true
	return context.Cause(ctx)
}

// getSubfolder creates the directory rel if missing and downloads the folder e into it. It returns
// an error only if the whole tree stops.
func (t *treeDownload) getSubfolder(ctx context.Context, rel string, e childNode, item Item) error {
	w, root := t.pool, t.root
	err := root.Mkdir(rel, 0o777)
	m := &createdFolder{noDraft: err != nil || w.opt.Keep || !canReplaceFolders}
	switch {
	case err == nil:
		w.update(func(s *Summary) { s.Folders++ })
	case errors.Is(err, os.ErrExist):
		if info, statErr := root.Stat(rel); statErr == nil && info.IsDir() {
			err = nil
		}
	}
	if err != nil {
		item.Err = err
		w.report(ctx, item)
		return context.Cause(ctx)
	}
	return t.getFolder(ctx, rel, e.Node, e.listing, m)
}

// isEmpty reports whether a local directory has no entries. It returns false if the directory
// cannot be read.
func isEmpty(root *os.Root, dir string) bool {
	f, err := root.Open(dir)
	if err != nil {
		return false
	}
	defer closeQuietly(f)
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// getEntry downloads one file: queued for a stream if it is small, else in the background on its
// own. empty reports that the local directory was empty when the run reached it, so that no local
// file needs to be compared. It fails only if ctx ends; the whole tree then stops.
func (t *treeDownload) getEntry(ctx context.Context, f queuedFile, empty bool) error {
	w := t.pool
	f.opt = GetOptions{SkipSame: w.opt.SkipSame, Keep: w.opt.Keep}
	if w.opt.Progress != nil {
		f.opt.Progress = w.progress
	}
	if t.streams.accepts(f.node, f.rel, empty) {
		if empty {
			return t.streams.add(ctx, f)
		}
		return t.getSmall(ctx, f)
	}
	f.created.noDraft = true
	connections := 1
	if f.node.Size > t.opt.PartSize {
		connections = t.opt.Parallel
	}
	return w.start(ctx, connections, f.item, func(ctx context.Context) (Result, error) { return t.get(ctx, t.root, f.rel, f.node, f.opt) })
}

// getSmall queues a small file for a stream, unless the local file is already the same. It returns
// an error only if ctx has ended; a failed file is reported to the pool.
func (t *treeDownload) getSmall(ctx context.Context, f queuedFile) error {
	note, err := t.present(t.root, f.rel, f.node, f.opt, newMeter(nil, Event{}))
	if note != "" || err != nil {
		t.streams.finishFile(ctx, f, Result{Node: f.node, State: StateSkipped, Note: note}, err)
		return context.Cause(ctx)
	}
	return t.streams.add(ctx, f)
}

// foldsCase reports whether the usual file systems of goos treat "A" and "a" as the same name.
func foldsCase(goos string) bool { return goos == "windows" || goos == "darwin" }
