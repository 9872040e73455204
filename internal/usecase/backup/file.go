package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/wholesync"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// tempSuffix is the suffix of files being written. The next run overwrites files left by a crash.
const tempSuffix = ".new"

// writeFile creates or overwrites a file with text and syncs it. The name is durable only after
// syncDir.
func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// replace renames from to to, which it replaces, and syncs the directory of to.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// syncFile syncs the content of an existing file to disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir syncs a directory, so that created and renamed names are durable. On Windows it does
// nothing.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync directories
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// contentPath returns the path of a content below a blobs directory. Names from a manipulated
// database are refused: only names that a store assigns are valid.
func contentPath(file string) (string, error) {
	shard, ok := blob.ShardOf(file)
	if !ok {
		return "", fmt.Errorf("%q is not a name for content", file)
	}
	return filepath.Join(shard, file), nil
}

// isContent reports whether name is a valid content name, of which contentPath can make a path.
func isContent(name string) bool {
	_, err := contentPath(name)
	return err == nil
}

// Transferred counts the contents that were transferred: linked by hard links, or copied.
type Transferred struct {
	Linked int64          `json:"linked"`
	Copied int64          `json:"copied"`
	Bytes  drive.ByteSize `json:"bytes"` // of copies only
}

// condition tells whether a content is in a directory, and sound there.
type condition int

const (
	// sound: present with the right size and checksum.
	sound condition = iota
	// missing: not present.
	missing
	damaged // present with another size or checksum
)

// transferResult tells what a transfer found at the source and left at the target.
type transferResult struct {
	source condition // condition at from; sound if it was not checked
	result condition // condition at to afterwards
}

// transferrer transfers contents from one blobs directory to another. Small contents in packs are
// always copied: the source may free them in the pack later, so a link to the pack protects
// nothing.
//
// Each content is verified with its checksum before it is linked or while it is copied. A damaged
// source replaces nothing; if the target has no copy, the damaged bytes are copied.
type transferrer struct {
	from, to      string
	copyOnly      bool // copy instead of linking, on request or because linking failed
	verify        bool // verify checksums of contents that the target already has, not only sizes
	checkSource   bool // check the source even if the target has the content
	packs         Packs
	unsyncedDirs  map[string]bool // directories of to that must be synced
	unsyncedPacks map[string]bool // packs of to that must be synced
	moved         Transferred

	blobsRoot *os.File                  // open blobs directory of to, for a sync of the file system; opened before the first unsynced write; nil: none
	unsynced  map[string]transferResult // outcomes by final path of files that are written but not synced and renamed yet
}

// transfer transfers a content unless the target has it. Before a sound content replaces a damaged
// one, aside is called to move or delete the damaged file.
func (t *transferrer) transfer(ctx context.Context, b content, aside func(path string) error) (transferResult, error) {
	place, err := contentPath(b.file)
	if err != nil {
		return transferResult{}, err
	}
	from, to := filepath.Join(t.from, blobsDir, place), filepath.Join(t.to, blobsDir, place)
	if o, brought := t.unsynced[to]; brought {
		return o, nil
	}
	had, err := t.check(ctx, t.to, b, t.verify || b.knownDamaged)
	if err != nil {
		return transferResult{}, err
	}
	if had == sound {
		if !t.checkSource {
			return transferResult{}, nil
		}
		source, err := t.check(ctx, t.from, b, t.verify || b.knownDamaged)
		return transferResult{source: source}, err
	}
	err = t.makeDir(filepath.Dir(to))
	if err != nil {
		return transferResult{}, err
	}
	return t.fetchMissing(ctx, b, transfer{from: from, to: to, before: had, aside: aside})
}

// check returns the condition of a content below root. read verifies the checksum of a file;
// contents in packs are always verified.
func (t *transferrer) check(ctx context.Context, root string, b content, read bool) (condition, error) {
	place, err := contentPath(b.file)
	if err != nil {
		return missing, err
	}
	path := filepath.Join(root, blobsDir, place)
	size, err := sizeOf(path)
	switch {
	case drive.IsKind(err, drive.NotFound):
		text, err := t.packs.Read(root, b.file)
		switch {
		case drive.IsKind(err, drive.NotFound):
			return missing, nil
		case errors.Is(err, syscall.EIO):
			return damaged, nil
		}
		if root == t.to { // an interrupted run may have written it without a sync
			t.markPack(b)
		}
		return b.conditionOf(text), err
	case err != nil:
		return missing, err
	case size != b.size:
		return damaged, nil
	case !read:
		return sound, nil
	}
	found, err := readAll(ctx, path, b, io.Discard)
	if errors.Is(err, fs.ErrNotExist) { // deleted since
		return missing, nil
	}
	return found, err
}

// transfer names the paths of one content at source and target. aside moves a damaged target file
// away, or deletes it.
type transfer struct {
	from, to string
	before   condition // condition at to before
	aside    func(path string) error
}

