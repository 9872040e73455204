package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Marker is the marker file of a blobs directory: installation and generation.
type Marker struct {
	ID         string
	Generation int64
}

// Target is the location of an installation. The caller holds the lock on the data directory.
type Target struct {
	Data, Blobs string
	ReadMark    func(blobs string) (m Marker, found bool, err error)
	WriteMark   func(blobs string, m Marker) error
}

// databaseFile is the file name of the database in the data directory.
const databaseFile = "smartdrive.db"

// RestoreResult is the result of Restore: the manifest of the backup, and what was done with each
// content.
type RestoreResult struct {
	Manifest
	Moved   Transferred `json:"moved"`
	Uploads int64       `json:"uploads"`         // open uploads that were ended
	Missing []string    `json:"missing"`         // contents that neither the backup nor the target has
	Damaged []string    `json:"damaged"`         // contents damaged in the target, without a sound copy in the backup
	Aside   string      `json:"aside,omitempty"` // directory of the previous database
}

// Restore restores a backup. A target that is not empty is refused, unless it holds the same
// installation and force is set. Then the previous database is moved aside, and existing blobs stay
// beside those of the backup. Nothing is deleted.
//
// The restored installation gets a new generation, and its open uploads are ended. Until a check is
// clean, it only reports: nothing is reclaimed, deleted or repaired. An interrupted Restore can be
// run again, with force if the target is no longer empty.
func Restore(ctx context.Context, from string, to Target, force bool, opt Options) (RestoreResult, error) {
	r := restore{from: from, to: to, opt: opt.withDefaults(), aside: filepath.Join(to.Data, "before-restore-"+opt.withDefaults().Now().UTC().Format("20060102T150405.000"))}
	r.out.Missing, r.out.Damaged = []string{}, []string{}
	if err := r.run(ctx, force); err != nil {
		return RestoreResult{}, fmt.Errorf("restore %s: %w", from, err)
	}
	return r.out, nil
}

// restore is one run of Restore and what it has found out so far.
type restore struct {
	from    string
	to      Target
	opt     Options
	aside   string // directory for replaced files
	out     RestoreResult
	highest int64 // highest generation found in backup and target
}

