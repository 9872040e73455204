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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// removersAtOnce is how many directories, or packs, are synced at the same time: a journaling file
// system makes one commit of those that meet.
const removersAtOnce = 16

// Reclaim implements blob.Store: to free a slot of a pack writes nothing.
func (s *Store) Reclaim(ctx context.Context, names []string) (gone []string, err error) {
	return s.RemoveAll(ctx, names)
}

// RemoveAll implements blob.Store: a directory, or a pack, is synced once for all that goes from
// it.
func (s *Store) RemoveAll(ctx context.Context, names []string) (gone []string, err error) {
	gone, files, errs := s.removePacked(ctx, names)
	shards := map[string][]string{} // names by directory
	for _, name := range files {
		path, err := s.d.blobPath(name)
		if err != nil {
			gone = append(gone, name) // such a name was never given, so it is not there
			continue
		}
		shards[filepath.Dir(path)] = append(shards[filepath.Dir(path)], name)
	}
	var (
		mu  sync.Mutex
		all errgroup.Group
	)
	all.SetLimit(removersAtOnce)
	for dir, names := range shards {
		all.Go(func() error {
			some, err := removeFrom(ctx, dir, names)
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, some...)
			if err != nil {
				errs = append(errs, fmt.Errorf("remove content: %w", classify(err)))
			}
			return nil
		})
	}
	_ = all.Wait() // each one's error is in errs
	if err := s.d.inPlace(); err != nil {
		return nil, fmt.Errorf("remove content: %w", err) // what is not there may be elsewhere
	}
	if err := s.d.wal.Forget(gone...); err != nil {
		errs = append(errs, fmt.Errorf("remove content: %w", classify(err)))
		gone = s.d.wal.Without(gone)
	}
	return gone, blob.First(errs)
}

// removePacked removes what lies in packs: gone. rest are the names that may be those of files.
func (s *Store) removePacked(ctx context.Context, names []string) (gone, rest []string, errs []error) {
	packs := map[string][]blob.Slot{} // by name
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
	all.SetLimit(removersAtOnce)
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
	_ = all.Wait() // each one's error is in errs
	return gone, rest, errs
}

// removeSlots is removePacked of one pack.
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

func (s *Store) isFile(name string) bool {
	path, err := s.d.blobPath(name)
	if err == nil {
		_, err = os.Lstat(path)
	}
	return err == nil
}

// inPlace fails unless the directory of the contents is the one that was opened: what is missing in
// another one, as where a disk was mounted, has not gone, and what is put there will not be found.
func (d *Dir) inPlace() error {
	was, err := d.whole.dir.Stat()
	if err != nil {
		return classify(err)
	}
	path := filepath.Join(d.root, blobsDir)
	if is, err := os.Stat(path); err != nil || !os.SameFile(was, is) {
		return drive.Wrap(errors.Join(fmt.Errorf("%s is not the directory that was opened: is it mounted?", path), err), drive.Unavailable)
	}
	return nil
}

// removeFrom deletes files of one directory, and returns those that are durably gone.
func removeFrom(ctx context.Context, dir string, names []string) (gone []string, err error) {
	var errs []error
	for _, name := range names {
		err := ctx.Err()
		if err == nil {
			err = os.Remove(filepath.Join(dir, name))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is gone already may be so not durably
			errs = append(errs, err)
			continue
		}
		gone = append(gone, name)
	}
	if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // the directory may never have been needed
		return nil, err
	}
	return gone, blob.First(errs)
}
