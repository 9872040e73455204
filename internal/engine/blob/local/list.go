package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// List implements blob.Store.
func (s *Store) List(ctx context.Context, fn func(blob.Stray) error) error {
	return s.d.each(ctx, blobsDir, func(shard fs.DirEntry) error {
		place := path.Join(blobsDir, shard.Name())
		if !isShard(shard) {
			return s.d.show(place, "", fn)
		}
		return s.d.each(ctx, place, func(e fs.DirEntry) error {
			return s.entry(ctx, shard.Name(), e, fn)
		})
	})
}

// entry shows what an entry of a shard is: a content, or those of a pack.
func (s *Store) entry(ctx context.Context, shard string, e fs.DirEntry, fn func(blob.Stray) error) error {
	name, ok := packOf(shard, e)
	if !ok {
		return s.d.show(path.Join(blobsDir, shard, e.Name()), nameIn(shard, e), fn)
	}
	return s.d.packs.Each(ctx, name, func(at blob.Slot, size int64) error {
		return fn(blob.Stray{Place: path.Join(blobsDir, shard, at.Name()), Name: at.Name(), Size: drive.ByteSize(size)})
	})
}

func isShard(e fs.DirEntry) bool { return e.IsDir() && blob.IsShard(e.Name()) }

// nameIn returns the name of content by its entry in a shard; empty when the entry does not follow
// the rules.
func nameIn(shard string, e fs.DirEntry) string {
	if want, ok := blob.ShardOf(e.Name()); !ok || want != shard || !e.Type().IsRegular() {
		return ""
	}
	return e.Name()
}

