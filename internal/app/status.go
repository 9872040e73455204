package app

import (
	"context"

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/head/rest"
)

// overview collects the status of the installation as this instance sees it.
type overview struct {
	platform *platform
	timers   *timer.Engine
	records  recordFlow
}

// status returns the status for "admin status". It fails only if the database does not respond.
// Other parts that fail are logged and named in Failing.
func (o overview) status(ctx context.Context) (rest.Status, error) {
	s := rest.Status{
		Installation: o.platform.ID, Mode: string(o.platform.cfg.Mode()), Restored: o.platform.Restored, Timers: map[string]timer.DueCounts{}, Consumers: []rest.Lag{}, Leases: []rest.Lease{},
		Failing: []string{},
	}
	if err := o.addInstances(ctx, &s); err != nil {
		return s, err
	}
	for name, add := range map[string]func(context.Context, *rest.Status) error{"timers": o.addTimers, "consumers": o.addLags, "unsent": o.addUnsent, "backup": o.addBackup} {
		if err := add(ctx, &s); err != nil {
			o.platform.log.WarnContext(ctx, "a part of the status could not be read; it is listed under failing", "part", name, "error", err)
			s.Failing = append(s.Failing, name)
		}
	}
	return s, nil
}

// addInstances appends the instances that have not ended, and the leases with their holders. It
// fails with an error of the database; the instances may then be complete.
func (o overview) addInstances(ctx context.Context, s *rest.Status) error {
	all, err := o.platform.member.List(ctx)
	if err != nil {
		return err
	}
	for _, in := range all {
		if in.Ended { // it has left, or its successor is in the list
			continue
		}
		s.Instances = append(s.Instances, rest.Instance{
			Generation: in.Generation, Host: in.Host, Roles: in.Roles, Version: in.Version, JoinedAt: in.JoinedAt, SeenAt: in.SeenAt, Alive: in.Alive,
		})
	}
	leases, err := o.platform.member.Leases(ctx)
	for _, l := range leases {
		s.Leases = append(s.Leases, rest.Lease{Name: l.Name, Generation: l.Generation, Epoch: l.Epoch, TakenAt: l.TakenAt})
	}
	return err
}

// addTimers sets the pending timers by kind. It fails with the error of the queue.
func (o overview) addTimers(ctx context.Context, s *rest.Status) error {
	pending, err := o.timers.Pending(ctx)
	for kind, h := range pending {
		s.Timers[kind.String()] = h
	}
	return err
}

// addLags appends how far each consumer is behind. On an error the lags read so far are kept.
func (o overview) addLags(ctx context.Context, s *rest.Status) error {
	lags, err := o.records.lags(ctx)
	for _, l := range lags {
		s.Consumers = append(s.Consumers, rest.Lag{Consumer: l.Consumer, Topic: string(l.Topic), Behind: l.Offsets, Waiting: l.Waiting})
	}
	return err
}

// addUnsent sets the records that the broker does not have yet; without a broker it does nothing.
// It fails with the error of counting and sets nothing then.
func (o overview) addUnsent(ctx context.Context, s *rest.Status) error {
	if o.records.unsent == nil {
		return nil
	}
	n, oldest, err := o.records.unsent(ctx)
	if err == nil {
		s.Unsent = &rest.Unsent{Records: n, OldestMs: oldest.Milliseconds()}
	}
	return err
}

// addBackup sets s.Backup to the last backup; it stays nil if there was none. It fails if the
// database cannot be read.
func (o overview) addBackup(ctx context.Context, s *rest.Status) error {
	return meta.Load(ctx, o.platform.db, metaBackup, &s.Backup)
}