// run checks backup and target, restores the database and its contents, and writes the mark last.
// After an error Restore can be run again, with force if the target is no longer empty.
func (r *restore) run(ctx context.Context, force bool) (err error) {
	lock, err := lockForReading(r.from)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // lock may be nil
	if r.out.Manifest, err = ReadManifest(r.from); err != nil {
		return err
	}
	if err := r.out.check(r.from); err != nil {
		return err
	}
	if err := r.inspect(ctx, force); err != nil {
		return err
	}
	for _, dir := range []string{r.to.Data, filepath.Join(r.to.Blobs, blobsDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	ready := filepath.Join(r.to.Data, databaseFile+tempSuffix)
	generation, err := r.makeDatabase(ctx, ready)
	if err != nil {
		return err
	}
	if err := r.install(ready); err != nil {
		return err
	}
	// Write the mark last: without it the server refuses to start on a new target.
	return r.to.WriteMark(r.to.Blobs, Marker{ID: r.out.Installation, Generation: generation})
}

// inspect returns an error unless the target is empty, or force allows to replace it.
func (r *restore) inspect(ctx context.Context, force bool) error {
	r.highest = r.out.Generation
	mark, marked, err := r.to.ReadMark(r.to.Blobs)
	if err != nil {
		return err
	}
	if err := r.checkInstallation(mark.ID, force, marked, r.to.Blobs); err != nil {
		return err
	}
	r.highest = max(r.highest, mark.Generation)
	if !marked {
		if found, err := filepath.Glob(filepath.Join(r.to.Blobs, blobsDir, "*", "*")); err != nil || len(found) > 0 && !force {
			return errors.Join(err, fmt.Errorf("%s holds blobs without a mark", r.to.Blobs))
		}
	}
	path := filepath.Join(r.to.Data, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	id, generation, err := readDatabase(ctx, path, r.opt)
	if err != nil {
		if !force {
			return fmt.Errorf("%s holds a database that cannot be read: %w", r.to.Data, err)
		}
		r.opt.Log.WarnContext(ctx, "the previous database cannot be read; it is moved aside", "error", err)
		return nil
	}
	r.highest = max(r.highest, generation)
	return r.checkInstallation(id, force, id != "", r.to.Data)
}

// checkInstallation returns an error if dir holds another installation, or this one without force.
func (r *restore) checkInstallation(id string, force, found bool, dir string) error {
	switch {
	case !found:
		return nil
	case id != r.out.Installation:
		return fmt.Errorf("%s holds installation %s, and the backup is of %s", dir, id, r.out.Installation)
	case !force:
		return fmt.Errorf("%s holds this installation already: restoring puts its database aside, which needs --force", dir)
	}
	return nil
}

// readDatabase opens a database file, which may migrate it, and returns its installation and
// generation.
func readDatabase(ctx context.Context, path string, opt Options) (id string, generation int64, err error) {
	db, err := sqldb.Open(ctx, sqldb.Options{Path: path, Log: opt.Log})
	if err != nil {
		return "", 0, err
	}
	id, generation, err = identity(ctx, db)
	return id, generation, errors.Join(err, db.Close())
}

// makeDatabase copies the database of the backup, transfers the contents that it names, and adopts
// the database. The result at path is a single file without a log.
func (r *restore) makeDatabase(ctx context.Context, path string) (generation int64, err error) {
	work := path + ".work"
	if err := removeDatabase(work); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removeDatabase(work)) }()
	// Never a link: this file is modified. Its checksum was verified with the manifest.
	if _, err := copyFile(ctx, filepath.Join(r.from, r.out.Database), work, content{}); err != nil {
		return 0, err
	}
	db, err := sqldb.Open(ctx, sqldb.Options{Path: work, Log: r.opt.Log})
	if err != nil {
		return 0, err
	}
	id, _, err := identity(ctx, db)
	if err == nil && id != r.out.Installation {
		err = fmt.Errorf("the database of the backup is of installation %q, and its manifest of %s", id, r.out.Installation)
	}
	if err == nil {
		err = r.transferAll(ctx, db)
	}
	if err == nil {
		generation, r.out.Uploads, err = adopt(ctx, db, r.highest, drive.TimeOf(r.opt.Now()))
	}
	if err == nil {
		err = copyDatabase(ctx, db, path)
	}
	return generation, errors.Join(err, db.Close())
}

// transferAll transfers the contents that the database names from the backup to the target, and
// syncs them. Contents that are missing or damaged are recorded in the result and no error.
func (r *restore) transferAll(ctx context.Context, db *sqldb.DB) error {
	c := transferrer{
		from: r.from, to: r.to.Blobs, copyOnly: r.opt.Copy, verify: true, packs: r.opt.Packs, unsyncedDirs: map[string]bool{}, unsyncedPacks: map[string]bool{},
	}
	err := eachBlob(ctx, db, func(b content) error {
		o, err := c.transfer(ctx, b, r.putAside)
		switch {
		case err != nil:
		case o.result == missing:
			r.out.Missing = append(r.out.Missing, b.file)
		case o.result == damaged:
			r.out.Damaged = append(r.out.Damaged, b.file)
		}
		return err
	})
	r.out.Moved = c.moved
	return errors.Join(err, c.sync())
}

// putAside moves a damaged content file to this run's directory in the quarantine. It returns
// fs.ErrNotExist if the content is not a file of its own.
func (r *restore) putAside(path string) error {
	if _, err := os.Lstat(path); err != nil { // the content is in a pack
		return err
	}
	dir := filepath.Join(r.to.Blobs, quarantineDir, filepath.Base(r.aside))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(dir, filepath.Base(path)))
}

// install moves the previous database aside and installs the new one. It moves the log first:
// SQLite would apply a log left beside another database.
func (r *restore) install(ready string) error {
	path := filepath.Join(r.to.Data, databaseFile)
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if _, err := os.Lstat(path + suffix); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.MkdirAll(r.aside, 0o700); err != nil {
			return err
		}
		if err := os.Rename(path+suffix, filepath.Join(r.aside, databaseFile+suffix)); err != nil {
			return err
		}
		r.out.Aside = r.aside
	}
	if r.out.Aside != "" {
		if err := errors.Join(syncDir(r.aside), syncDir(r.to.Data)); err != nil {
			return err
		}
	}
	return replace(ready, path)
}