// improves reports whether a content in condition s should replace what the target has: it is
// sound, or the target has nothing.
func (m transfer) improves(s condition) bool { return s == sound || m.before == missing }

// clearTarget moves a damaged target file out of the way with aside. It does nothing if the target
// is sound, missing or in a pack.
func (m transfer) clearTarget() error {
	if m.before != damaged {
		return nil
	}
	if err := m.aside(m.to); !errors.Is(err, fs.ErrNotExist) { // a damaged content may be in a pack, which a file overrides
		return err
	}
	return nil
}

// outcome returns the result for a source in the given condition.
func (m transfer) outcome(source condition) transferResult {
	if m.improves(source) {
		return transferResult{source, source}
	}
	return transferResult{source, m.before}
}

// fetchMissing transfers a content that is missing or damaged at the target. The result tells the
// condition at the source; a missing or damaged source is no error. It fails if the source cannot
// be read or the target not written.
func (t *transferrer) fetchMissing(ctx context.Context, b content, m transfer) (transferResult, error) {
	size, err := sizeOf(m.from)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return t.fetchSmall(b, m, func() ([]byte, error) { return t.packs.Read(t.from, b.file) })
	case err != nil:
		return transferResult{}, err
	case size != b.size:
		return transferResult{damaged, m.before}, nil
	}
	o, err := t.fetchFile(ctx, b, m)
	if errors.Is(err, fs.ErrNotExist) { // deleted since
		return transferResult{missing, m.before}, nil
	}
	return o, err
}

// fetchFile links or copies a content that is a file of its own at the source. After the first link
// that fails, it copies all contents. It returns fs.ErrNotExist if the source was deleted
// meanwhile.
func (t *transferrer) fetchFile(ctx context.Context, b content, m transfer) (transferResult, error) {
	if !t.copyOnly {
		source, err := readAll(ctx, m.from, b, io.Discard)
		if err != nil || !m.improves(source) {
			return m.outcome(source), err
		}
		if err := m.clearTarget(); err != nil {
			return transferResult{}, err
		}
		err = os.Link(m.from, m.to)
		if err == nil {
			t.moved.Linked++
			return m.outcome(source), nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return transferResult{}, err
		}
		t.copyOnly = true // another file system, or one without hard links
	}
	if b.size > slothead.MaxContent {
		return t.copy(ctx, b, m)
	}
	return t.fetchSmall(b, m, func() ([]byte, error) { return os.ReadFile(m.from) })
}

// readAll reads a file, writes it to w, and verifies its checksum. A file with read errors of the
// disk is damaged.
func readAll(ctx context.Context, path string, b content, w io.Writer) (condition, error) {
	f, err := os.Open(path)
	if err != nil {
		return missing, err
	}
	defer func() { _ = f.Close() }()
	var sum digest.CRC32
	n, err := copyAll(ctx, io.MultiWriter(&sum, w), f)
	if err != nil {
		return missing, fmt.Errorf("copy %s: %w", path, err)
	}
	if n != int64(b.size) || sum.Sum32() != b.crc { // also after a read error of the disk
		return damaged, nil
	}
	return sound, nil
}

// conditionOf returns sound if text has the size and checksum of the content, else damaged.
func (b content) conditionOf(text []byte) condition {
	var sum digest.CRC32
	_, _ = sum.Write(text)
	if drive.ByteSize(len(text)) != b.size || sum.Sum32() != b.crc {
		return damaged
	}
	return sound
}

// fetchSmall writes a small content to its pack, or to a file if its name has no pack or the target
// is damaged.
func (t *transferrer) fetchSmall(b content, m transfer, read func() ([]byte, error)) (transferResult, error) {
	text, err := read()
	switch {
	case drive.IsKind(err, drive.NotFound):
		return transferResult{missing, m.before}, nil
	case errors.Is(err, syscall.EIO):
		return transferResult{damaged, m.before}, nil
	case err != nil:
		return transferResult{}, err
	}
	o := m.outcome(b.conditionOf(text))
	if !m.improves(o.source) {
		return o, nil
	}
	if m.before == missing {
		err := t.packs.Write(t.to, b.file, text)
		if err == nil {
			t.markPack(b)
			t.moved.Copied++
			t.moved.Bytes += b.size
		}
		if !drive.IsKind(err, drive.NotFound) {
			return o, err
		}
	}
	if err := m.clearTarget(); err != nil {
		return transferResult{}, err
	}
	return o, t.writeSmall(m.to, text, o)
}

// markPack marks the pack of a content for sync.
func (t *transferrer) markPack(b content) {
	if path, ok := t.packs.Path(t.to, b.file); ok {
		t.unsyncedPacks[path], t.unsyncedDirs[filepath.Dir(path)] = true, true
	}
}

