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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// List calls fn for every entry below blobs, one at a time and in no order; an entry that is not
// content has an empty name (blob.Store). It stops at the first error of fn, which it returns, and
// when ctx ends.
func (s *Store) List(ctx context.Context, fn func(blob.Entry) error) error {
	return s.d.readDir(ctx, blobsDir, func(shard fs.DirEntry) error {
		place := path.Join(blobsDir, shard.Name())
		if !isShard(shard) {
			return s.d.report(place, "", fn)
		}
		return s.d.readDir(ctx, place, func(e fs.DirEntry) error {
			return s.reportEntry(ctx, shard.Name(), e, fn)
		})
	})
}

// reportEntry calls fn for an entry of a shard directory. For the file of a pack, it calls fn for
// each content in it. It returns the first error of fn.
func (s *Store) reportEntry(ctx context.Context, shard string, e fs.DirEntry, fn func(blob.Entry) error) error {
	name, ok := packName(shard, e)
	if !ok {
		return s.d.report(path.Join(blobsDir, shard, e.Name()), nameIn(shard, e), fn)
	}
	return s.d.packs.Each(ctx, name, func(at blob.Slot, size int64) error {
		return fn(blob.Entry{Path: path.Join(blobsDir, shard, at.Name()), Name: at.Name(), Size: drive.ByteSize(size)})
	})
}

// isShard reports whether an entry of blobs is a shard.
func isShard(e fs.DirEntry) bool { return e.IsDir() && blob.IsShard(e.Name()) }

// nameIn returns the name of the content that an entry of a shard is; empty if it does not follow
// the rules.
func nameIn(shard string, e fs.DirEntry) string {
	if want, ok := blob.ShardOf(e.Name()); !ok || want != shard || !e.Type().IsRegular() {
		return ""
	}
	return e.Name()
}

