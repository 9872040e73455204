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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Options configures Run, Restore and Adopt. A zero field selects its default.
type Options struct {
	Copy   bool // never use hard links
	Verify bool // Run: verify the checksums of contents from earlier runs on both sides, and replace damaged ones; Restore always verifies
	Packs  Packs
	Now    func() time.Time
	Log    *slog.Logger
}

// Packs accesses the packs of small contents below the directory of an installation or a backup.
type Packs interface {
	// Path returns the path of the pack for a content name, or false if the name has no pack.
	Path(root, name string) (string, bool)
	// Read returns a content, or NotFound if it is in no pack.
	Read(root, name string) ([]byte, error)
	// Write writes a content to its pack without a sync. It returns NotFound if the name has no
	// pack.
	Write(root, name string, content []byte) error
	// Prune frees the contents of a pack that keep rejects, and deletes an empty pack. ok is false
	// if the file is not a pack.
	Prune(ctx context.Context, root, file string, keep func(name string) bool) (freed int64, ok bool, err error)
}

// noPacks is the Packs of a store without packs.
type noPacks struct{}

// Path always returns false: no name has a pack.
func (noPacks) Path(string, string) (string, bool) { return "", false }

// Read always returns NotFound.
func (noPacks) Read(string, string) ([]byte, error) { return nil, drive.Fail(drive.NotFound) }

// Write always returns NotFound.
func (noPacks) Write(string, string, []byte) error { return drive.Fail(drive.NotFound) }

// Prune always returns ok false: no file is a pack.
func (noPacks) Prune(context.Context, string, string, func(string) bool) (int64, bool, error) {
	return 0, false, nil
}

// withDefaults returns o with defaults for zero fields.
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

// Result is the result of Run: the manifest of the new backup, and what was transferred.
type Result struct {
	Manifest
	Moved  Transferred `json:"moved"`
	Pruned int64       `json:"pruned"` // contents of the previous backup that were deleted
}

// maxRounds limits the rounds that are started because contents were deleted before their turn.
// With hard links one round suffices.
const maxRounds = 8

// Run updates the backup in dest from a possibly running installation. It can be interrupted and
// run again at any time: the previous backup stays valid until the new manifest replaces the old
// one. dest is created if missing. It returns WrongState if dest holds anything but a backup of
// this installation, or if another run or restore uses it.
func Run(ctx context.Context, db *sqldb.DB, blobs, dest string, opt Options) (Result, error) {
	opt = opt.withDefaults()
	r := run{db: db, dest: dest, opt: opt, carrier: transferrer{
		from: blobs, to: dest, copyOnly: opt.Copy, verify: opt.Verify, checkSource: true, packs: opt.Packs, unsyncedDirs: map[string]bool{}, unsyncedPacks: map[string]bool{},
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
			opt.Log.InfoContext(ctx, "contents were deleted during the backup; another round starts", "files", lost)
			continue
		}
		if err := writeManifest(dest, m); err != nil {
			return Result{}, err
		}
		pruned, err := r.prune(ctx, m)
		return Result{Manifest: m, Moved: r.carrier.moved, Pruned: pruned}, err
	}
}

// run is one run of Run and its state.
type run struct {
	db           *sqldb.DB
	dest         string
	opt          Options
	installation string // installation id
	carrier      transferrer
	wanted       map[string]bool // contents named by the latest copy of the database
}

