package client

import (
	"context"
	"errors"
	"fmt"
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
	if err := os.MkdirAll(local, 0o777); err != nil { //nolint:gosec // the umask decides, as for cp
		return Summary{}, err
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return Summary{}, err
	}
	defer letGo(root)
	ctx, w := newCrew(ctx, o, d.opt.Files)
	err = d.getFolder(ctx, w, root, ".", n)
	return w.finish(ctx, err)
}

// errClash is a name that the local file system takes for another one's.
var errClash = errors.New("differs only in upper and lower case from another name, which this computer cannot keep apart")

// getFolder fetches what is in one folder; it fails only when the whole is to stop.
func (d *Downloader) getFolder(ctx context.Context, w *crew, root *os.Root, dir string, folder Node) error {
	seen := make(map[string]bool)
	for n, err := range d.c.AllChildren(ctx, folder.ID) {
		if err != nil {
			w.ended(ctx, Item{Local: filepath.Join(root.Name(), dir), Path: folder.Path, Err: err})
			return context.Cause(ctx)
		}
		name, err := localName(n.Name, runtime.GOOS == "windows")
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
			err = d.enterFolder(ctx, w, root, rel, n, item)
		} else {
			err = d.getEntry(ctx, w, root, rel, n, item)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (d *Downloader) enterFolder(ctx context.Context, w *crew, root *os.Root, rel string, n Node, item Item) error {
	err := root.Mkdir(rel, 0o777)
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
	return d.getFolder(ctx, w, root, rel, n)
}

func (d *Downloader) getEntry(ctx context.Context, w *crew, root *os.Root, rel string, n Node, item Item) error {
	o := GetOptions{SkipSame: w.opt.SkipSame, Keep: w.opt.Keep}
	if w.opt.Progress != nil {
		o.Progress = w.progress
	}
	connections := 1
	if n.Size > d.opt.PartSize {
		connections = d.opt.Parallel
	}
	return w.run(ctx, connections, item, func(ctx context.Context) (Result, error) { return d.get(ctx, root, rel, n, o) })
}

// foldsCase reports whether the usual file system of a platform takes "A" and "a" for one name.
func foldsCase(goos string) bool { return goos == "windows" || goos == "darwin" }
