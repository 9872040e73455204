package ingest

import (
	"context"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/intake/bundle"
)

// arrivals record the bundles that come to be seen.
type arrivals struct{ *ground }

// Arrived is told by the tree of each node that comes to be seen, in the transaction that makes it
// so. It looks at names first, so that it costs nothing for all nodes that have nothing to do with
// bundles.
func (in *Intake) Arrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	return in.arrivals.arrived(ctx, tx, n)
}

func (in *arrivals) arrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
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

// arrivedFolder sees to a bundle that was moved or restored as a whole. Folders of several are the
// reconciler's.
func (in *arrivals) arrivedFolder(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
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

// seal writes the row of a bundle, and the record that wakes a worker, if path is that of a
// meta.json (K1). A bundle that was rejected or is not done starts again with another meta.json;
// one that is done stays as it is.
func (in *arrivals) seal(ctx context.Context, tx *sqldb.Tx, meta tree.Node, path drive.Path) error {
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

func (in *arrivals) insert(ctx context.Context, tx *sqldb.Tx, b row, now drive.Time) error {
	made, err := tx.InsertNew(ctx, `INSERT INTO bundles (id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail,
		worker, due_at, sealed_at, waits_until) VALUES (?, ?, ?, ?, ?, ?, ?, 'sealed', '', '', '', ?, ?, ?)`,
		b.ID, b.Account, b.Source, b.SenderID, b.Folder, b.Meta, b.Version, now, now, now.Add(in.opt.Wait))
	if err == nil && !made {
		err = sqldb.Rerun(errors.New("the bundle's row has come"))
	}
	return err
}

// reset lets a bundle start again. Whoever works on it is fenced; what it has recorded is dropped
// by the next worker.
func (in *arrivals) reset(ctx context.Context, tx *sqldb.Tx, b row, now drive.Time) error {
	_, err := tx.Exec(ctx, `UPDATE bundles SET source = ?, sender_id = ?, meta_id = ?, meta_version = ?, state = 'sealed', reason = '', detail = '',
		declared = 0, accepted = 0, rejected = 0, duplicates = 0, conflicts = 0, surplus = 0, members = 0, size = 0, checked = 0,
		save_member = 0, save_index = 0, epoch = epoch + 1, tries = 0, due_at = ?, waits_until = ?, ended_at = 0 WHERE id = ?`,
		b.Source, b.SenderID, b.Meta, b.Version, now, now.Add(in.opt.Wait), b.ID)
	return err
}

// announce publishes that a bundle is due.
func (in *arrivals) announce(ctx context.Context, tx *sqldb.Tx, b row) error {
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

// Consumer acts on the records of sealed bundles: it wakes a worker of the process that reads one.
// A record that comes twice, late or never changes nothing but when a worker looks.
func (in *Intake) Consumer() stream.Consumer {
	return stream.Consumer{
		Name: ConsumerName, Topic: stream.TopicBundles, Start: stream.FromEnd,
		Handle: func(context.Context, stream.Record) error { in.Wake(); return nil },
	}
}

// ConsumerName names the cursor of Consumer.
const ConsumerName = "ingest"

// Subscription is that of Consumer, for a broker that makes its topics.
func Subscription() stream.Subscription {
	return stream.Subscription{Consumer: ConsumerName, Topic: stream.TopicBundles, Start: stream.FromEnd}
}
