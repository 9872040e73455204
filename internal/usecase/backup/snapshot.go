package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// SnapshotOptions configures daily copies of the database.
type SnapshotOptions struct {
	Dir  string
	Keep int // days to keep, and minimum number of snapshots
	// Now is the wall clock and names the day. RetentionNow is the retention clock and decides the
	// age of snapshots: a wall clock that jumps must not expire good snapshots.
	Now, RetentionNow time.Time
	// Spare returns the disk space available for a copy. nil: unlimited.
	Spare func() (drive.ByteSize, error)
}

// maxSnapshotFactor limits the number of snapshots to this multiple of Keep while the retention
// clock is behind, as on a machine that sleeps every night.
const maxSnapshotFactor = 3

// Snapshot copies the database into s.Dir, at most once per day (UTC), deletes expired snapshots
// and returns the path of the day's file. It returns DiskFull if the copy would exceed Spare.
func Snapshot(ctx context.Context, db *sqldb.DB, s SnapshotOptions) (string, error) {
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

// checkRoom returns DiskFull if a copy of the database needs more space than Spare returns. Without
// Spare it returns nil.
func (s SnapshotOptions) checkRoom(ctx context.Context, db *sqldb.DB) error {
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

// path returns the file of a day.
func (s SnapshotOptions) path(day time.Time) string {
	return filepath.Join(s.Dir, "smartdrive-"+day.UTC().Format("2006-01-02")+".db")
}

// dropOld deletes the expired snapshots, oldest first: those not among the newest Keep that are
// Keep days old by the retention clock, or above maxSnapshotFactor times Keep. At least one
// snapshot stays.
func (s SnapshotOptions) dropOld() error {
	all, err := filepath.Glob(filepath.Join(s.Dir, "smartdrive-????-??-??.db"))
	if err != nil {
		return fmt.Errorf("look for old snapshots: %w", err)
	}
	slices.Sort(all)
	keep := max(1, s.Keep)
	end := s.path(s.RetentionNow.AddDate(0, 0, -keep)) // the newest expired name
	for i, old := range all[:max(0, len(all)-keep)] {
		if old > end && len(all)-i <= maxSnapshotFactor*keep {
			break
		}
		if err := os.Remove(old); err != nil {
			return fmt.Errorf("drop an old snapshot: %w", err)
		}
	}
	return nil
}
