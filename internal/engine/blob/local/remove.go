package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// maxConcurrentRemovals is the number of directories or packs synced concurrently. A journaling
// file system commits concurrent syncs together.
const maxConcurrentRemovals = 16

// Reclaim removes all of the named contents, those in packs too, because freeing a slot of a pack
// writes nothing. It returns the names that are gone, and an error if that is not all of them.
func (s *Store) Reclaim(ctx context.Context, names []string) (gone []string, err error) {
	return s.RemoveAll(ctx, names)
}

// RemoveAll deletes contents and returns the names that are durably gone, missing ones included;
// the others must be removed again. With an error, gone may still hold names. It syncs each
// directory and pack once.
func (s *Store) RemoveAll(ctx context.Context, names []string) (gone []string, err error) {
	gone, files, errs := s.removePacked(ctx, names)
	shards := map[string][]string{} // names by directory
	for _, name := range files {
		path, err := s.d.blobPath(name)
		if err != nil {
			gone = append(gone, name) // such a name is never given, so it cannot exist
			continue
		}
		shards[filepath.Dir(path)] = append(shards[filepath.Dir(path)], name)
	}
	var (
		mu  sync.Mutex
		all errgroup.Group
	)
	all.SetLimit(maxConcurrentRemovals)
	for dir, names := range shards {
		all.Go(func() error {
			some, err := removeFiles(ctx, dir, names)
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, some...)
			if err != nil {
				errs = append(errs, fmt.Errorf("remove content: %w", classify(err)))
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
	if err := s.d.checkMounted(); err != nil {
		return nil, fmt.Errorf("remove content: %w", err) // files missing here may exist elsewhere
	}
	if err := s.d.wal.Discard(gone...); err != nil {
		errs = append(errs, fmt.Errorf("remove content: %w", classify(err)))
		gone = s.d.wal.NotHeld(gone)
	}
	return gone, blob.JoinFirst(errs)
}

// removePacked removes contents from packs and returns their names as gone. rest are the names that
// may also exist as files, which the caller must remove.
func (s *Store) removePacked(ctx context.Context, names []string) (gone, rest []string, errs []error) {
	packs := map[string][]blob.Slot{} // by pack name
	for _, name := range names {
		if at, ok := blob.SlotOf(name); ok {
			packs[at.Pack] = append(packs[at.Pack], at)
		} else {
			rest = append(rest, name)
		}
	}
	var (
		mu  sync.Mutex
		all errgroup.Group
	)
	all.SetLimit(maxConcurrentRemovals)
	for _, slots := range packs {
		all.Go(func() error {
			some, files, err := s.removeSlots(ctx, slots)
			mu.Lock()
			defer mu.Unlock()
			gone, rest = append(gone, some...), append(rest, files...)
			if err != nil {
				errs = append(errs, fmt.Errorf("remove content: %w", classify(err)))
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
	return gone, rest, errs
}

// removeSlots frees slots of one pack. It returns as gone the names whose slots are durably freed,
// and as rest those that the caller must remove as files, because the slot is missing or a file of
// that name exists too.
func (s *Store) removeSlots(ctx context.Context, slots []blob.Slot) (gone, rest []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	freed, missing, err := s.d.packs.Remove(slots)
	for _, at := range freed {
		if s.isFile(at.Name()) {
			missing = append(missing, at)
		} else {
			gone = append(gone, at.Name())
		}
	}
	for _, at := range missing {
		rest = append(rest, at.Name())
	}
	return gone, rest, err
}

// isFile reports whether content called name exists as a file of its own; false for an unreadable
// one too.
func (s *Store) isFile(name string) bool {
	path, err := s.d.blobPath(name)
	if err == nil {
		_, err = os.Lstat(path)
	}
	return err == nil
}

// checkMounted returns Unavailable if the blobs directory is not the one that was opened, for
// example because a disk was unmounted. Files missing in another directory are not gone, and files
// put there would not be found.
func (d *Dir) checkMounted() error {
	was, err := d.fs.dir.Stat()
	if err != nil {
		return classify(err)
	}
	path := filepath.Join(d.root, blobsDir)
	if is, err := os.Stat(path); err != nil || !os.SameFile(was, is) {
		return drive.Wrap(errors.Join(fmt.Errorf("%s is not the directory that was opened: is it mounted?", path), err), drive.Unavailable)
	}
	return nil
}

// confirmMissing returns err, or for NotFound the error of checkMounted if there is one.
func (d *Dir) confirmMissing(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		if away := d.checkMounted(); away != nil {
			return away
		}
	}
	return err
}

// removeFiles deletes files of one directory, syncs the directory once, and returns the names that
// are durably gone. Missing files and a missing directory count as gone. If the sync fails it
// returns no names.
func removeFiles(ctx context.Context, dir string, names []string) (gone []string, err error) {
	var errs []error
	for _, name := range names {
		err := ctx.Err()
		if err == nil {
			err = os.Remove(filepath.Join(dir, name))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the removal of a missing file may not be durable yet
			errs = append(errs, err)
			continue
		}
		gone = append(gone, name)
	}
	if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // the directory may never have been made
		return nil, err
	}
	return gone, blob.JoinFirst(errs)
}
