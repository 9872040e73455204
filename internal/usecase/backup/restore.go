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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// Mark says whose blobs lie in a directory.
type Mark struct {
	ID         string
	Generation int64
}

// Site is where an installation lies, or shall lie. The caller holds the lock on the data
// directory.
type Site struct {
	Data, Blobs string
	ReadMark    func(blobs string) (m Mark, found bool, err error)
	WriteMark   func(blobs string, m Mark) error
}

const databaseFile = "smartdrive.db"

// Restored is what Restore has done.
type Restored struct {
	Manifest
	Moved   Moved    `json:"moved"`
	Uploads int64    `json:"uploads"`         // open ones that were ended
	Missing []string `json:"missing"`         // files that neither the backup nor the target has
	Damaged []string `json:"damaged"`         // files that are damaged in the target, because the backup has none that is sound
	Aside   string   `json:"aside,omitempty"` // where the database that was there before is now
}

// Restore puts a backup in place. A target that holds anything is refused, unless it is the same
// installation and force is set: its database is then put aside, and its blobs stay beside those of
// the backup. Nothing is deleted.
//
// The restored installation gets a generation that no mark has seen, its open uploads are ended,
// and until a check was clean it only reports: nothing is reclaimed, unlinked or repaired. Restore
// can be run again after it was stopped anywhere.
func Restore(ctx context.Context, from string, to Site, force bool, opt Options) (Restored, error) {
	r := restore{from: from, to: to, opt: opt.withDefaults(), aside: filepath.Join(to.Data, "before-restore-"+opt.withDefaults().Now().UTC().Format("20060102T150405.000"))}
	r.out.Missing, r.out.Damaged = []string{}, []string{}
	if err := r.run(ctx, force); err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", from, err)
	}
	return r.out, nil
}

type restore struct {
	from  string
	to    Site
	opt   Options
	aside string // directory
	out   Restored
	seen  int64 // the highest generation that anything has
}

func (r *restore) run(ctx context.Context, force bool) (err error) {
	lock, err := keepBackup(r.from)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // there may be none
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
	if err := r.swap(ready); err != nil {
		return err
	}
	// Last: until the mark is there the server refuses to start, and Restore can be run again.
	return r.to.WriteMark(r.to.Blobs, Mark{ID: r.out.Installation, Generation: generation})
}

// inspect refuses a target that is not empty.
func (r *restore) inspect(ctx context.Context, force bool) error {
	r.seen = r.out.Generation
	mark, marked, err := r.to.ReadMark(r.to.Blobs)
	if err != nil {
		return err
	}
	if err := r.same(mark.ID, force, marked, r.to.Blobs); err != nil {
		return err
	}
	r.seen = max(r.seen, mark.Generation)
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
		r.opt.Log.WarnContext(ctx, "the database that was there cannot be read", "error", err)
		return nil
	}
	r.seen = max(r.seen, generation)
	return r.same(id, force, id != "", r.to.Data)
}

func (r *restore) same(id string, force, found bool, dir string) error {
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

func readDatabase(ctx context.Context, path string, opt Options) (id string, generation int64, err error) {
	db, err := sqldb.Open(ctx, sqldb.Options{Path: path, Log: opt.Log})
	if err != nil {
		return "", 0, err
	}
	id, generation, err = identity(ctx, db)
	return id, generation, errors.Join(err, db.Close())
}

// makeDatabase copies the database of the backup, brings the blobs that it names, and makes it one
// that was restored. What it leaves at path is one file without a log.
func (r *restore) makeDatabase(ctx context.Context, path string) (generation int64, err error) {
	work := path + ".work"
	if err := removeDatabase(work); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removeDatabase(work)) }()
	// Never a link: this file is written to. Its checksum was compared with the manifest's.
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
		err = r.bringAll(ctx, db)
	}
	if err == nil {
		generation, r.out.Uploads, err = adopt(ctx, db, r.seen, drive.TimeOf(r.opt.Now()))
	}
	if err == nil {
		err = copyDatabase(ctx, db, path)
	}
	return generation, errors.Join(err, db.Close())
}

func (r *restore) bringAll(ctx context.Context, db *sqldb.DB) error {
	c := carrier{
		from: r.from, to: r.to.Blobs, copies: r.opt.Copy, reread: true, packs: r.opt.Packs, touched: map[string]bool{}, written: map[string]bool{},
	}
	err := eachBlob(ctx, db, func(b content) error {
		o, err := c.bring(ctx, b, r.putAside)
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

// putAside moves a damaged content file to where nothing touches it.
func (r *restore) putAside(path string) error {
	if _, err := os.Lstat(path); err != nil { // it lies in a pack
		return err
	}
	dir := filepath.Join(r.to.Blobs, quarantineDir, filepath.Base(r.aside))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(dir, filepath.Base(path)))
}

// swap puts the database that was there aside and the new one in its place. The log goes first: a
// log that is left beside another database would be played into it.
func (r *restore) swap(ready string) error {
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

// Adopt is for a database that was put beside the blobs by other means than Restore, such as a
// snapshot: it does to the database in place what Restore does to the one that it brings, and marks
// the blobs as its own. It refuses blobs of another installation. The database must not be in use.
func Adopt(ctx context.Context, db *sqldb.DB, to Site, opt Options) (uploads int64, err error) {
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
	return uploads, to.WriteMark(to.Blobs, Mark{ID: id, Generation: generation})
}

// adopt raises the generation beyond what anything has seen, so that files which the rows do not
// know are told from those of the next start, sets the mark that holds back reclaim and repair, and
// ends the open uploads, whose staging is not there or of another time. Clients may have seen what
// came after the copy: another fingerprint tells them. One transaction.
func adopt(ctx context.Context, db *sqldb.DB, seen int64, now drive.Time) (generation, uploads int64, err error) {
	generation = seen + 1
	log := activity.New(activity.Options{DB: db, Now: now.Std})
	err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		// Where the installation was moving when it was copied, the copy is not a side of that.
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

// numbersLost is more than nodes are numbered between a copy and its restore. The integers of
// JavaScript have room for two million restores.
const numbersLost = 1 << 32

// skipNumbers passes over the numbers of nodes that the copy lacks: no other node is given one.
func skipNumbers(ctx context.Context, tx *sqldb.Tx) error {
	node := drive.NewID[drive.NodeID]() // the number is taken and given back: the database counts on behind it
	_, err := tx.Exec(ctx, `INSERT INTO node_numbers (number, node_id) SELECT COALESCE(MAX(number), 0) + ?, ? FROM node_numbers`, numbersLost, node)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM node_numbers WHERE node_id = ?`, node)
	return err
}

// endUploads takes every upload that has not ended to gone, with its share of the ledger (Q2, Q3),
// and notes it in the activity of its account (E1).
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
		err := log.Note(tx, activity.Entry{Account: u.account, Verb: activity.UploadGone}, map[string]any{"upload": u.id, "reason": "reset"})
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