// ListPage implements blob.Store. A directory has no order, so each page reads all names of the
// shard, and asks for the sizes of its own. Contents of a pack come where the pack does: their
// places begin with its own.
func (s *Store) ListPage(ctx context.Context, shard, after string, limit int) (page []blob.Stray, more bool, err error) {
	dir := path.Join(blobsDir, shard)
	var entries []fs.DirEntry
	err = s.d.each(ctx, dir, func(e fs.DirEntry) error {
		if dir+"/"+lastOf(shard, e) > after {
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for i, e := range entries {
		err := s.entry(ctx, shard, e, func(stray blob.Stray) error {
			if stray.Place <= after {
				return nil
			}
			if stray.Place == path.Join(dir, e.Name()) {
				if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // which may take less on the disk than it is long
					stray.Size = drive.ByteSize(info.Size())
				}
			}
			page = append(page, stray)
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if len(page) > limit && i+1 < len(entries) && stem(e.Name()) != stem(entries[i+1].Name()) {
			more = true
			break
		}
	}
	blob.SortPage(page)
	page = slices.CompactFunc(page, func(a, b blob.Stray) bool { return a.Place == b.Place }) // a slot, and a file of its name
	if len(page) > limit {
		page, more = page[:limit], true
	}
	return page, more, nil
}

// stem is what a pack, its contents, and files with the names of those have in common.
func stem(name string) string {
	before, _, _ := strings.Cut(name, ".")
	return before
}

// lastOf returns the name that is greatest of what an entry of a shard shows.
func lastOf(shard string, e fs.DirEntry) string {
	if name, ok := packOf(shard, e); ok {
		return name + "/" // behind all that follow a dot
	}
	return e.Name()
}

// ListOdd implements blob.Store.
func (s *Store) ListOdd(ctx context.Context, fn func(blob.Stray) error) error {
	return s.d.each(ctx, blobsDir, func(e fs.DirEntry) error {
		if isShard(e) {
			return nil
		}
		return s.d.show(path.Join(blobsDir, e.Name()), "", fn)
	})
}

// ListStaged implements blob.Staging.
func (s *Staging) ListStaged(ctx context.Context, fn func(blob.Stray) error) error {
	return s.listDates(ctx, stagingDir, 0, fn)
}

// listDates walks the directories of years, months and days; below a day are the uploads.
func (s *Staging) listDates(ctx context.Context, place string, level int, fn func(blob.Stray) error) error {
	const uploads = 3
	return s.d.each(ctx, place, func(e fs.DirEntry) error {
		below := path.Join(place, e.Name())
		if level == uploads {
			name := e.Name()
			if _, err := drive.ParseID[drive.UploadID](name); err != nil || !e.IsDir() {
				name = ""
			}
			return s.d.show(below, name, fn)
		}
		if !e.IsDir() || !isDatePart(level, e.Name()) {
			return s.d.show(below, "", fn)
		}
		return s.listDates(ctx, below, level+1, fn)
	})
}

// listBatch is how many entries of a directory are in memory at a time.
const listBatch = 256

// each calls fn for the entries of a directory, in no order. A directory that is gone has none.
func (d *Dir) each(ctx context.Context, place string, fn func(fs.DirEntry) error) error {
	f, err := os.Open(d.abs(place))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	defer func() { _ = f.Close() }()
	for {
		entries, err := f.ReadDir(listBatch)
		if err == io.EOF || errors.Is(err, fs.ErrNotExist) { // fn may remove the last thing in it, and so the directory itself
			return nil
		}
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.Name() == probeFile {
				continue
			}
			if err := fn(e); err != nil {
				return err
			}
		}
	}
}

// show calls fn for what lies at place, with the bytes that it takes on disk. What has gone
// meanwhile is left out.
func (d *Dir) show(place, name string, fn func(blob.Stray) error) error {
	var size int64
	err := filepath.WalkDir(d.abs(place), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() {
			size += min(allocated(info), info.Size())
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", place, err)
	}
	return fn(blob.Stray{Place: place, Name: name, Size: drive.ByteSize(size)})
}

// Quarantine implements blob.Store.
func (s *Store) Quarantine(_ context.Context, stray blob.Stray) error {
	if at, ok := blob.SlotOf(stray.Name); ok {
		err := s.setAside(at, func() (string, error) { return s.d.quarantinePlace(stray.Place) })
		if err != nil {
			return fmt.Errorf("quarantine: %w", classify(err))
		}
	}
	if err := s.d.quarantine(blobsDir, stray.Place); err != nil {
		return err
	}
	if stray.Name == "" { // no content lies there
		return nil
	}
	return s.d.wal.Forget(stray.Name)
}

// QuarantineStaged implements blob.Staging.
func (s *Staging) QuarantineStaged(_ context.Context, stray blob.Stray) error {
	return s.d.quarantine(stagingDir, stray.Place)
}

// maxNamesakes bounds how many things of one name a day's quarantine takes.
const maxNamesakes = 1000

// quarantine moves what lies at place, somewhere below top, to today's quarantine under its place
// with '/' as '_'. What is gone already is not an error: the move may be a repeated one.
func (d *Dir) quarantine(top, place string) error {
	if !filepath.IsLocal(filepath.FromSlash(place)) || !strings.HasPrefix(path.Clean(place), top+"/") {
		return fmt.Errorf("quarantine %q: not below %s", place, top)
	}
	if d.isOwn(place) {
		return fmt.Errorf("quarantine %q: a directory of the layout", place)
	}
	if _, err := os.Lstat(d.abs(place)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to, err := d.quarantinePlace(place)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := os.Rename(d.abs(place), to); err != nil {
		return fmt.Errorf("quarantine: %w", classify(err))
	}
	dir := filepath.Dir(to)
	return syncDirs(dir, filepath.Dir(dir), filepath.Dir(d.abs(place)))
}

// quarantinePlace returns where something goes that lies at place, in a directory that is there.
func (d *Dir) quarantinePlace(place string) (string, error) {
	dir := filepath.Join(d.root, quarantineDir, d.now().UTC().Format("2006-01-02"))
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", classify(err)
	}
	return freeName(filepath.Join(dir, strings.ReplaceAll(path.Clean(place), "/", "_")))
}

// isOwn says whether place is one of the directories that List walks through.
func (d *Dir) isOwn(place string) bool {
	parts := strings.Split(path.Clean(place), "/")
	if parts[0] == blobsDir {
		return len(parts) == 2 && blob.IsShard(parts[1])
	}
	if len(parts) > 4 {
		return false
	}
	for level, name := range parts[1:] {
		if !isDatePart(level, name) {
			return false
		}
	}
	return true
}

// freeName returns name, or name with a number where that is taken: nothing in quarantine is ever
// overwritten.
func freeName(name string) (string, error) {
	for i := range maxNamesakes {
		try := name
		if i > 0 {
			try += "." + strconv.Itoa(i)
		}
		if _, err := os.Lstat(try); errors.Is(err, fs.ErrNotExist) {
			return try, nil
		}
	}
	return "", fmt.Errorf("%d things of one name in one day", maxNamesakes)
}

func (d *Dir) abs(place string) string { return filepath.Join(d.root, filepath.FromSlash(place)) }
