package app

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The database may be on another disk than the contents. Below --min-free free bytes there, the
// operator is warned and no daily copy is made. Below rowsFloor uploads are refused, so that space
// remains for deletes and for a start.

// rowsFloor is the space that uploads leave free on the database's disk: a few times the size of
// its log and the ballast.
const rowsFloor = 64 * drive.MiB

// hasDataDisk reports whether the database is a file on this machine, that is, SQLite and not
// MySQL.
func (p *platform) hasDataDisk() bool { return p.cfg.MySQL == nil }

// dataFree returns the bytes free on the disk of the data directory, or the error of asking.
func (p *platform) dataFree() (drive.ByteSize, error) { return p.freeAt(p.cfg.Data) }

// rowsFit returns DiskFull while the database's disk is nearly full, so that uploads stop before
// deletes do, or the error of reading its free space. It returns nil for a database on a server.
func (p *platform) rowsFit() error {
	if !p.hasDataDisk() {
		return nil
	}
	floor := min(rowsFloor, atLeastOne(p.cfg.MinFree))
	free, err := p.dataFree()
	if err == nil && free < floor {
		err = drive.Fail(drive.DiskFull, "needed", floor-free, "available", 0)
	}
	return err
}

// dataDiskLow returns an error for operators while less than --min-free is free on the database's
// disk.
func (p *platform) dataDiskLow() error {
	free, err := p.dataFree()
	if err == nil && free < atLeastOne(p.cfg.MinFree) {
		err = fmt.Errorf("%d bytes are free in %s, less than --min-free (%d): free space there; no daily copy of the database is made, and below %d bytes uploads are refused",
			free, p.cfg.Data, p.cfg.MinFree, rowsFloor)
	}
	return err
}

// watchDataDisk logs when the database's disk becomes nearly full and when it recovers, until ctx
// ends. It always returns nil, at once for a database on a server.
func (p *platform) watchDataDisk(ctx context.Context) error {
	if !p.hasDataDisk() {
		return nil
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var low telemetry.Outage
	for {
		low.Record(ctx, p.log, "the disk of the database is nearly full", p.dataDiskLow())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// metaGoodBackup is the meta key of the end of the last backup that has all contents, in Unix
// seconds.
const metaGoodBackup = "backup-good-at"

// noteGoodBackup stores the current time as that of the last complete backup.
func (p *platform) noteGoodBackup(ctx context.Context, tx *sqldb.Tx) error {
	return meta.Set(ctx, tx, metaGoodBackup, strconv.FormatInt(p.rowTime().Unix(), 10))
}

// lastBackup returns the end of the last complete backup in Unix seconds; 0 if there is none.
func (p *platform) lastBackup(ctx context.Context) (float64, error) {
	text, err := meta.Find(ctx, p.db, metaGoodBackup)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// lastCopy returns the time of the last daily copy of the database in Unix seconds; 0 if there is
// none. It fails if the directory cannot be listed.
func (p *platform) lastCopy() (float64, error) {
	all, err := filepath.Glob(filepath.Join(p.cfg.Data, snapshotDir, "smartdrive-????-??-??.db")) // at most three weeks of files
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

// observeDisks registers gauges of free space and of the last backup and copy. An unknown value is
// NaN.
func (p *platform) observeDisks(m *telemetry.Metrics) {
	known := func(v float64, err error) float64 {
		if err != nil {
			return math.NaN()
		}
		return v
	}
	m.Gauge("disk_min_free_bytes", "Bytes that uploads keep free (--min-free).", func() float64 { return float64(p.cfg.MinFree) })
	if !p.hasDataDisk() {
		return
	}
	m.Gauge("data_disk_free_bytes", "Free bytes on the file system of the database.", func() float64 {
		free, err := p.dataFree()
		return known(float64(free), err)
	})
	m.Gauge("backup_last_success_timestamp_seconds", "Unix time of the end of the last complete backup (smartdrive admin backup); 0: never.", func() float64 {
		return known(p.lastBackup(context.Background()))
	})
	m.Gauge("database_copy_last_success_timestamp_seconds", "Unix time of the last daily copy of the database; 0: never.", func() float64 {
		return known(p.lastCopy())
	})
}
