package app

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob/local"
	"smartdrive/internal/head/probe"
	"smartdrive/internal/head/server"
)

// room says whether there is room on the disk, as doctor asks.
func (g *ground) room(ctx context.Context) (probe.Disk, error) {
	store := g.bytes.store
	if !store.Caps().Bounded {
		return probe.Boundless, nil
	}
	free, err := store.Free(ctx)
	switch {
	case err != nil:
		return probe.DiskOf(free, orLeast(g.cfg.MinFree)), err
	case g.rowsFit() != nil: // the database's disk is full, whatever that of the contents is
		return probe.Full, nil //nolint:nilerr // full is the answer
	}
	return probe.DiskOf(free, orLeast(g.cfg.MinFree)), nil
}

// checks is what /readyz looks at. What an instance can do without, for a while and for some
// requests, is shown and does not take it out of service: Redis and Kafka are the same for all
// instances, and nobody would be left to answer.
func (g *ground) checks() []server.Check {
	all := []server.Check{
		{Name: "database", Func: func(ctx context.Context) error {
			_, err := readInstallation(ctx, g.db)
			return err
		}},
	}
	if disk := g.bytes.store; disk.Caps().Bounded {
		all = append(all, server.Check{Name: "disk", Func: func(ctx context.Context) error {
			_, err := disk.Free(ctx) // a full disk still serves reads and deletes
			if err != nil && !disk.Caps().Bounded {
				return nil // contents have left the disk since the start
			}
			return err
		}}, server.Check{Name: "disk-writable", Soft: true, Func: func(context.Context) error { // reads go on
			if !disk.Caps().Bounded {
				return nil
			}
			return local.Writable(g.cfg.Blobs)
		}})
	} else {
		all = append(all, server.Check{Name: "contents", Func: func(ctx context.Context) error {
			_, found, err := g.marks.ReadMark(ctx)
			if err == nil && !found {
				err = drive.Fail(drive.NotFound)
			}
			return err
		}})
	}
	if g.hasDataDisk() {
		all = append(all, server.Check{Name: "database-disk", Soft: true, Func: func(context.Context) error { return g.dataDiskLow() }})
	}
	return append(all, g.shared.checks()...)
}
