package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/intake/bundle"
)

// What one statement and one pass of the reconciler read.
const (
	comparePage  = 1000   // rows of a statement: some ms
	accountsPass = 20_000 // accounts that a pass asks for a folder /intake that nobody has seen: 100 ms
)

// reconciler is what is kept between two passes. Who begins, as after a restart, goes over all
// accounts once, 5 µs each; then a pass costs what has changed.
//
//	seen   accounts with a folder /intake, and the seq of their tree when all below it had been compared:
//	       as long as the tree has that seq there is nothing to find; -1: not all could be compared
//	after  the accounts up to here were asked for a folder /intake in this round
type reconciler struct {
	*ground
	arrivals *arrivals
	seen     map[drive.AccountID]int64
	after    string
}

// newReconciler knows nothing yet.
func (in *Intake) newReconciler() *reconciler {
	return &reconciler{ground: in.ground, arrivals: in.arrivals, seen: map[drive.AccountID]int64{}}
}

// Reconcile compares all trees with the rows (K1): a bundle that nobody was told of gets its row,
// one that was rejected and has another meta.json begins again. What waits for longer than any
// pause, because a clock was set, is made due. An account that cannot be compared is logged, and
// keeps no other from it. It may run anywhere, at any time.
func (in *Intake) Reconcile(ctx context.Context) error {
	return in.newReconciler().pass(ctx, 0)
}

// RunReconciler compares every 5 minutes until ctx is done: first all accounts, then those known to
// have a folder /intake whose tree has changed, and the next 20,000 of all. One instance does it
// for all.
func (in *Intake) RunReconciler(ctx context.Context) error {
	r, accounts := in.newReconciler(), 0
	var outage telemetry.Outage
	for ctx.Err() == nil {
		err := r.pass(ctx, accounts)
		if err == nil {
			accounts = accountsPass
		}
		outage.Record(ctx, in.log, "bundles could not be compared with the drive; that will be repeated", err)
		select {
		case <-time.After(reconcileEvery - rand.N(reconcileEvery/10)):
		case <-ctx.Done():
		}
	}
	return nil
}

// pass compares the intakes that are known, and those of so many more accounts; 0: of all.
func (r *reconciler) pass(ctx context.Context, accounts int) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	if err := r.compareKnown(ctx); err != nil {
		return err
	}
	if err := r.compareNext(ctx, accounts); err != nil {
		return err
	}
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE bundles SET due_at = ? WHERE state IN ('sealed', 'running') AND due_at > ?", now, now.Add(2*maxPause))
		return err
	})
	r.Wake()
	return err
}

// compareKnown compares the intakes that are known, and forgets those of accounts that are gone.
func (r *reconciler) compareKnown(ctx context.Context) error {
	known := make([]any, 0, len(r.seen))
	for account := range r.seen {
		known = append(known, account)
	}
	for part := range slices.Chunk(known, comparePage) {
		page, err := r.intakes(ctx, "WHERE account_id IN ("+sqldb.Placeholders(len(part))+")", part...)
		if err != nil {
			return err
		}
		there := map[drive.AccountID]bool{}
		for _, one := range page {
			there[one.account] = true
			if err := r.compareOrLog(ctx, one); err != nil {
				return err
			}
		}
		for _, account := range part {
			if account, ok := account.(drive.AccountID); ok && !there[account] {
				delete(r.seen, account)
			}
		}
	}
	return nil
}

// compareNext goes on with all accounts where the last pass ended; after the last of them it begins
// again with the next pass.
func (r *reconciler) compareNext(ctx context.Context, accounts int) error {
	for looked := 0; accounts == 0 || looked < accounts; looked += comparePage {
		page, err := r.intakes(ctx, "WHERE account_id > ? ORDER BY account_id LIMIT ?", r.after, comparePage)
		if err != nil {
			return err
		}
		for _, one := range page {
			if err := r.compareOrLog(ctx, one); err != nil {
				return err
			}
			r.after = one.account.String()
		}
		if len(page) < comparePage {
			r.after = ""
			return nil
		}
	}
	return nil
}

// intake is the folder /intake of an account.
type intake struct {
	account drive.AccountID
	seq     int64        // of the tree
	folder  drive.NodeID // zero: there is none
}

func (r *reconciler) intakes(ctx context.Context, which string, args ...any) ([]intake, error) {
	rows, err := r.opt.DB.Query(ctx, `SELECT t.account_id, t.seq, i.id FROM (SELECT account_id, root_id, seq FROM trees `+which+`) AS t
		LEFT JOIN nodes i ON i.parent_id = t.root_id AND i.slot = ? AND i.type = 'folder' ORDER BY t.account_id`, append(args, bundle.Root)...)
	page, err := sqldb.Scan(rows, err, func(one *intake, scan func(...any) error) error {
		return scan(&one.account, &one.seq, &one.folder)
	})
	if err != nil {
		return nil, fmt.Errorf("look for folders /intake: %w", err)
	}
	return page, nil
}

