package app

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/server"
)

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
