package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/bundle"
)

// Read limits of the reconciler.
const (
	comparePage  = 1000   // rows per statement, which takes some ms
	accountsPass = 20_000 // accounts per pass that are checked for a new folder /intake; takes 100 ms
)

// reconciler finds bundles that have no row, because their arrival was not reported. It keeps its
// progress in memory: after a restart it checks all accounts once, at 5 µs each; later passes only
// cost what has changed.
//
//	seen   accounts with a folder /intake, and the seq of their tree at the last complete comparison: if the tree
//	       still has that seq, there is nothing to find; -1: the comparison was incomplete
//	after  cursor: accounts up to this one were checked for a folder /intake in this round
type reconciler struct {
	*core
	arrivals *bundleRecorder
	seen     map[drive.AccountID]int64
	after    string
}

// newReconciler returns a reconciler without progress, which checks all accounts in its first
// round.
func (in *Intake) newReconciler() *reconciler {
	return &reconciler{core: in.core, arrivals: in.arrivals, seen: map[drive.AccountID]int64{}}
}

// Reconcile compares the trees of all accounts with the rows of bundles (K1). It inserts missing
// rows, and restarts rejected bundles that have a new meta.json. Bundles whose due time is further
// away than any backoff, because a clock was set, become due now. If the comparison of one account
// fails, Reconcile logs the error and continues with the next account. It is safe to run
// concurrently on any instance.
func (in *Intake) Reconcile(ctx context.Context) error {
	return in.newReconciler().pass(ctx, 0)
}

// RunReconciler makes a pass every 5 minutes until ctx is done, and then returns nil. The first
// pass checks all accounts. Later passes check the accounts known to have a folder /intake, if
// their tree has changed, and the next 20,000 accounts of all. It is enough for one instance to run
// it.
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

// pass compares the trees of the accounts with a known folder /intake, and of the next accounts
// accounts of the round over all (0: all). It also makes bundles due whose due time is further away
// than any backoff. At the end it wakes the workers. An error ends the pass; the next one
// continues.
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

// compareKnown compares the accounts with a known folder /intake, and evicts accounts that no
// longer exist. It fails with the error of a query.
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

// compareNext continues the round over all accounts, for at least the given number of accounts; 0:
// to its end. The call after the end begins a new round. It fails with the error of a query; the
// round then continues at the same account.
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
	seq     int64        // seq of the account's tree
	folder  drive.NodeID // zero: there is no such folder
}

// intakes returns the folders /intake of the accounts that a WHERE clause selects from trees. An
// account without the folder has a zero folder.
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

// compareOrLog compares one account. If that fails, it logs the error, marks the account for the
// next pass, and returns nil. It returns an error only if ctx is done or a component is
// unavailable, because all other accounts would fail, too.
func (r *reconciler) compareOrLog(ctx context.Context, one intake) error {
	err := r.compareIntake(ctx, one)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if isTransient(err) {
		return fmt.Errorf("compare account %s: %w", one.account, err)
	}
	r.seen[one.account] = -1
	r.log.WarnContext(ctx, "the bundles of an account could not be compared with the drive; that will be repeated", "account", one.account, "error", err)
	return nil
}

// compareIntake compares all folders of an account's sources with the rows of bundles, and records
// missing bundles. It does nothing if the tree has the same seq as at the last complete comparison.
// The seq was read before the comparison, so that a concurrent change raises it and is found by the
// next pass. It fails with the error of a query.
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

// folder is a visible folder within another one.
type folder struct {
	id   drive.NodeID
	name drive.Name
}

// eachFolder calls fn for each visible subfolder of parent, in the order of names, until fn fails.
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

// missed is a subfolder of a source's folder, with its manifest and its row, if any.
type missed struct {
	folder
	meta    drive.NodeID // the node of meta.json; zero: there is none
	version drive.VersionID
	state   State           // state of the row; empty: there is no row
	known   drive.VersionID // version of meta.json that the row was sealed by
}

// isNew reports whether the folder contains a manifest that must be sealed: it has no row, or a
// rejected row of another version.
func (s missed) isNew() bool {
	return !s.meta.IsZero() && (s.state == "" || s.state == Rejected && s.known != s.version)
}

// waits reports whether the folder may become new without a change of the tree: its row belongs to
// another version of meta.json and is still running.
func (s missed) waits() bool {
	return !s.meta.IsZero() && (s.state == Sealed || s.state == Running) && s.known != s.version
}

// adoptMissed compares the subfolders of a source with the rows of bundles, and records the missing
// ones. It joins the tables of the tree, because any other way would read all nodes. settled
// reports that only a change of the tree can add work; it is false while a running bundle has a
// newer meta.json. It fails with the error of a query or of a transaction.
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

// missed returns the next page of subfolders of a source, after a name. An empty page means that
// there are no more.
func (r *reconciler) missed(ctx context.Context, source drive.NodeID, after string) ([]missed, error) {
	rows, err := r.opt.DB.Query(ctx, `SELECT b.id, b.slot, m.id, m.version_id, COALESCE(x.state, ''), x.meta_version
		FROM (SELECT id, slot FROM nodes WHERE parent_id = ? AND slot > ? AND trashed_at = 0 AND type = 'folder' ORDER BY slot LIMIT ?) AS b
		LEFT JOIN nodes m ON m.parent_id = b.id AND m.slot = ? AND m.type = 'file'
		LEFT JOIN bundles x ON x.folder_id = b.id ORDER BY b.slot`, source, after, comparePage, bundle.MetaName)
	return sqldb.Scan(rows, err, func(s *missed, scan func(...any) error) error {
		return scan(&s.id, &s.name, &s.meta, &s.version, &s.state, &s.known)
	})
}

// adopt records the bundle in a folder, and counts and logs that. If the folder's name is no bundle
// id, or meta.json no longer exists, it records nothing. It fails with the error of its
// transaction.
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
	r.log.WarnContext(ctx, "bundle found without an event; it is imported now", "folder", s.id)
	return nil
}
