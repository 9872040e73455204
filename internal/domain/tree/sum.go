package tree

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Sum is what lies below a folder, the trash apart.
type Sum struct {
	Files, Folders int64
	Size           drive.ByteSize // of the current versions
	More           bool           // there is more than what was looked at
}

// SumBelow adds up what lies below a folder; of one in the trash, what was in it. It looks at up to
// limit nodes, level by level.
func SumBelow(ctx context.Context, q sqldb.Querier, folder drive.NodeID, limit int) (s Sum, err error) {
	type row struct {
		id   drive.NodeID
		typ  Type
		size drive.ByteSize
	}
	for todo := []drive.NodeID{folder}; len(todo) > 0; {
		args := make([]any, 0, walkWidth+1)
		for _, id := range todo[:min(len(todo), walkWidth)] {
			args = append(args, id)
		}
		todo = todo[len(args):]
		left := limit - int(s.Files+s.Folders)
		rows, err := q.Query(ctx, `SELECT n.id, n.type, COALESCE(v.size, 0) FROM nodes n LEFT JOIN versions v ON v.id = n.version_id
			WHERE n.parent_id IN (`+sqldb.Marks(len(args))+`) AND n.trashed_at = 0 LIMIT ?`, append(args, left+1)...)
		found, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.typ, &r.size) })
		if err != nil {
			return Sum{}, fmt.Errorf("add up folder %s: %w", folder, err)
		}
		if s.More = len(found) > left; s.More {
			found = found[:left]
		}
		for _, r := range found {
			if r.typ != TypeFolder {
				s.Files, s.Size = s.Files+1, s.Size+r.size
				continue
			}
			s.Folders, todo = s.Folders+1, append(todo, r.id)
		}
		if s.More {
			return s, nil
		}
	}
	return s, nil
}