// Adopt prepares a database that was placed beside the blobs by other means, such as a disk
// snapshot: like Restore, it raises the generation, ends open uploads and writes the mark. It
// returns the number of ended uploads. Blobs of another installation are refused. The database must
// not be in use.
func Adopt(ctx context.Context, db *sqldb.DB, to Target, opt Options) (uploads int64, err error) {
	id, generation, err := identity(ctx, db)
	if err != nil {
		return 0, err
	}
	mark, found, err := to.ReadMark(to.Blobs)
	switch {
	case err != nil:
		return 0, err
	case id == "":
		return 0, errors.New("the database belongs to no installation")
	case found && mark.ID != id:
		return 0, fmt.Errorf("the database is of installation %s, and %s holds the blobs of %s", id, to.Blobs, mark.ID)
	}
	generation, uploads, err = adopt(ctx, db, max(generation, mark.Generation), drive.TimeOf(opt.withDefaults().Now()))
	if err != nil {
		return 0, err
	}
	return uploads, to.WriteMark(to.Blobs, Marker{ID: id, Generation: generation})
}

// adopt prepares a restored database in one transaction. It raises the generation above all known
// ones, so that files without rows are distinguished from those of later starts. It sets the mark
// that prevents reclaim and repair. It ends open uploads, whose staging is missing or outdated. It
// changes the fingerprint, because clients may have seen newer data.
func adopt(ctx context.Context, db *sqldb.DB, seen int64, now drive.Time) (generation, uploads int64, err error) {
	generation = seen + 1
	log := activity.New(activity.Options{DB: db, Now: now.Std})
	err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		// A copy of an installation in a migration is not a side of that migration.
		if _, err := tx.Exec(ctx, `DELETE FROM migration_side`); err != nil {
			return err
		}
		for name, value := range map[string]string{
			"generation": strconv.FormatInt(generation, 10), "restored": "1", "fingerprint": rand.Text(),
		} {
			if err := meta.Set(ctx, tx, name, value); err != nil {
				return err
			}
		}
		if err := skipNumbers(ctx, tx); err != nil {
			return err
		}
		uploads, err = endUploads(ctx, tx, log, now)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("prepare the restored database: %w", err)
	}
	return generation, uploads, nil
}

// skippedNumbers is more than the number of nodes created between a backup and its restore.
// JavaScript integers allow two million restores.
const skippedNumbers int64 = 1 << 32

// skipNumbers skips the numbers of nodes that the copy lacks, so that no number is assigned twice.
func skipNumbers(ctx context.Context, tx *sqldb.Tx) error {
	node := drive.NewID[drive.NodeID]() // insert and delete a number: the database continues after it
	_, err := tx.Exec(ctx, `INSERT INTO node_numbers (number, node_id) SELECT COALESCE(MAX(number), 0) + ?, ? FROM node_numbers`, skippedNumbers, node)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM node_numbers WHERE node_id = ?`, node)
	return err
}

// endUploads sets all open uploads to gone, releases their share of the ledger (Q2, Q3), and notes
// each in the activity of its account (E1).
func endUploads(ctx context.Context, tx *sqldb.Tx, log *activity.Log, now drive.Time) (int64, error) {
	const open = `state IN ('active', 'parked', 'sealing', 'reclaiming')`
	type ended struct {
		id      drive.UploadID
		account drive.AccountID
	}
	rows, err := tx.Query(ctx, `SELECT id, account_id FROM uploads WHERE `+open+` ORDER BY account_id, id`)
	all, err := sqldb.Scan(rows, err, func(u *ended, scan func(...any) error) error { return scan(&u.id, &u.account) })
	if err != nil {
		return 0, err
	}
	for _, u := range all {
		err := log.Record(tx, activity.Entry{Account: u.account, Verb: activity.UploadGone}, map[string]any{"upload": u.id, "reason": "reset"})
		if err != nil {
			return 0, err
		}
	}
	const reserved = `(SELECT COALESCE(SUM(u.reserved), 0) FROM uploads u WHERE u.account_id = ledgers.account_id AND ` + open + `)`
	const held = `(SELECT COALESCE(SUM(u.held), 0) FROM uploads u WHERE u.account_id = ledgers.account_id AND ` + open + `)`
	_, err = tx.Exec(ctx, `UPDATE ledgers SET version = version + 1,
		reserved = CASE WHEN reserved > `+reserved+` THEN reserved - `+reserved+` ELSE 0 END,
		unfinished = CASE WHEN unfinished > `+held+` THEN unfinished - `+held+` ELSE 0 END
		WHERE account_id IN (SELECT account_id FROM uploads WHERE `+open+`)`)
	if err != nil {
		return 0, err
	}
	return tx.Exec(ctx, `UPDATE uploads SET state = 'gone', gen = gen + 1, reserved = 0, held = 0, challenge = '', reason = 'reset',
		ended_at = ? WHERE `+open, now)
}