// compareOrLog compares an intake. One that fails is logged, and tried again by the next pass: what
// is wrong in one account is no reason to compare no other. The end of ctx is an error, and so is a
// database that is away: all others would fail, too.
func (r *reconciler) compareOrLog(ctx context.Context, one intake) error {
	err := r.compareIntake(ctx, one)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if passing(err) {
		return fmt.Errorf("compare account %s: %w", one.account, err)
	}
	r.seen[one.account] = -1
	r.log.WarnContext(ctx, "the bundles of an account could not be compared with the drive; that will be repeated", "account", one.account, "error", err)
	return nil
}

// compareIntake looks at all bundles of an account, unless its tree is what it was after the last
// time. The seq was read before: what changes meanwhile raises it, and is found by the next pass.
func (r *reconciler) compareIntake(ctx context.Context, one intake) error {
	if one.folder.IsZero() {
		delete(r.seen, one.account)
		return nil
	}
	if seq, seen := r.seen[one.account]; seen && seq == one.seq {
		return nil
	}
	settled := true
	err := r.eachFolder(ctx, one.folder, func(source folder) error {
		all, err := r.adoptMissed(ctx, one.account, source)
		settled = settled && all
		return err
	})
	if err != nil {
		return err
	}
	if settled {
		r.seen[one.account] = one.seq
	} else {
		r.seen[one.account] = -1
	}
	return nil
}

// folder is a live folder in another one.
type folder struct {
	id   drive.NodeID
	name drive.Name
}

func (r *reconciler) eachFolder(ctx context.Context, parent drive.NodeID, fn func(folder) error) error {
	for after := ""; ; {
		rows, err := r.opt.DB.Query(ctx, `SELECT id, slot FROM nodes WHERE parent_id = ? AND slot > ? AND trashed_at = 0 AND type = 'folder'
			ORDER BY slot LIMIT ?`, parent, after, comparePage)
		page, err := sqldb.Scan(rows, err, func(f *folder, scan func(...any) error) error { return scan(&f.id, &f.name) })
		if err != nil {
			return fmt.Errorf("list the folders of %s: %w", parent, err)
		}
		for _, f := range page {
			if err := fn(f); err != nil {
				return err
			}
			after = string(f.name)
		}
		if len(page) < comparePage {
			return nil
		}
	}
}

// missed is a folder of a source. If it holds a meta.json that no row knows it is a bundle to be
// adopted.
type missed struct {
	folder
	meta    drive.NodeID // zero: it has none
	version drive.VersionID
	state   State           // of the row; empty: there is none
	known   drive.VersionID // the meta.json of the row
}

func (s missed) isNew() bool {
	return !s.meta.IsZero() && (s.state == "" || s.state == Rejected && s.known != s.version)
}

// waits reports whether it may become one without a change of the tree: when the row, which is of
// another meta.json, is rejected.
func (s missed) waits() bool {
	return !s.meta.IsZero() && (s.state == Sealed || s.state == Running) && s.known != s.version
}

// adoptMissed compares the folders of a source with the rows. It reads the tables of the tree:
// there is no other way to find what is missing without reading all that is there. It returns
// whether only a change of the tree can bring more.
func (r *reconciler) adoptMissed(ctx context.Context, account drive.AccountID, source folder) (settled bool, err error) {
	settled = true
	for after := ""; ; {
		page, err := r.missed(ctx, source.id, after)
		if err != nil {
			return false, fmt.Errorf("look for bundles without a row: %w", err)
		}
		for _, s := range page {
			settled = settled && !s.waits()
			if s.isNew() {
				if err := r.adopt(ctx, account, source, s); err != nil {
					return false, err
				}
			}
			after = string(s.name)
		}
		if len(page) < comparePage {
			return settled, nil
		}
	}
}

func (r *reconciler) missed(ctx context.Context, source drive.NodeID, after string) ([]missed, error) {
	rows, err := r.opt.DB.Query(ctx, `SELECT b.id, b.slot, m.id, m.version_id, COALESCE(x.state, ''), x.meta_version
		FROM (SELECT id, slot FROM nodes WHERE parent_id = ? AND slot > ? AND trashed_at = 0 AND type = 'folder' ORDER BY slot LIMIT ?) AS b
		LEFT JOIN nodes m ON m.parent_id = b.id AND m.slot = ? AND m.type = 'file'
		LEFT JOIN bundles x ON x.folder_id = b.id ORDER BY b.slot`, source, after, comparePage, bundle.MetaName)
	return sqldb.Scan(rows, err, func(s *missed, scan func(...any) error) error {
		return scan(&s.id, &s.name, &s.meta, &s.version, &s.state, &s.known)
	})
}

// adopt makes the row of a bundle, if the bundle is still what it was when it was found.
func (r *reconciler) adopt(ctx context.Context, account drive.AccountID, source folder, s missed) error {
	if _, _, ok := bundle.Find(drive.Path{bundle.Root, source.name, s.name, bundle.MetaName}); !ok {
		return nil
	}
	err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var meta tree.Node
		meta, err := r.opt.Tree.Find(ctx, tx, account, s.meta)
		if drive.IsKind(err, drive.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return r.arrivals.arrived(ctx, tx, meta)
	})
	if err != nil {
		return fmt.Errorf("record the bundle in folder %s: %w", s.id, err)
	}
	r.stats.Found.Add(1)
	r.log.WarnContext(ctx, "a bundle was found that nobody had told of", "folder", s.id)
	return nil
}
