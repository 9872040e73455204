package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/server"
)

// DamageInstructions returns instructions for operators of a damaged SQLite database. data is the
// directory of --data, or "" if unknown.
func DamageInstructions(data string) string {
	data = cmp.Or(data, "<data>")
	file := filepath.Join(data, databaseFile)
	return fmt.Sprintf(`What to do: look whether the disk is failing. Stop the server and move %[1]s, and %[1]s-wal and %[1]s-shm if they are there, to another directory. Then either
  - copy the newest file of %[2]s to %[1]s: changes since that day are lost; or
  - let SQLite save what can be read: sqlite3 MOVED/%[3]s .recover | sqlite3 %[1]s
Then run "smartdrive admin restore" without a directory, start the server, run "smartdrive admin fsck", and start the server again.
A backup made by "smartdrive admin backup" is restored by "smartdrive admin restore DIR --force" instead.`,
		file, filepath.Join(data, snapshotDir), databaseFile)
}

// explainDamage adds the instructions of DamageInstructions to an error about a damaged database.
func explainDamage(err error, data string) error {
	if !sqldb.IsDamaged(err) {
		return err
	}
	return fmt.Errorf("the database %s is damaged: %w\n%s", filepath.Join(data, databaseFile), err, DamageInstructions(data))
}

// errDatabaseDamaged is the failure of the readiness check after the pages were found damaged.
var errDatabaseDamaged = errors.New("the pages of the SQLite database are damaged: run \"smartdrive admin fsck\", which says what to do")

// damageCheck returns the readiness check of a SQLite database's pages. It is soft, because
// undamaged data remains readable.
func (a *App) damageCheck() []server.Check {
	if !a.platform.hasDataDisk() {
		return nil
	}
	return []server.Check{{Name: "database-pages", Soft: true, Func: func(context.Context) error {
		if a.auditor.DatabaseDamaged() {
			return errDatabaseDamaged
		}
		return nil
	}}}
}

// translateError returns the error to answer a request with. An error about a damaged page triggers
// a check of all pages. While the database is known to be damaged, NotFound becomes Unavailable:
// the row may be on a damaged page, and a sync client deletes its copy at NotFound.
func (a *App) translateError(err error) error {
	if sqldb.IsDamaged(err) {
		a.auditor.RequestPageCheck()
	}
	if drive.IsKind(err, drive.NotFound) && a.auditor.DatabaseDamaged() {
		return drive.Wrap(err, drive.Unavailable, "reason", sqldb.ReasonDamaged)
	}
	return err
}
