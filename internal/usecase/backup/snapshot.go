package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Snapshots is where copies of the database alone are kept, and for how long.
type Snapshots struct {
	Dir  string
	Keep int // days, and how many at least
	// Now is the wall clock: it names the day. Kept is the clock of retention, which says how old
	// the others are: a wall clock that has jumped a month ahead, or to another day every hour,
	// must not push the good ones out.
	Now, Kept time.Time
	// Spare is how much of the disk a copy may take. nil: all of it.
	Spare func() (drive.ByteSize, error)
}

// mostSnapshots bounds, as a multiple of Keep, how many there are while the clock of retention is
// behind: each is as large as the database, and the clock of a machine that sleeps every night
// stays behind.
const mostSnapshots = 3

// Snapshot copies the database alone into a directory, one file a day (UTC), and drops what is
// older than the days that are kept. A day that has its snapshot is left as it is. It returns the
// day's file. DiskFull: it would take more than there is to spare.
func Snapshot(ctx context.Context, db *sqldb.DB, s Snapshots) (string, error) {
	dir, path := s.Dir, s.path(s.Now)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = s.checkRoom(ctx, db)
	}
	temp := filepath.Join(dir, "smartdrive"+tempSuffix)
	if err == nil {
		err = copyDatabase(ctx, db, temp)
	}
	if err == nil {
		err = replace(temp, path)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	return path, s.dropOld()
}

// checkRoom refuses a copy that would take what the database itself needs to go on.
func (s Snapshots) checkRoom(ctx context.Context, db *sqldb.DB) error {
	if s.Spare == nil {
		return nil
	}
	need, err := copySize(ctx, db)
	if err != nil {
		return fmt.Errorf("look how large the database is: %w", err)
	}
	spare, err := s.Spare()
	if err == nil && need > spare {
		err = drive.Fail(drive.DiskFull, "needed", need, "available", max(0, spare))
	}
	return err
}

// path is the file of a day.
func (s Snapshots) path(day time.Time) string {
	return filepath.Join(s.Dir, "smartdrive-"+day.UTC().Format("2006-01-02")+".db")
}

func (s Snapshots) dropOld() error {
	all, err := filepath.Glob(filepath.Join(s.Dir, "smartdrive-????-??-??.db"))
	if err != nil {
		return fmt.Errorf("look for old snapshots: %w", err)
	}
	slices.Sort(all)
	keep := max(1, s.Keep)
	end := s.path(s.Kept.AddDate(0, 0, -keep)) // the youngest that is old enough
	for i, old := range all[:max(0, len(all)-keep)] {
		if old > end && len(all)-i <= mostSnapshots*keep {
			break
		}
		if err := os.Remove(old); err != nil {
			return fmt.Errorf("drop an old snapshot: %w", err)
		}
	}
	return nil
}
