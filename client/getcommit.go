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

	"example.org/smartdrive/internal/base/wholesync"
)

// errFolderMoved reports that a local folder is no longer at its path.
var errFolderMoved = errors.New("the local folder was moved or replaced meanwhile")

// commit makes the staged files of a stream durable, renames them to their final names, and reports
// their results. top is the open local directory of the tree. If a folder was moved since its files
// were staged, the files are added to s.retryAlone.
func (c *collector) commit(ctx context.Context, s *stream, top *os.File) {
	errs, names := c.syncFiles(s.staged, top)
	folders := map[string][]int{}
	for i, f := range s.staged {
		if f.created == nil {
			folders[f.dir] = append(folders[f.dir], i)
		}
	}
	for dir, files := range folders {
		c.renameFiles(dir, files, s.staged, errs)
	}
	c.publishDrafts(s, errs, names)
	for i, f := range s.staged {
		switch err := errs[i]; {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errFolderMoved):
			s.retryAlone = append(s.retryAlone, f.queuedFile)
		default:
			if err != nil {
				c.run.remove(c.root, filepath.Join(f.dir, f.part))
			}
			c.finishFile(ctx, f.queuedFile, Result{Node: f.node, State: StateReceived, Moved: f.node.Size}, err)
		}
	}
}

// renameFiles renames files to their final names in the folder dir and makes the renames durable.
// files are indexes into all and errs; errors are set in errs.
func (c *collector) renameFiles(dir string, files []int, all []stagedFile, errs []error) {
	at, err := c.root.OpenRoot(dir)
	if err == nil {
		defer closeQuietly(at)
		for _, i := range files {
			switch f := &all[i]; {
			case errs[i] != nil:
			case f.dir == dir:
				errs[i] = at.Rename(f.part, filepath.Base(f.rel))
			default: // the file is in a draft
				errs[i] = c.root.Rename(filepath.Join(f.dir, f.part), f.rel)
			}
		}
		err = errors.Join(c.syncNames(at), checkInPlace(c.root, dir, at))
	}
	setErrors(files, errs, err)
}

// checkInPlace returns errFolderMoved unless the directory opened as dir below root is still at
// that path.
func checkInPlace(root *os.Root, dir string, opened *os.Root) error {
	is, err := root.Stat(dir)
	return sameFolder(opened, is, err)
}

// checkPathInPlace returns errFolderMoved unless the opened directory is still the one at path.
func checkPathInPlace(path string, opened *os.Root) error {
	is, err := os.Stat(path)
	return sameFolder(opened, is, err)
}

// sameFolder returns errFolderMoved unless is, the result of a Stat with the error err, is the
// opened directory.
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

// syncFiles makes files durable and returns the error of each. Many files are made durable by one
// sync of the file system, where that is reliable. If the sync fails, each file is fsynced to find
// its own error, because the failure may concern other programs' files; if it fails or is slow,
// later files are fsynced individually. names reports that the files' current names are durable,
// too.
func (c *collector) syncFiles(all []stagedFile, top *os.File) (errs []error, names bool) {
	if c.skipsSync() {
		return make([]error, len(all)), true
	}
	if !c.canSyncTogether(all, top) {
		return c.syncEach(all), false
	}
	began := time.Now()
	err := wholesync.Sync(top)
	if err != nil || time.Since(began) > slowSync {
		c.syncEachFile.Store(true)
	}
	if err != nil {
		return c.syncEach(all), false
	}
	return make([]error, len(all)), true
}

// canSyncTogether reports whether one sync of top's whole file system pays off and covers all
// files; folders below top may be mounts of others.
func (c *collector) canSyncTogether(all []stagedFile, top *os.File) bool {
	if len(all) < minFilesystemSync || c.syncEachFile.Load() || !wholesync.Supported(top) {
		return false
	}
	last := ""
	for _, f := range all {
		if f.dir == last {
			continue
		}
		if dir, err := c.root.Stat(f.dir); err != nil || !wholesync.SameFileSystem(top, dir) {
			return false
		}
		last = f.dir
	}
	return true
}

// syncEach syncs the bytes of files with fsync, several at once. The result has one error per file,
// in their order; nil for a file that is durable.
func (c *collector) syncEach(all []stagedFile) []error {
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(maxSyncs)
	for i, f := range all {
		g.Go(func() error {
			errs[i] = syncFile(c.root, filepath.Join(f.dir, f.part))
			return nil
		})
	}
	_ = g.Wait() // errs has them
	return errs
}

// syncFile opens the named file and fsyncs it. It fails if the file does not exist.
func syncFile(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// skipsSync reports whether files need not be durable. With TreeOptions.Keep they always are,
// because a file truncated by a power failure would never be replaced.
func (c *collector) skipsSync() bool { return c.d.opt.NoSync && !c.pool.opt.Keep }

// syncNames makes the names in a folder durable with fsync. If syncing is switched off (skipsSync),
// it does nothing and returns nil.
func (c *collector) syncNames(at *os.Root) error {
	if c.skipsSync() {
		return nil
	}
	return syncFolder(at)
}

// syncFolder makes renames in a folder durable. It does nothing on Windows, which has no such call
// and needs none.
func syncFolder(at *os.Root) error { return syncFolderIn(at, ".") }

// syncFolderIn fsyncs the folder at a path below at, so that its names are durable. On Windows it
// does nothing.
func syncFolderIn(at *os.Root, path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := at.Open(path)
	if err != nil {
		return err
	}
	defer closeQuietly(dir)
	return dir.Sync()
}
