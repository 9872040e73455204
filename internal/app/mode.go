package app

import (
	"context"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/sqldb"
)

// mode is what an installation stands on, and what it does differently for that. Each mode is a
// list in a function of its own (embedded, single, cluster); nobody else asks which one it is.
type mode struct {
	// What a start does, in this order.
	connect  func(ctx context.Context) error // opens and checks what the mode stands on; whose bytes these are is looked at afterwards
	identify func(ctx context.Context) (Installation, error)
	join     func(ctx context.Context) error // makes this process one of the instances
	bytes    func(ctx context.Context) error // opens the contents, once it is known that they belong to the database

	// What it does later, and how.
	ballast func() error                                     // keeps some room free for a full disk
	copies  func(ctx context.Context, left bool) error       // brings up to date what lies elsewhere; left: the truth is in another place by now
	alive   func(ctx context.Context) error                  // refuses while an instance may use the database
	backup  error                                            // why backups are made elsewhere; nil: here
	keyFile bool                                             // the key of secrets lies beside the database, and is made there
	clock   func(ctx context.Context) (drive.Time, error)    // that all instances share; nil: this machine's
	hold    func(ctx context.Context, tx *sqldb.Tx) error    // proves in a transaction that nobody has ended this instance; nil: nobody can
	ended   func(ctx context.Context, g int64) (bool, error) // ends a start that is dead; nil: all others are
	since   func(ctx context.Context) (drive.Time, error)    // when the oldest instance that has not ended began; nil: nobody else is there
}

// What a mode has nothing to do for.
func noBallast() error                     { return nil }
func noCopies(context.Context, bool) error { return nil }
func nobodyElse(context.Context) error     { return nil } // the lock of the directory said so

// modeOf is the list of the mode that the settings name.
func (g *ground) modeOf() mode {
	switch g.cfg.Mode() {
	case config.Single:
		return g.single()
	case config.Shared, config.Cluster:
		return g.cluster()
	default:
		return g.embedded()
	}
}

// embedded is one process with a file and a directory, which a lock keeps others out of.
func (g *ground) embedded() mode {
	g.marks = directory(g.cfg.Blobs)
	return mode{
		connect:  g.openFile,
		identify: func(ctx context.Context) (Installation, error) { return identify(ctx, g.db, g.marks) },
		join: func(context.Context) error {
			g.member = instance.Alone(g.info())
			return nil
		},
		bytes:   g.openDirectory,
		ballast: func() error { return placeBallast(g.cfg.Data) },
		copies: func(ctx context.Context, left bool) error {
			if left {
				return nil
			}
			return g.snapshot(ctx, time.Now())
		},
		alive:   nobodyElse,
		keyFile: true,
	}
}

// single is one process with a directory and a database on a server: another one may be there, and
// is waited for until it is dead.
func (g *ground) single() mode {
	g.marks = directory(g.cfg.Blobs)
	return mode{
		connect:  g.start(component{"database", g.openServer}),
		identify: func(ctx context.Context) (Installation, error) { return identify(ctx, g.db, g.marks) },
		join:     func(ctx context.Context) error { return g.joinOthers(ctx, true) },
		bytes:    g.openDirectory,
		ballast:  noBallast,
		copies:   noCopies,
		alive:    g.noneAlive,
		backup:   ErrServerDatabase,
	}
}

// cluster is many processes with a database, Redis and a bucket; with Kafka, too, it is the same
// and Kafka carries the records.
func (g *ground) cluster() mode {
	needed := []component{{"database", g.openServer}, {"Redis", g.openRedis}, {"S3", g.openBucket}}
	m := mode{
		identify: func(ctx context.Context) (Installation, error) { return identifyShared(ctx, g.db, g.marks) },
		join: func(ctx context.Context) error {
			if err := g.start(component{"Redis", g.claimNamespace})(ctx); err != nil {
				return err
			}
			return g.joinOthers(ctx, false)
		},
		bytes:   func(context.Context) error { return nil }, // the bucket was opened to be checked
		ballast: noBallast,
		copies:  func(ctx context.Context, _ bool) error { return g.refreshMark(ctx) },
		alive:   g.noneAlive,
		backup:  ErrServerDatabase,
		clock:   func(ctx context.Context) (drive.Time, error) { return g.db.Now(ctx) },
		hold:    func(ctx context.Context, tx *sqldb.Tx) error { return g.member.Hold(ctx, tx) },
		ended:   func(ctx context.Context, generation int64) (bool, error) { return g.member.End(ctx, generation) },
		since:   func(ctx context.Context) (drive.Time, error) { return g.member.Oldest(ctx) },
	}
	if g.cfg.Kafka != nil {
		needed = append(needed, component{"Kafka", g.checkKafka})
	}
	m.connect = g.start(needed...)
	return m
}

// start opens components, each for as long as it may take.
func (g *ground) start(needed ...component) func(ctx context.Context) error {
	return func(ctx context.Context) error { return startAll(ctx, needed, g.cfg.StartWait, g.log) }
}
