package app

import (
	"context"

	"smartdrive/internal/base/drive"
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
	return probe.DiskOf(free, orLeast(g.cfg.MinFree)), err
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
	return append(all, g.shared.checks()...)
}
