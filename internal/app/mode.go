package app

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/sqldb"
)

// mode holds what depends on the components that an installation uses. Each mode is constructed by
// one function (embedded, single, cluster); other code does not ask for the mode.
type mode struct {
	// Steps of a start, in this order.
	connect     func(ctx context.Context) error // opens and checks the components; the owner of the contents is checked afterwards
	identify    func(ctx context.Context) (Installation, error)
	join        func(ctx context.Context) error // registers this process as an instance
	openStorage func(ctx context.Context) error // opens the contents after their owner was checked

	// Later behavior.
	ballast       func() error                                     // reserves some space for a full disk
	refreshCopies func(ctx context.Context, left bool) error       // refreshes copies kept elsewhere; left: the database has migrated away
	refuseAlive   func(ctx context.Context) error                  // fails while an instance may use the database
	backupRefused error                                            // the reason why backups are made elsewhere; nil: they are made here
	keyFile       bool                                             // the key of secrets is a file of the data directory, created there
	clock         func(ctx context.Context) (drive.Time, error)    // clock that all instances share; nil: this machine's
	fence         func(ctx context.Context, tx *sqldb.Tx) error    // fences a transaction: fails if this instance was declared dead; nil: not needed
	endInstance   func(ctx context.Context, g int64) (bool, error) // declares a dead instance's start ended; nil: all other starts have ended
	oldestStart   func(ctx context.Context) (drive.Time, error)    // start of the oldest instance that has not ended; nil: there is no other
}

// noBallast implements mode.ballast where there is no local database: it reserves no space.
func noBallast() error { return nil }

// noCopies implements mode.refreshCopies where the mode keeps no copies of the database.
func noCopies(context.Context, bool) error { return nil }

// noOtherInstances implements mode.refuseAlive for a locked data directory: it never refuses.
func noOtherInstances(context.Context) error { return nil } // the directory lock guarantees it

// modeOf returns the functions of the mode that the settings select. It starts nothing.
func (p *platform) modeOf() mode {
	switch p.cfg.Mode() {
	case config.Single:
		return p.single()
	case config.Shared, config.Cluster:
		return p.cluster()
	default:
		return p.embedded()
	}
}

// embedded is the mode of one process with an SQLite file and a directory, protected by a lock.
func (p *platform) embedded() mode {
	p.marks = directoryMarks(p.cfg.Blobs)
	return mode{
		connect:  p.openFile,
		identify: func(ctx context.Context) (Installation, error) { return identify(ctx, p.db, p.marks) },
		join: func(context.Context) error {
			p.member = instance.Alone(p.info())
			return nil
		},
		openStorage: p.openDirectory,
		ballast:     func() error { return placeBallast(p.cfg.Data) },
		refreshCopies: func(ctx context.Context, left bool) error {
			if left {
				return nil
			}
			return p.snapshot(ctx, time.Now())
		},
		refuseAlive: noOtherInstances,
		keyFile:     true,
	}
}

// single is the mode of one process with a directory and a database on a server. A start waits
// until any other instance is dead.
func (p *platform) single() mode {
	p.marks = directoryMarks(p.cfg.Blobs)
	return mode{
		connect:       p.start(component{"database", p.openServer}),
		identify:      func(ctx context.Context) (Installation, error) { return identify(ctx, p.db, p.marks) },
		join:          func(ctx context.Context) error { return p.joinOthers(ctx, true) },
		openStorage:   p.openDirectory,
		ballast:       noBallast,
		refreshCopies: noCopies,
		refuseAlive:   p.noneAlive,
		backupRefused: ErrServerDatabase,
	}
}

// cluster is the mode of several processes with a database server, Redis and a bucket. With Kafka,
// it carries the records.
func (p *platform) cluster() mode {
	needed := []component{{"database", p.openServer}, {"Redis", p.openRedis}, {"S3", p.openBucket}}
	m := mode{
		identify: func(ctx context.Context) (Installation, error) { return identifyShared(ctx, p.db, p.marks) },
		join: func(ctx context.Context) error {
			if err := p.start(component{"Redis", p.claimNamespace})(ctx); err != nil {
				return err
			}
			return p.joinOthers(ctx, false)
		},
		openStorage:   func(context.Context) error { return nil }, // openBucket has opened it
		ballast:       noBallast,
		refreshCopies: func(ctx context.Context, _ bool) error { return p.refreshMark(ctx) },
		refuseAlive:   p.noneAlive,
		backupRefused: ErrServerDatabase,
		clock:         func(ctx context.Context) (drive.Time, error) { return p.db.Now(ctx) },
		fence:         func(ctx context.Context, tx *sqldb.Tx) error { return p.member.FenceTx(ctx, tx) },
		endInstance:   func(ctx context.Context, generation int64) (bool, error) { return p.member.EndDead(ctx, generation) },
		oldestStart:   func(ctx context.Context) (drive.Time, error) { return p.member.Oldest(ctx) },
	}
	if p.cfg.Kafka != nil {
		needed = append(needed, component{"Kafka", p.checkKafka})
	}
	m.connect = p.start(needed...)
	return m
}

// start returns a function that opens the needed components concurrently and retries unavailable
// ones for at most --start-wait. It fails with a *StartError that lists all failures.
func (p *platform) start(needed ...component) func(ctx context.Context) error {
	return func(ctx context.Context) error { return startAll(ctx, needed, p.cfg.StartWait, p.log) }
}
