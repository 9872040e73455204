package app

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// The database may be on another disk than the contents. Below --min-free there the operator is
// warned and no daily copy is made; below rowsFloor uploads are refused, so that the ballast is
// left for deletes and for a start.

// rowsFloor is what uploads leave free on the disk of the database: a few times what its log and
// the ballast take.
const rowsFloor = 64 * drive.MiB

// hasDataDisk reports whether the database is a file on a disk of this machine.
func (g *ground) hasDataDisk() bool { return g.cfg.MySQL == nil }

// dataFree returns the bytes free on the disk of the database.
func (g *ground) dataFree() (drive.ByteSize, error) { return g.freeAt(g.cfg.Data) }

// rowsFit returns DiskFull while the database's disk is nearly full, so that uploads stop before
// deletes do, or the error of reading its free space. It returns nil while there is room, and where
// the database shares the disk of the contents.
func (g *ground) rowsFit() error {
	if !g.hasDataDisk() {
		return nil
	}
	floor := min(rowsFloor, orLeast(g.cfg.MinFree))
	free, err := g.dataFree()
	if err == nil && free < floor {
		err = drive.Fail(drive.DiskFull, "needed", floor-free, "available", 0)
	}
	return err
}

// dataDiskLow fails while less than --min-free is free on the disk of the database.
func (g *ground) dataDiskLow() error {
	free, err := g.dataFree()
	if err == nil && free < orLeast(g.cfg.MinFree) {
		err = fmt.Errorf("%d bytes are free in %s, less than --min-free (%d): free space there; no daily copy of the database is made, and below %d bytes uploads are refused",
			free, g.cfg.Data, g.cfg.MinFree, rowsFloor)
	}
	return err
}

// watchDataDisk logs when the disk of the database runs full and when that is over, until ctx ends.
func (g *ground) watchDataDisk(ctx context.Context) error {
	if !g.hasDataDisk() {
		return nil
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var low telemetry.Outage
	for {
		low.Note(ctx, g.log, "the disk of the database is nearly full", g.dataDiskLow())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// metaGoodBackup is when the last backup ended that has all contents, in Unix seconds.
const metaGoodBackup = "backup-good-at"

// noteGoodBackup stores the time of the last backup that has every content.
func (g *ground) noteGoodBackup(ctx context.Context, tx *sqldb.Tx) error {
	return meta.Set(ctx, tx, metaGoodBackup, strconv.FormatInt(g.stamp().Unix(), 10))
}

// lastBackup returns when the last backup ended that has all contents, in Unix seconds; zero:
// never.
func (g *ground) lastBackup(ctx context.Context) (float64, error) {
	text, err := meta.Find(ctx, g.db, metaGoodBackup)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// lastCopy returns when the last daily copy of the database was made, in Unix seconds; zero: never.
func (g *ground) lastCopy() (float64, error) {
	all, err := filepath.Glob(filepath.Join(g.cfg.Data, snapshotDir, "smartdrive-????-??-??.db")) // at most three weeks of them
	var last time.Time
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	if err != nil || last.IsZero() {
		return 0, err
	}
	return float64(last.Unix()), nil
}

// observeDisks registers how much is free, and when what is there was last copied.
func (g *ground) observeDisks(m *telemetry.Metrics) {
	known := func(v float64, err error) float64 {
		if err != nil {
			return math.NaN()
		}
		return v
	}
	m.Gauge("disk_min_free_bytes", "Bytes that uploads leave free (--min-free).", func() float64 { return float64(g.cfg.MinFree) })
	if !g.hasDataDisk() {
		return
	}
	m.Gauge("data_disk_free_bytes", "Bytes free where the database is.", func() float64 {
		free, err := g.dataFree()
		return known(float64(free), err)
	})
	m.Gauge("backup_last_success_timestamp_seconds", "When the last backup (smartdrive admin backup) with all contents ended, in Unix time; 0: never.", func() float64 {
		return known(g.lastBackup(context.Background()))
	})
	m.Gauge("database_copy_last_success_timestamp_seconds", "When the last daily copy of the database was made, in Unix time; 0: never.", func() float64 {
		return known(g.lastCopy())
	})
}