// maxUnsynced is the number of small files synced together, which an interrupted run has to repeat.
const maxUnsynced = 4096

// writeSmall writes a small file under a temporary name. commitSmall syncs and renames many such
// files together.
func (t *transferrer) writeSmall(to string, b []byte, o transferResult) (err error) {
	if t.blobsRoot == nil {
		if t.blobsRoot, err = os.Open(filepath.Join(t.to, blobsDir)); err != nil { // may be a link to another disk
			return err
		}
		t.unsynced = map[string]transferResult{}
	}
	if err := os.WriteFile(to+tempSuffix, b, 0o600); err != nil { //nolint:gosec // contentPath accepts only names that a store assigns
		return err
	}
	t.moved.Copied++
	t.moved.Bytes += drive.ByteSize(len(b))
	t.unsynced[to] = o
	if len(t.unsynced) < maxUnsynced {
		return nil
	}
	return t.commitSmall()
}

// sizeOf returns the size of a regular file. It returns NotFound if there is none, and another
// error for a directory or a link.
func sizeOf(path string) (drive.ByteSize, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, drive.Wrap(err, drive.NotFound)
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a file", path)
	}
	return drive.ByteSize(info.Size()), nil
}

// makeDir creates a directory with its parents and marks it for the sync at the end. For a
// directory that is marked already it does nothing.
func (t *transferrer) makeDir(dir string) error {
	if t.unsyncedDirs[dir] {
		return nil
	}
	t.unsyncedDirs[dir] = true
	return os.MkdirAll(dir, 0o700)
}

// copy copies a large content to a temporary file and renames it after a sync, if the source is
// sound or the target has nothing. The result tells the condition of both; a damaged source is no
// error.
func (t *transferrer) copy(ctx context.Context, b content, m transfer) (transferResult, error) {
	temp := m.to + tempSuffix
	source, err := copyFile(ctx, m.from, temp, b)
	if err != nil || !m.improves(source) {
		return m.outcome(source), errors.Join(err, unlessNotExist(os.Remove(temp)))
	}
	if err := m.clearTarget(); err != nil {
		return transferResult{}, err
	}
	t.moved.Copied++
	t.moved.Bytes += b.size
	return m.outcome(source), os.Rename(temp, m.to)
}

// copyFile copies a file, syncs the copy and returns the condition of the source: sound, damaged or
// missing. The copy stays in each case.
func copyFile(ctx context.Context, from, to string, b content) (condition, error) {
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return missing, err
	}
	source, err := readAll(ctx, from, b, dst)
	return source, errors.Join(err, dst.Sync(), dst.Close())
}

// unlessNotExist returns nil if err reports a missing file, else err.
func unlessNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyAll copies src to dst until the end, which total counts. It returns the first error of either
// and, between pieces, that of ctx.
func copyAll(ctx context.Context, dst io.Writer, src io.Reader) (total int64, err error) {
	b := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := src.Read(b)
		if n > 0 {
			if _, err := dst.Write(b[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err == io.EOF || errors.Is(err, syscall.EIO) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// sync makes all transferred contents and their names durable. Linked bytes are durable already, or
// in the log beside the blobs, from which the next start writes them to the linked file.
func (t *transferrer) sync() error {
	if err := t.commitSmall(); err != nil {
		return err
	}
	for path := range t.unsyncedPacks {
		if err := syncFile(path); err != nil {
			return err
		}
	}
	clear(t.unsyncedPacks)
	for dir := range t.unsyncedDirs {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	clear(t.unsyncedDirs)
	if err := syncDir(filepath.Join(t.to, blobsDir)); err != nil {
		return err
	}
	return syncDir(t.to)
}

// commitSmall syncs the files that writeSmall has written and then renames them to their names.
// After an error some may be renamed. It does nothing if none were written.
func (t *transferrer) commitSmall() error {
	if t.blobsRoot == nil {
		return nil
	}
	paths := t.unsynced
	err := syncWritten(t.blobsRoot, paths)
	if err = errors.Join(err, t.close()); err != nil {
		return err
	}
	for path := range paths {
		if err := os.Rename(path+tempSuffix, path); err != nil {
			return err
		}
	}
	return nil
}

// syncWritten syncs the files written by writeSmall, with one sync of the file system if possible.
func syncWritten(whole *os.File, paths map[string]transferResult) error {
	if wholesync.Supported(whole) {
		return wholesync.Sync(whole)
	}
	for path := range paths {
		if err := syncFile(path + tempSuffix); err != nil {
			return err
		}
	}
	return nil
}

// close drops the list of files that commitSmall has not synced, without deleting them, and closes
// the directory. It may be called repeatedly.
func (t *transferrer) close() error {
	whole := t.blobsRoot
	if whole == nil {
		return nil
	}
	t.blobsRoot, t.unsynced = nil, nil
	return whole.Close()
}