// ListPage returns up to limit entries of a shard after a place, ordered by place. A directory is
// unordered, so each page reads all names of the shard, and the sizes of its own entries only.
// Contents of a pack sort next to the pack's file, because their places begin with its name.
func (s *Store) ListPage(ctx context.Context, shard, after string, limit int) (page []blob.Entry, more bool, err error) {
	dir := path.Join(blobsDir, shard)
	var entries []fs.DirEntry
	err = s.d.readDir(ctx, dir, func(e fs.DirEntry) error {
		if dir+"/"+greatestName(shard, e) > after {
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for i, e := range entries {
		err := s.reportEntry(ctx, shard, e, func(stray blob.Entry) error {
			if stray.Path <= after {
				return nil
			}
			if stray.Path == path.Join(dir, e.Name()) {
				if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // allocated size may be less than the length
					stray.Size = drive.ByteSize(info.Size())
				}
			}
			page = append(page, stray)
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if len(page) > limit && i+1 < len(entries) && groupOf(e.Name()) != groupOf(entries[i+1].Name()) {
			more = true
			break
		}
	}
	blob.SortEntries(page)
	page = slices.CompactFunc(page, func(a, b blob.Entry) bool { return a.Path == b.Path }) // a slot and a file called like it
	if len(page) > limit {
		page, more = page[:limit], true
	}
	return page, more, nil
}

// groupOf returns the part of a name that a pack, its contents, and files called like them have in
// common.
func groupOf(name string) string {
	before, _, _ := strings.Cut(name, ".")
	return before
}

// greatestName returns the greatest name that an entry of a shard contributes to a listing.
func greatestName(shard string, e fs.DirEntry) string {
	if name, ok := packName(shard, e); ok {
		return name + "/" // sorts after all names with a dot
	}
	return e.Name()
}

// ListUnsharded calls fn, with an empty name, for every entry directly in blobs that is not a shard
// (blob.Store). It stops at the first error of fn, which it returns.
func (s *Store) ListUnsharded(ctx context.Context, fn func(blob.Entry) error) error {
	return s.d.readDir(ctx, blobsDir, func(e fs.DirEntry) error {
		if isShard(e) {
			return nil
		}
		return s.d.report(path.Join(blobsDir, e.Name()), "", fn)
	})
}

// ListStaged calls fn for every staged upload below staging, and, with an empty name, for every
// entry that does not belong there (blob.Staging). It stops at the first error of fn, which it
// returns.
func (s *Staging) ListStaged(ctx context.Context, fn func(blob.Entry) error) error {
	return s.listDates(ctx, stagingDir, 0, fn)
}

// listDates walks the directories of years (level 0), months and days below place and calls fn for
// each upload in a day, and for each entry that does not belong there, with an empty name. It stops
// at the first error.
func (s *Staging) listDates(ctx context.Context, place string, level int, fn func(blob.Entry) error) error {
	const uploads = 3
	return s.d.readDir(ctx, place, func(e fs.DirEntry) error {
		below := path.Join(place, e.Name())
		if level == uploads {
			name := e.Name()
			if _, err := drive.ParseID[drive.UploadID](name); err != nil || !e.IsDir() {
				name = ""
			}
			return s.d.report(below, name, fn)
		}
		if !e.IsDir() || !isDatePart(level, e.Name()) {
			return s.d.report(below, "", fn)
		}
		return s.listDates(ctx, below, level+1, fn)
	})
}

// listBatch is the number of directory entries read at a time.
const listBatch = 256

// readDir calls fn for the entries of the directory at place, in no order. A missing directory has
// none. It stops at the first error of fn.
func (d *Dir) readDir(ctx context.Context, place string, fn func(fs.DirEntry) error) error {
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
		if err == io.EOF || errors.Is(err, fs.ErrNotExist) { // fn may have removed the last entry and the directory with it
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

// report calls fn for the file or tree at place, with its allocated bytes. It skips an entry
// removed meanwhile.
func (d *Dir) report(place, name string, fn func(blob.Entry) error) error {
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
	return fn(blob.Entry{Path: place, Name: name, Size: drive.ByteSize(size)})
}

// Quarantine moves the file or slot of a stray listing entry to the quarantine and makes the log
// forget its content, so that a restart does not restore it (blob.Store). If the name is that of a
// slot, the slot is moved as well as a file of that name.
func (s *Store) Quarantine(_ context.Context, stray blob.Entry) error {
	if at, ok := blob.SlotOf(stray.Name); ok {
		err := s.quarantineSlot(at, func() (string, error) { return s.d.quarantinePlace(stray.Path) })
		if err != nil {
			return fmt.Errorf("quarantine: %w", classify(err))
		}
	}
	if err := s.d.quarantine(blobsDir, stray.Path); err != nil {
		return err
	}
	if stray.Name == "" { // not the name of content
		return nil
	}
	return s.d.wal.Discard(stray.Name)
}

// QuarantineStaged moves an entry below staging, a file or a directory, to the quarantine
// (blob.Staging).
func (s *Staging) QuarantineStaged(_ context.Context, stray blob.Entry) error {
	return s.d.quarantine(stagingDir, stray.Path)
}

// maxSameName bounds the entries of one name in a day's quarantine.
const maxSameName = 1000

// quarantine moves the entry at place, which must be below top, to today's quarantine, named by its
// place with '_' for '/'. A missing entry is not an error, because the move may be a repeated one.
func (d *Dir) quarantine(top, place string) error {
	if !filepath.IsLocal(filepath.FromSlash(place)) || !strings.HasPrefix(path.Clean(place), top+"/") {
		return fmt.Errorf("quarantine %q: not below %s", place, top)
	}
	if d.isLayoutDir(place) {
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

// quarantinePlace returns a free path in today's quarantine for the entry at place, and makes its
// directory.
func (d *Dir) quarantinePlace(place string) (string, error) {
	dir := filepath.Join(d.root, quarantineDir, d.now().UTC().Format("2006-01-02"))
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", classify(err)
	}
	return freeName(filepath.Join(dir, strings.ReplaceAll(path.Clean(place), "/", "_")))
}

// isLayoutDir reports whether place is a directory of the layout, which a listing walks through.
func (d *Dir) isLayoutDir(place string) bool {
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

// freeName returns name, or name with a numeric suffix if it exists. Nothing in the quarantine is
// overwritten.
func freeName(name string) (string, error) {
	for i := range maxSameName {
		try := name
		if i > 0 {
			try += "." + strconv.Itoa(i)
		}
		if _, err := os.Lstat(try); errors.Is(err, fs.ErrNotExist) {
			return try, nil
		}
	}
	return "", fmt.Errorf("%d things of one name in one day", maxSameName)
}

// abs returns the absolute path of a place.
func (d *Dir) abs(place string) string { return filepath.Join(d.root, filepath.FromSlash(place)) }
