package ingest

import (
	"context"
	"fmt"

	"smartdrive/internal/bundle"
	"smartdrive/internal/drive"
	"smartdrive/internal/sqldb"
	"smartdrive/internal/tree"
)

// strayPage is how many bundles without a row one statement finds.
const strayPage = 500

// stray is a meta.json that no row knows.
type stray struct {
	folder  drive.NodeID
	account drive.AccountID
	meta    drive.NodeID
	source  drive.Name
	id      drive.Name
}

// Reconcile compares the tree with the rows (K1): a bundle that nobody was told of gets its row, one that was rejected and has another
// meta.json begins anew. What waits for longer than any pause, because a clock was set, is made due. It may run anywhere, at any time.
func (in *Intake) Reconcile(ctx context.Context) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	for after := ""; ; {
		found, err := in.strays(ctx, after)
		if err != nil {
			return fmt.Errorf("look for bundles without a row: %w", err)
		}
		for _, s := range found {
			if err := in.adopt(ctx, s); err != nil {
				return err
			}
			after = s.folder.String()
		}
		if len(found) < strayPage {
			break
		}
	}
	err = in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE bundles SET due_at = ? WHERE state IN ('sealed', 'running') AND due_at > ?", now, now.Add(2*maxPause))
		return err
	})
	in.Wake()
	return err
}

// strays finds live meta.json files of bundles that have no row, or were rejected under another one. It reads the tables of the tree:
// there is no other way to find what is missing without reading all that is there.
func (in *Intake) strays(ctx context.Context, after string) ([]stray, error) {
	rows, err := in.opt.DB.Query(ctx, `SELECT b.id, b.account_id, m.id, s.name, b.name FROM trees t
		JOIN nodes i ON i.parent_id = t.root_id AND i.slot = ? AND i.type = 'folder'
		JOIN nodes s ON s.parent_id = i.id AND s.trashed_at = 0 AND s.type = 'folder'
		JOIN nodes b ON b.parent_id = s.id AND b.trashed_at = 0 AND b.type = 'folder'
		JOIN nodes m ON m.parent_id = b.id AND m.slot = ? AND m.type = 'file'
		LEFT JOIN bundles x ON x.folder_id = b.id
		WHERE b.id > ? AND (x.id IS NULL OR x.state = 'rejected' AND x.meta_version <> m.version_id) ORDER BY b.id LIMIT ?`,
		bundle.Root, bundle.MetaName, after, strayPage)
	return sqldb.Scan(rows, err, func(s *stray, scan func(...any) error) error {
		return scan(&s.folder, &s.account, &s.meta, &s.source, &s.id)
	})
}

// adopt makes the row of a bundle, if the bundle is still what it was when it was found.
func (in *Intake) adopt(ctx context.Context, s stray) error {
	if _, _, ok := bundle.Find(drive.Path{bundle.Root, s.source, s.id, bundle.MetaName}); !ok {
		return nil
	}
	err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var meta tree.Node
		meta, err := in.opt.Tree.Find(ctx, tx, s.account, s.meta)
		if drive.IsKind(err, drive.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return in.Arrived(ctx, tx, meta)
	})
	if err != nil {
		return fmt.Errorf("record the bundle in folder %s: %w", s.folder, err)
	}
	in.stats.Found.Add(1)
	in.log.WarnContext(ctx, "a bundle was found that nobody had told of", "folder", s.folder)
	return nil
}
