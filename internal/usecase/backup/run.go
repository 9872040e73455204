package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Options change how files are brought. The zero value of each field is its default.
type Options struct {
	Copy   bool // never link, also on the same file system
	Verify bool // of Run: read what the backup has from earlier runs on both sides, and replace what is damaged; Restore always reads everything
	Packs  Packs
	Now    func() time.Time
	Log    *slog.Logger
}

// Packs are the files that small contents share, below the directory of an installation or of a
// backup.
type Packs interface {
	// Path returns the path of the pack that a content of that name lies in, if it lies in one;
	// false: the name is none of such a content.
	Path(root, name string) (string, bool)
	// Read reads a content. NotFound: it lies in no pack.
	Read(root, name string) ([]byte, error)
	// Write writes a content to its place in its pack, not durably. NotFound: it has none.
	Write(root, name string, content []byte) error
	// Prune frees the contents of a pack that are not to be kept, and the pack when it has none any
	// more; false: the file is no pack.
	Prune(ctx context.Context, root, file string, keep func(name string) bool) (freed int64, ok bool, err error)
}

// noPacks is a directory without packs.
type noPacks struct{}

func (noPacks) Path(string, string) (string, bool)  { return "", false }
func (noPacks) Read(string, string) ([]byte, error) { return nil, drive.Fail(drive.NotFound) }
func (noPacks) Write(string, string, []byte) error  { return drive.Fail(drive.NotFound) }
func (noPacks) Prune(context.Context, string, string, func(string) bool) (int64, bool, error) {
	return 0, false, nil
}

