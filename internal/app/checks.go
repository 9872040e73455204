package app

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/head/probe"
	"example.org/smartdrive/internal/head/server"
)

// diskState returns whether the disks of contents and database have space left. A store that does
// not report its space is unlimited. It fails with the error of asking the store.
func (p *platform) diskState(ctx context.Context) (probe.Disk, error) {
	store := p.storage.store
	if !store.Caps().ReportsFree {
		return probe.Unlimited, nil
	}
	free, err := store.Free(ctx)
	switch {
	case err != nil:
		return probe.DiskOf(free, atLeastOne(p.cfg.MinFree)), err
	case p.rowsFit() != nil: // full, whatever is free for contents
		return probe.Full, nil //nolint:nilerr // full is the answer
	}
	return probe.DiskOf(free, atLeastOne(p.cfg.MinFree)), nil
}

// checks returns the checks of /readyz. A failed soft check is shown and does not make the instance
// unready. Redis and Kafka are soft, because all instances share them and none would remain.
func (p *platform) checks() []server.Check {
	all := []server.Check{
		{Name: "database", Func: func(ctx context.Context) error {
			_, err := readInstallation(ctx, p.db)
			return err
		}},
	}
	if disk := p.storage.store; disk.Caps().ReportsFree {
		all = append(all, server.Check{Name: "disk", Func: func(ctx context.Context) error {
			_, err := disk.Free(ctx) // a full disk still serves reads and deletes
			if err != nil && !disk.Caps().ReportsFree {
				return nil // contents have migrated away since the start
			}
			return err
		}}, server.Check{Name: "disk-writable", Soft: true, Func: func(context.Context) error { // reads still work
			if !disk.Caps().ReportsFree {
				return nil
			}
			return local.CheckWritable(p.cfg.Blobs)
		}})
	} else {
		all = append(all, server.Check{Name: "contents", Func: func(ctx context.Context) error {
			_, found, err := p.marks.ReadMark(ctx)
			if err == nil && !found {
				err = drive.Fail(drive.NotFound)
			}
			return err
		}})
	}
	if p.hasDataDisk() {
		all = append(all, server.Check{Name: "database-disk", Soft: true, Func: func(context.Context) error { return p.dataDiskLow() }})
	}
	return append(all, p.shared.checks()...)
}