// prepare checks that dest is outside of blobs and not a backup of another installation, creates
// and locks it, and marks it as a backup of this one. The caller must close lock, which ends the
// lock. It returns WrongState with a reason if dest is unsuitable.
func (r *run) prepare(ctx context.Context, blobs string) (lock *os.File, err error) {
	var generation int64
	if r.installation, generation, err = identity(ctx, r.db); err != nil {
		return nil, err
	}
	if err := checkOutside(blobs, r.dest); err != nil {
		return nil, err
	}
	if _, err := r.isOurs(); err != nil { // before anything is created there
		return nil, err
	}
	if err := os.MkdirAll(r.dest, 0o700); err != nil {
		return nil, refuse(err.Error())
	}
	if lock, err = lockBackup(r.dest, r.opt.Log); err != nil {
		return nil, err
	}
	known, err := r.isOurs() // another run may have written there meanwhile
	if err == nil && !known {
		// From here on, dest is known as a backup of this installation, even if this run is
		// interrupted.
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

// isOurs reports whether dest holds a backup of this installation. It returns WrongState if dest
// holds anything else.
func (r *run) isOurs() (bool, error) {
	m, err := ReadManifest(r.dest)
	switch {
	case err == nil && m.Installation != r.installation:
		return false, refuse(fmt.Sprintf("%s holds a backup of installation %s, and this is %s", r.dest, m.Installation, r.installation))
	case err == nil:
		return true, nil
	case !drive.IsKind(err, drive.NotFound):
		return false, err
	}
	found, err := os.ReadDir(r.dest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, refuse(err.Error())
	}
	if slices.ContainsFunc(found, func(e fs.DirEntry) bool { return e.Name() != manifestFile+tempSuffix && e.Name() != lockFile }) {
		return false, refuse(r.dest + " holds something that is not a backup: choose an empty directory")
	}
	return false, nil
}

// refuse returns WrongState with a reason for the operator.
func refuse(why string) error { return drive.Fail(drive.WrongState, "why", why) }

// checkOutside returns WrongState for a destination inside of the backed-up store, where fsck would
// report it as a stray.
func checkOutside(blobs, dest string) error {
	from, err := filepath.Abs(blobs)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(dest)
	if err != nil {
		return err
	}
	if from == to {
		return refuse(to + " is the directory of the blobs themselves")
	}
	for _, dir := range []string{blobsDir, stagingDir, quarantineDir} {
		if rel, err := filepath.Rel(filepath.Join(from, dir), to); err == nil && filepath.IsLocal(rel) {
			return refuse(to + " lies in the store that is to be backed up")
		}
	}
	return nil
}

// round copies the database and transfers all contents that it names. lost is the number of
// contents that were deleted meanwhile.
func (r *run) round(ctx context.Context) (m Manifest, lost int64, err error) {
	taken := drive.TimeOf(r.opt.Now())
	temp := filepath.Join(r.dest, "database"+tempSuffix)
	if err := copyDatabase(ctx, r.db, temp); err != nil {
		return m, 0, err
	}
	m = Manifest{Format: format, Complete: true, Taken: taken, Database: fmt.Sprintf("database-%d.db", int64(taken))}
	if lost, err = r.transferAll(ctx, temp, &m); err != nil || lost > 0 {
		return m, lost, err
	}
	if err := r.carrier.sync(); err != nil {
		return m, 0, err
	}
	if err := mergeLog(ctx, temp); err != nil {
		return m, 0, err
	}
	if m.SHA256, m.Size, err = digestOf(temp); err != nil {
		return m, 0, err
	}
	return m, 0, errors.Join(syncFile(temp), replace(temp, filepath.Join(r.dest, m.Database)))
}

// transferAll transfers the contents that a copy of the database names, sets r.wanted to them and
// fills in m. lost is the number of contents deleted since the copy; the caller copies the database
// again. It fails if the copy is of another installation.
func (r *run) transferAll(ctx context.Context, database string, m *Manifest) (lost int64, err error) {
	db, err := sqldb.Open(ctx, sqldb.Options{Path: database, Log: r.opt.Log})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if m.Installation, m.Generation, err = identity(ctx, db); err != nil {
		return 0, err
	}
	if m.Installation != r.installation { // otherwise prune would delete the previous backup's contents
		return 0, fmt.Errorf("the copy of the database is of installation %q, and this is %s", m.Installation, r.installation)
	}
	r.wanted = map[string]bool{}
	err = eachBlob(ctx, db, func(b content) error {
		gone, err := r.transfer(ctx, b, m)
		if gone {
			lost++
		}
		return err
	})
	return lost, err
}

// transfer transfers a content and records problems in the manifest. gone reports that the content
// was deleted before its turn.
func (r *run) transfer(ctx context.Context, b content, m *Manifest) (gone bool, err error) {
	o, err := r.carrier.transfer(ctx, b, os.Remove)
	if err != nil {
		return false, err
	}
	if o.source != sound {
		named, err := r.rowExists(ctx, b)
		if err != nil {
			return false, err
		}
		if !named && o.result != sound {
			return true, nil
		}
		if named {
			if err := r.recordProblem(ctx, b, o.source, m); err != nil {
				return false, err
			}
		}
	}
	r.wanted[b.file] = true
	m.Blobs++
	m.Bytes += b.size
	return false, nil
}

// recordProblem records a missing or damaged content in the manifest. A damaged content is also
// marked in the installation, so that the next upload of the same bytes repairs it and the next run
// checks it again.
func (r *run) recordProblem(ctx context.Context, b content, s condition, m *Manifest) error {
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

// rowExists reports whether a row of the running installation still names the file. If not, the
// content was deleted regularly since the copy.
func (r *run) rowExists(ctx context.Context, b content) (bool, error) {
	var n int
	err := r.db.QueryRow(ctx, `SELECT COUNT(*) FROM blobs WHERE id = ? AND file = ?`, b.id, b.file).Scan(&n)
	return n > 0, err
}

// content is a row of blobs with what a backup needs to find and check the file.
type content struct {
	id           drive.BlobID
	file         string
	size         drive.ByteSize
	crc          uint32
	knownDamaged bool // marked as damaged
}

// eachBlob calls fn for each row of blobs by id, in pages. It stops at the first error of fn, to
// which it adds the name of the content, or if ctx ends.
func eachBlob(ctx context.Context, q sqldb.Querier, fn func(content) error) error {
	const page = 1000
	for after := ""; ; {
		rows, err := q.Query(ctx, `SELECT id, file, size, crc32, damaged_at > 0 FROM blobs WHERE id > ? ORDER BY id LIMIT ?`, after, page)
		all, err := sqldb.Scan(rows, err, func(b *content, scan func(...any) error) error {
			return scan(&b.id, &b.file, &b.size, &b.crc, &b.knownDamaged)
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

// prune deletes databases and contents in dest that this backup does not need, and returns the
// number of contents deleted. Other files stay.
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