func (o Options) withDefaults() Options {
	if o.Packs == nil {
		o.Packs = noPacks{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// Result is what a run has done.
type Result struct {
	Manifest
	Moved  Moved `json:"moved"`
	Pruned int64 `json:"pruned"` // files of the backup before that this one does not need
}

// maxRounds bounds how often the database is copied again because files went before their turn
// came. Each round copies only what is new; with links one is enough.
const maxRounds = 8

// Run brings the backup in dest up to date with an installation that may be running. It can be
// stopped and run again at any point: until the new manifest is in its place the backup before
// stays whole. dest is made if it is missing; one that holds anything but a backup of this
// installation is refused, and so is one that another run, or a restore, is busy with: WrongState.
func Run(ctx context.Context, db *sqldb.DB, blobs, dest string, opt Options) (Result, error) {
	opt = opt.withDefaults()
	r := run{db: db, dest: dest, opt: opt, carrier: carrier{
		from: blobs, to: dest, copies: opt.Copy, reread: opt.Verify, watch: true, packs: opt.Packs, touched: map[string]bool{}, written: map[string]bool{},
	}}
	lock, err := r.prepare(ctx, blobs)
	if err != nil {
		return Result{}, fmt.Errorf("back up to %s: %w", dest, err)
	}
	defer func() { _ = lock.Close() }()
	defer func() { _ = r.carrier.close() }()
	for round := 1; ; round++ {
		m, lost, err := r.round(ctx)
		if err == nil && lost > 0 && round == maxRounds {
			err = fmt.Errorf("%d files were deleted faster than they could be copied", lost)
		}
		if err != nil {
			return Result{}, fmt.Errorf("back up to %s: %w", dest, err)
		}
		if lost > 0 {
			opt.Log.InfoContext(ctx, "backup: another round", "files", lost)
			continue
		}
		if err := writeManifest(dest, m); err != nil {
			return Result{}, err
		}
		pruned, err := r.prune(ctx, m)
		return Result{Manifest: m, Moved: r.carrier.moved, Pruned: pruned}, err
	}
}

type run struct {
	db           *sqldb.DB
	dest         string
	opt          Options
	installation string // whose id it is
	carrier      carrier
	wanted       map[string]bool // files that the newest copy of the database names
}

// prepare makes sure that dest is ours, and that nobody else works on it until the lock is closed.
func (r *run) prepare(ctx context.Context, blobs string) (lock *os.File, err error) {
	var generation int64
	if r.installation, generation, err = identity(ctx, r.db); err != nil {
		return nil, err
	}
	if err := apart(blobs, r.dest); err != nil {
		return nil, err
	}
	if _, err := r.known(); err != nil { // before anything is made there
		return nil, err
	}
	if err := os.MkdirAll(r.dest, 0o700); err != nil {
		return nil, refused(err.Error())
	}
	if lock, err = lockBackup(r.dest, r.opt.Log); err != nil {
		return nil, err
	}
	known, err := r.known() // another run may have been there meanwhile
	if err == nil && !known {
		// From here on the directory is known as ours, also when this run is stopped.
		err = writeManifest(r.dest, Manifest{Format: format, Installation: r.installation, Generation: generation})
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.dest, blobsDir), 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// known reports whether dest holds a backup of this installation; it refuses one that holds
// anything else.
func (r *run) known() (bool, error) {
	m, err := ReadManifest(r.dest)
	switch {
	case err == nil && m.Installation != r.installation:
		return false, refused(fmt.Sprintf("%s holds a backup of installation %s, and this is %s", r.dest, m.Installation, r.installation))
	case err == nil:
		return true, nil
	case !drive.IsKind(err, drive.NotFound):
		return false, err
	}
	found, err := os.ReadDir(r.dest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, refused(err.Error())
	}
	if slices.ContainsFunc(found, func(e fs.DirEntry) bool { return e.Name() != manifestFile+tempSuffix && e.Name() != lockFile }) {
		return false, refused(r.dest + " holds something that is not a backup: choose an empty directory")
	}
	return false, nil
}

// refused tells the operator what is wrong with a directory.
func refused(why string) error { return drive.Fail(drive.WrongState, "why", why) }

// apart refuses a backup into the blobs that are backed up, and into the store's other directories,
// where fsck takes it for something that nobody knows.
func apart(blobs, dest string) error {
	from, err := filepath.Abs(blobs)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(dest)
	if err != nil {
		return err
	}
	if from == to {
		return refused(to + " is the directory of the blobs themselves")
	}
	for _, dir := range []string{blobsDir, stagingDir, quarantineDir} {
		if rel, err := filepath.Rel(filepath.Join(from, dir), to); err == nil && filepath.IsLocal(rel) {
			return refused(to + " lies in the store that is to be backed up")
		}
	}
	return nil
}

// round copies the database and brings every file that the copy names. lost is how many of them
// have been released and deleted since.
func (r *run) round(ctx context.Context) (m Manifest, lost int64, err error) {
	taken := drive.TimeOf(r.opt.Now())
	temp := filepath.Join(r.dest, "database"+tempSuffix)
	if err := copyDatabase(ctx, r.db, temp); err != nil {
		return m, 0, err
	}
	m = Manifest{Format: format, Complete: true, Taken: taken, Database: fmt.Sprintf("database-%d.db", int64(taken))}
	if lost, err = r.bringAll(ctx, temp, &m); err != nil || lost > 0 {
		return m, lost, err
	}
	if err := r.carrier.sync(); err != nil {
		return m, 0, err
	}
	if err := settle(ctx, temp); err != nil {
		return m, 0, err
	}
	if m.SHA256, m.Size, err = digestOf(temp); err != nil {
		return m, 0, err
	}
	return m, 0, errors.Join(syncFile(temp), replace(temp, filepath.Join(r.dest, m.Database)))
}

func (r *run) bringAll(ctx context.Context, database string, m *Manifest) (lost int64, err error) {
	db, err := sqldb.Open(ctx, sqldb.Options{Path: database, Log: r.opt.Log})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if m.Installation, m.Generation, err = identity(ctx, db); err != nil {
		return 0, err
	}
	if m.Installation != r.installation { // what the backup before needs would be deleted as not wanted
		return 0, fmt.Errorf("the copy of the database is of installation %q, and this is %s", m.Installation, r.installation)
	}
	r.wanted = map[string]bool{}
	err = eachBlob(ctx, db, func(b content) error {
		gone, err := r.bring(ctx, b, m)
		if gone {
			lost++
		}
		return err
	})
	return lost, err
}

// bring brings a content, and notes in the manifest what is wrong with it. gone reports that it was
// released and deleted before its turn came.
func (r *run) bring(ctx context.Context, b content, m *Manifest) (gone bool, err error) {
	o, err := r.carrier.bring(ctx, b, os.Remove)
	if err != nil {
		return false, err
	}
	if o.source != sound {
		named, err := r.stillNamed(ctx, b)
		if err != nil {
			return false, err
		}
		if !named && o.result != sound {
			return true, nil
		}
		if named {
			if err := r.note(ctx, b, o.source, m); err != nil {
				return false, err
			}
		}
	}
	r.wanted[b.file] = true
	m.Blobs++
	m.Bytes += b.size
	return false, nil
}

// note puts into the manifest what is wrong with a content of the installation. A damaged one is
// marked there, so that the next upload of the same bytes heals it, and so that the next run looks
// at it again, also where this one ends here.
func (r *run) note(ctx context.Context, b content, s state, m *Manifest) error {
	if s == missing {
		m.Missing = append(m.Missing, b.file)
		return nil
	}
	m.Damaged = append(m.Damaged, b.file)
	return r.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = ? WHERE id = ? AND file = ? AND damaged_at = 0`, drive.TimeOf(r.opt.Now()), b.id, b.file)
		return err
	})
}

// stillNamed tells a file that was deleted in good order from one that the installation has lost.
func (r *run) stillNamed(ctx context.Context, b content) (bool, error) {
	var n int
	err := r.db.QueryRow(ctx, `SELECT COUNT(*) FROM blobs WHERE id = ? AND file = ?`, b.id, b.file).Scan(&n)
	return n > 0, err
}

// content is a blob as far as a backup cares.
type content struct {
	id     drive.BlobID
	file   string
	size   drive.ByteSize
	crc    uint32
	marked bool // somebody has found it damaged
}

func eachBlob(ctx context.Context, q sqldb.Querier, fn func(content) error) error {
	const page = 1000
	for after := ""; ; {
		rows, err := q.Query(ctx, `SELECT id, file, size, crc32, damaged_at > 0 FROM blobs WHERE id > ? ORDER BY id LIMIT ?`, after, page)
		all, err := sqldb.Scan(rows, err, func(b *content, scan func(...any) error) error {
			return scan(&b.id, &b.file, &b.size, &b.crc, &b.marked)
		})
		if err != nil {
			return fmt.Errorf("list the blobs: %w", err)
		}
		for _, b := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(b); err != nil {
				return fmt.Errorf("content %s: %w", b.file, err)
			}
			after = b.id.String()
		}
		if len(all) < page {
			return nil
		}
	}
}

// prune deletes what earlier backups needed and this one does not. Names that a backup never gives
// are left.
func (r *run) prune(ctx context.Context, m Manifest) (n int64, err error) {
	databases, err := filepath.Glob(filepath.Join(r.dest, "database-*.db"))
	if err != nil {
		return 0, err
	}
	for _, path := range databases {
		if filepath.Base(path) == m.Database {
			continue
		}
		if err := os.Remove(path); err != nil {
			return 0, err
		}
	}
	root, err := os.OpenRoot(filepath.Join(r.dest, blobsDir))
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		freed, isPack, err := r.opt.Packs.Prune(ctx, r.dest, e.Name(), func(name string) bool { return r.wanted[name] })
		if n += freed; isPack || err != nil {
			return err
		}
		if r.wanted[e.Name()] || !isContent(strings.TrimSuffix(e.Name(), tempSuffix)) {
			return nil
		}
		n++
		return root.Remove(name)
	})
	return n, err
}
