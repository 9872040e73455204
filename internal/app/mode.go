package app

import (
	"context"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/timer/memory"
)

// mode is what an installation stands on, and what it does differently for that. Each mode is a
// list in a function of its own (embedded, single, cluster); nobody else asks which one it is.
type mode struct {
	// What a start does, in this order.
	connect  func(ctx context.Context) error // opens and checks what the mode stands on; whose bytes these are is looked at afterwards
	identify func(ctx context.Context) (Installation, error)
	join     func(ctx context.Context) error // makes this process one of the instances
	bytes    func(ctx context.Context) error // opens the contents, once it is known that they belong to the database
	records  func() (records, error)         // how records travel
	queue    func() timer.Queue
	arm      func(ctx context.Context) error // sees to it that every timer that the rows ask for is in the queue

	// What it does later, and how.
	ballast func() error                                     // keeps some room free for a full disk
	copies  func(ctx context.Context, now time.Time) error   // brings up to date what lies elsewhere
	alive   func(ctx context.Context) error                  // refuses while an instance may use the database
	figures func()                                           // registers what only this mode has
	backup  error                                            // why backups are made elsewhere; nil: here
	keyFile bool                                             // the key of secrets lies beside the database, and is made there
	clock   func(ctx context.Context) (drive.Time, error)    // that all instances share; nil: this machine's
	hold    func(ctx context.Context, tx *sqldb.Tx) error    // proves in a transaction that nobody has ended this instance; nil: nobody can
	ended   func(ctx context.Context, g int64) (bool, error) // ends a start that is dead; nil: all others are
	since   func(ctx context.Context) (drive.Time, error)    // when the oldest instance that has not ended began; nil: nobody else is there
}

// What a mode has nothing to do for.
func nothing()                                  {}
func noBallast() error                          { return nil }
func noCopies(context.Context, time.Time) error { return nil }
func nobodyElse(context.Context) error          { return nil } // the lock of the directory said so

// modeOf is the list of the mode that the settings name.
func (a *App) modeOf() mode {
	switch a.cfg.Mode() {
	case config.Single:
		return a.single()
	case config.Shared, config.Cluster:
		return a.cluster()
	default:
		return a.embedded()
	}
}

// embedded is one process with a file and a directory, which a lock keeps others out of.
func (a *App) embedded() mode {
	a.marks = directory(a.cfg.Blobs)
	return mode{
		connect:  a.openFile,
		identify: func(ctx context.Context) (Installation, error) { return identify(ctx, a.db, a.marks) },
		join: func(context.Context) error {
			a.member = instance.Alone(a.info())
			return nil
		},
		bytes:   a.openDirectory,
		records: a.overOutbox,
		queue:   a.ownQueue,
		arm:     a.recover,
		ballast: func() error { return placeBallast(a.cfg.Data) },
		copies: func(ctx context.Context, now time.Time) error {
			if a.mover.rows.State().Switched { // the truth is elsewhere by now
				return nil
			}
			return a.snapshot(ctx, now)
		},
		alive:   nobodyElse,
		figures: nothing,
		keyFile: true,
	}
}

// single is one process with a directory and a database on a server: another one may be there, and
// is waited for until it is dead.
func (a *App) single() mode {
	a.marks = directory(a.cfg.Blobs)
	return mode{
		connect:  a.start(component{"database", a.openServer}),
		identify: func(ctx context.Context) (Installation, error) { return identify(ctx, a.db, a.marks) },
		join:     func(ctx context.Context) error { return a.joinOthers(ctx, true) },
		bytes:    a.openDirectory,
		records:  a.overOutbox,
		queue:    a.ownQueue,
		arm:      a.recover,
		ballast:  noBallast,
		copies:   noCopies,
		alive:    a.noneAlive,
		figures:  nothing,
		backup:   ErrServerDatabase,
	}
}

// cluster is many processes with a database, Redis and a bucket; with Kafka, too, it is the same
// and Kafka carries the records.
func (a *App) cluster() mode {
	needed := []component{{"database", a.openServer}, {"Redis", a.openRedis}, {"S3", a.openBucket}}
	m := mode{
		identify: func(ctx context.Context) (Installation, error) { return identifyShared(ctx, a.db, a.marks) },
		join: func(ctx context.Context) error {
			if err := a.start(component{"Redis", a.claimNamespace})(ctx); err != nil {
				return err
			}
			return a.joinOthers(ctx, false)
		},
		bytes:   func(context.Context) error { return nil }, // the bucket was opened to be checked
		records: a.overOutbox,
		queue:   func() timer.Queue { return a.shared.queue },
		arm:     a.armOnce,
		ballast: noBallast,
		copies:  func(ctx context.Context, _ time.Time) error { return a.refreshMark(ctx) },
		alive:   a.noneAlive,
		figures: a.observeQueue,
		backup:  ErrServerDatabase,
		clock:   func(ctx context.Context) (drive.Time, error) { return a.db.Now(ctx) },
		hold:    func(ctx context.Context, tx *sqldb.Tx) error { return a.member.Hold(ctx, tx) },
		ended:   func(ctx context.Context, g int64) (bool, error) { return a.member.End(ctx, g) },
		since:   func(ctx context.Context) (drive.Time, error) { return a.member.Oldest(ctx) },
	}
	if a.cfg.Kafka != nil {
		needed = append(needed, component{"Kafka", a.checkKafka})
		m.records = a.overKafka
		m.figures = func() { a.observeQueue(); a.observeBroker() }
	}
	m.connect = a.start(needed...)
	return m
}

// start opens components, each for as long as it may take.
func (a *App) start(needed ...component) func(ctx context.Context) error {
	return func(ctx context.Context) error { return startAll(ctx, needed, a.cfg.StartWait, a.log) }
}

// ownQueue keeps timers in memory.
func (a *App) ownQueue() timer.Queue { return memory.New(memory.Options{Stepped: a.onStep}) }
