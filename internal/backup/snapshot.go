package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"smartdrive/internal/sqldb"
)

// Snapshot copies the database alone into dir, one file a day (UTC), and keeps the newest keep of them. A day that has its
// snapshot is left as it is. It returns the day's file.
func Snapshot(ctx context.Context, db *sqldb.DB, dir string, keep int, now time.Time) (string, error) {
	path := filepath.Join(dir, "smartdrive-"+now.UTC().Format("2006-01-02")+".db")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	temp := filepath.Join(dir, "smartdrive"+tempSuffix)
	err := copyDatabase(ctx, db, temp)
	if err == nil {
		err = replace(temp, path)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	all, err := filepath.Glob(filepath.Join(dir, "smartdrive-????-??-??.db"))
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	slices.Sort(all)
	for _, old := range all[:max(0, len(all)-max(1, keep))] {
		if err := os.Remove(old); err != nil {
			return "", fmt.Errorf("drop an old snapshot: %w", err)
		}
	}
	return path, nil
}
