package tree

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Mark sums up a live folder with all that is live below it. It changes with anything there: what
// comes or changes has the highest seq of the account then, and what goes makes fewer nodes.
type Mark struct {
	Seq   int64 // the highest
	Nodes int64 // below it
	Size  drive.ByteSize
}

func (m *Mark) add(other Mark) {
	m.Seq, m.Nodes, m.Size = max(m.Seq, other.Seq), m.Nodes+other.Nodes, m.Size+other.Size
}

// markedFolder is a folder on the way to its mark.
type markedFolder struct {
	id, parent drive.NodeID
	seq        int64
}

// Marks returns the marks of all live folders of an account. It reads the account's nodes once and
// keeps only its folders: 100,000 nodes are some 100 ms. Whoever asks often remembers them by Seq,
// which is to be read before.
func (r Reader) Marks(ctx context.Context, q sqldb.Querier, account drive.AccountID) (map[drive.NodeID]Mark, error) {
	rows, err := q.Query(ctx, "SELECT id, parent_id, seq FROM nodes WHERE account_id = ? AND type = 'folder' AND trashed_at = 0", account)
	folders, err := sqldb.Scan(rows, err, func(f *markedFolder, scan func(...any) error) error { return scan(&f.id, &f.parent, &f.seq) })
	if err != nil {
		return nil, fmt.Errorf("read the folders of %s: %w", account, err)
	}
	type direct struct {
		folder drive.NodeID
		mark   Mark
	}
	rows, err = q.Query(ctx, `SELECT n.parent_id, MAX(n.seq), COUNT(*), COALESCE(SUM(v.size), 0) FROM nodes n
		LEFT JOIN versions v ON v.id = n.version_id WHERE n.account_id = ? AND n.trashed_at = 0 GROUP BY n.parent_id`, account)
	sums, err := sqldb.Scan(rows, err, func(d *direct, scan func(...any) error) error {
		return scan(&d.folder, &d.mark.Seq, &d.mark.Nodes, &d.mark.Size)
	})
	if err != nil {
		return nil, fmt.Errorf("sum up the folders of %s: %w", account, err)
	}
	marks := make(map[drive.NodeID]Mark, len(folders))
	below := make(map[drive.NodeID][]drive.NodeID, len(folders))
	var top drive.NodeID
	for _, f := range folders {
		marks[f.id] = Mark{Seq: f.seq}
		below[f.parent] = append(below[f.parent], f.id)
		if f.parent.IsZero() {
			top = f.id
		}
	}
	for _, s := range sums {
		if m, ok := marks[s.folder]; ok {
			m.add(s.mark)
			marks[s.folder] = m
		}
	}
	fold(marks, below, top)
	return marks, nil
}

// MarkOf is the mark of one live node and of what is live below it, without its size. It reads all
// of that: some 100 ms for 100,000 nodes.
func (r Reader) MarkOf(ctx context.Context, q sqldb.Querier, id drive.NodeID) (m Mark, err error) {
	err = q.QueryRow(ctx, `WITH RECURSIVE sub (id, seq, levels) AS (
			SELECT id, seq, 0 FROM nodes WHERE id = ? AND trashed_at = 0
			UNION ALL
			SELECT n.id, n.seq, sub.levels + 1 FROM sub JOIN nodes n ON n.parent_id = sub.id WHERE n.trashed_at = 0 AND sub.levels < ?)
		SELECT COALESCE(MAX(seq), 0), COUNT(*) FROM sub`, id, maxClimb).Scan(&m.Seq, &m.Nodes)
	return m, wrap(err, "sum up node", id)
}

// fold adds the mark of each folder to that of the folder above it, the deepest first. What hangs
// below a folder in the trash is not reached, and nobody asks for it.
func fold(marks map[drive.NodeID]Mark, below map[drive.NodeID][]drive.NodeID, top drive.NodeID) {
	order := []drive.NodeID{top}
	for i := 0; i < len(order); i++ {
		order = append(order, below[order[i]]...)
	}
	for _, id := range slices.Backward(order) {
		m := marks[id]
		for _, kid := range below[id] {
			m.add(marks[kid])
		}
		marks[id] = m
	}
}
