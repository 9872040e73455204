package ingest

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/intake/bundle"
)

// bundleRecorder writes the row of a bundle when its manifest, meta.json, appears in the tree.
type bundleRecorder struct{ *core }

// Arrived is the hook that the tree calls within tx for each node that becomes visible. If the node
// is the manifest of a bundle, or the folder of one with a manifest, Arrived records the bundle, so
// that a worker processes it after the commit. It checks the node's name before it reads anything,
// so that other nodes cost nothing. After an error the caller must roll tx back.
func (in *Intake) Arrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	return in.arrivals.arrived(ctx, tx, n)
}

// arrived handles a node that tx has placed: it writes the row of a bundle if the node is a
// meta.json in a bundle's folder, or a folder that contains one. Other nodes change nothing. An
// error fails the placing transaction.
func (in *bundleRecorder) arrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	if n.IsFolder() {
		return in.arrivedFolder(ctx, tx, n)
	}
	if n.Name != bundle.MetaName {
		return nil
	}
	path, live, err := in.opt.Tree.PathOf(ctx, tx, n.ID)
	if err != nil || !live {
		return err
	}
	return in.seal(ctx, tx, n, path)
}

// arrivedFolder records a bundle whose folder was moved or restored as a whole. It ignores a folder
// that contains several bundles; the reconciler finds those. An error fails the transaction.
func (in *bundleRecorder) arrivedFolder(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	if _, _, ok := bundle.Find(drive.Path{bundle.Root, "x", n.Name, bundle.MetaName}); !ok {
		return nil
	}
	path, live, err := in.opt.Tree.PathOf(ctx, tx, n.ID)
	if err != nil || !live || len(path) != 3 {
		return err
	}
	meta, there, err := in.opt.Tree.Child(ctx, tx, n.Account, n.ID, bundle.MetaName)
	if err != nil || !there {
		return err
	}
	return in.seal(ctx, tx, meta, append(path, bundle.MetaName))
}

// seal records a bundle within tx, if path is the path of a bundle's meta.json (K1); otherwise it
// does nothing. It inserts the bundle's row, or resets one that is not Done and was sealed by
// another version of meta.json. A Done bundle stays unchanged. It publishes the event that wakes a
// worker. An error fails the transaction.
func (in *bundleRecorder) seal(ctx context.Context, tx *sqldb.Tx, meta tree.Node, path drive.Path) error {
	source, id, ok := bundle.Find(path)
	if !ok || meta.IsFolder() {
		return nil
	}
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	b, err := in.find(ctx, tx, "WHERE folder_id = ?"+tx.ForUpdate(), meta.Parent)
	switch {
	case err == nil && (b.State == Done || b.Version == meta.Version):
		return nil
	case err == nil:
		b.Source, b.SenderID, b.Meta, b.Version = source, id, meta.ID, meta.Version
		err = in.reset(ctx, tx, b, now)
	case drive.IsKind(err, drive.NotFound):
		b = row{
			ID: drive.NewID[drive.BundleID](), Account: meta.Account, Source: source, SenderID: id, Folder: meta.Parent, Meta: meta.ID,
			Version: meta.Version,
		}
		err = in.insert(ctx, tx, b, now)
	}
	if err != nil {
		return fmt.Errorf("record the bundle in folder %s: %w", meta.Parent, err)
	}
	return in.announce(ctx, tx, b)
}

// insert inserts the row of a new bundle in state sealed. If another transaction inserted one for
// the same folder, insert returns an error that makes the transaction run again.
func (in *bundleRecorder) insert(ctx context.Context, tx *sqldb.Tx, b row, now drive.Time) error {
	made, err := tx.InsertNew(ctx, `INSERT INTO bundles (id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail,
		worker, due_at, sealed_at, waits_until) VALUES (?, ?, ?, ?, ?, ?, ?, 'sealed', '', '', '', ?, ?, ?)`,
		b.ID, b.Account, b.Source, b.SenderID, b.Folder, b.Meta, b.Version, now, now, now.Add(in.opt.Wait))
	if err == nil && !made {
		err = sqldb.Rerun(errors.New("the bundle's row has come"))
	}
	return err
}

// reset puts a bundle back to state sealed with zero counts. The new epoch fences its current
// worker. The next worker deletes the members and records of the previous attempt.
func (in *bundleRecorder) reset(ctx context.Context, tx *sqldb.Tx, b row, now drive.Time) error {
	_, err := tx.Exec(ctx, `UPDATE bundles SET source = ?, sender_id = ?, meta_id = ?, meta_version = ?, state = 'sealed', reason = '', detail = '',
		declared = 0, accepted = 0, rejected = 0, duplicates = 0, conflicts = 0, surplus = 0, members = 0, size = 0, checked = 0,
		save_member = 0, save_index = 0, epoch = epoch + 1, tries = 0, due_at = ?, waits_until = ?, ended_at = 0 WHERE id = ?`,
		b.Source, b.SenderID, b.Meta, b.Version, now, now.Add(in.opt.Wait), b.ID)
	return err
}

// announce wakes a worker of this process after the commit and publishes the event BundleSealed, if
// Options.Events is set. An error fails the transaction.
func (in *bundleRecorder) announce(ctx context.Context, tx *sqldb.Tx, b row) error {
	tx.AfterCommit(in.Wake)
	if in.opt.Events == nil {
		return nil
	}
	record, err := stream.New(stream.TopicBundles, stream.BundleSealed, b.Account, b.ID.String(), nil)
	if err != nil {
		return err
	}
	return in.opt.Events.Append(ctx, tx, record)
}

// Consumer returns a stream consumer that wakes a worker of this process for each event
// BundleSealed. A duplicate, late or lost event only changes when a worker polls.
func (in *Intake) Consumer() stream.Consumer {
	return stream.Consumer{
		Name: ConsumerName, Topic: stream.TopicBundles, Start: stream.FromEnd,
		Handle: func(context.Context, stream.Record) error { in.Wake(); return nil },
	}
}

// ConsumerName is the name of Consumer's cursor.
const ConsumerName = "ingest"

// Subscription returns the subscription of Consumer, for a broker that must create topics in
// advance.
func Subscription() stream.Subscription {
	return stream.Subscription{Consumer: ConsumerName, Topic: stream.TopicBundles, Start: stream.FromEnd}
}
