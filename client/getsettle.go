package client

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/wholesync"
)

// errFolderMoved is a local folder that is not at its path any more.
var errFolderMoved = errors.New("the local folder was moved or replaced meanwhile")

// settle makes the files of a stream durable and gives them their names. whole is the folder of
// all. Folders are looked up by their paths: one that was moved since its files came is not where
// they belong, and they are fetched again.
func (c *collector) settle(ctx context.Context, s *stream, whole *os.File) {
	errs, names := c.sync(s.here, whole)
	folders := map[string][]int{}
	for i, f := range s.here {
		if f.made == nil {
			folders[f.dir] = append(folders[f.dir], i)
		}
	}
	for dir, files := range folders {
		c.name(dir, files, s.here, errs)
	}
	c.place(s, errs, names)
	for i, f := range s.here {
		switch err := errs[i]; {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errFolderMoved):
			s.odd = append(s.odd, f.wanted)
		default:
			if err != nil {
				c.run.remove(c.root, filepath.Join(f.dir, f.part))
			}
			c.over(ctx, f.wanted, Result{Node: f.node, State: StateReceived, Moved: f.node.Size}, err)
		}
	}
}

// name gives files of a folder their names in it and makes these durable. files are their places in
// all and errs.
func (c *collector) name(dir string, files []int, all []arrived, errs []error) {
	at, err := c.root.OpenRoot(dir)
	if err == nil {
		defer letGo(at)
		for _, i := range files {
			switch f := &all[i]; {
			case errs[i] != nil:
			case f.dir == dir:
				errs[i] = at.Rename(f.part, filepath.Base(f.rel))
			default: // it is in a draft
				errs[i] = c.root.Rename(filepath.Join(f.dir, f.part), f.rel)
			}
		}
		err = errors.Join(c.syncNames(at), stays(c.root, dir, at))
	}
	fail(files, errs, err)
}

// stays returns errFolderMoved unless the folder that was opened as dir is still there.
func stays(root *os.Root, dir string, opened *os.Root) error {
	is, err := root.Stat(dir)
	return sameFolder(opened, is, err)
}

// staysAt is stays for the folder that all goes into.
func staysAt(path string, opened *os.Root) error {
	is, err := os.Stat(path)
	return sameFolder(opened, is, err)
}

func sameFolder(opened *os.Root, is os.FileInfo, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errFolderMoved
	}
	if err != nil {
		return err
	}
	was, err := opened.Stat(".")
	if err == nil && !os.SameFile(was, is) {
		err = errFolderMoved
	}
	return err
}

// sync makes files durable and returns the error of each: many by a sync of the file system, where
// it can be relied on, unless that takes long or fails: what it failed about may be somebody
// else's, and each file tells of its own. names: those that they have now are durable, too.
func (c *collector) sync(all []arrived, whole *os.File) (errs []error, names bool) {
	if c.unsynced() {
		return make([]error, len(all)), true
	}
	if !c.together(all, whole) {
		return c.syncEach(all), false
	}
	began := time.Now()
	err := wholesync.Sync(whole)
	if err != nil || time.Since(began) > slowSync {
		c.each.Store(true)
	}
	if err != nil {
		return c.syncEach(all), false
	}
	return make([]error, len(all)), true
}

// together reports whether a sync of the file system is worth it, and reaches all files: there may
// be others below the folder.
func (c *collector) together(all []arrived, whole *os.File) bool {
	if len(all) < syncedWhole || c.each.Load() || !wholesync.Can(whole) {
		return false
	}
	last := ""
	for _, f := range all {
		if f.dir == last {
			continue
		}
		if dir, err := c.root.Stat(f.dir); err != nil || !wholesync.Reaches(whole, dir) {
			return false
		}
		last = f.dir
	}
	return true
}

func (c *collector) syncEach(all []arrived) []error {
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(syncsAtOnce)
	for i, f := range all {
		g.Go(func() error {
			errs[i] = syncFile(c.root, filepath.Join(f.dir, f.part))
			return nil
		})
	}
	_ = g.Wait() // errs has them
	return errs
}

func syncFile(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// unsynced reports whether files need not be durable: what a loss of power has cut short would be
// kept for ever where local files are not replaced.
func (c *collector) unsynced() bool { return c.d.opt.NoSync && !c.w.opt.Keep }

// syncNames makes the names in a folder durable, where they are to be.
func (c *collector) syncNames(at *os.Root) error {
	if c.unsynced() {
		return nil
	}
	return syncFolder(at)
}

// syncFolder makes renames in a folder durable; Windows has no such call, and needs none.
func syncFolder(at *os.Root) error { return syncFolderIn(at, ".") }

// syncFolderIn is syncFolder of a folder below at.
func syncFolderIn(at *os.Root, path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := at.Open(path)
	if err != nil {
		return err
	}
	defer letGo(dir)
	return dir.Sync()
}
