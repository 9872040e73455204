package fsck

import (
	"context"
	"fmt"
	"strconv"

	"smartdrive/internal/base/drive"
)

// told is how far the activity log tells of a tree.
type told struct {
	account   drive.AccountID
	seq, last int64 // the tree's last change, and the last one that is told; 0: none is
}

// checkActivity looks whether the activity log ends with the last change of each tree (E1). Both
// are read by one statement. One that tells of none was made before the log was, or nothing has
// changed for as long as entries are kept.
func (p *pass) checkActivity(ctx context.Context) error {
	const page = 200
	const query = `SELECT t.account_id, t.seq, COALESCE((SELECT a.seq FROM activity a WHERE a.account_id = t.account_id AND a.seq > 0
		ORDER BY a.id DESC LIMIT 1), 0) FROM trees t WHERE t.account_id > ? ORDER BY t.account_id LIMIT ?`
	err := each(ctx, p, query, page, func(t *told, scan func(...any) error) error { return scan(&t.account, &t.seq, &t.last) },
		func(t told) any { return t.account },
		func(t told) error {
			if t.last == 0 || t.last == t.seq {
				return nil
			}
			return p.found(ctx, defect{Finding: Finding{
				Invariant: "E1", Subject: "activity of account " + t.account.String(),
				Expected: strconv.FormatInt(t.seq, 10), Found: strconv.FormatInt(t.last, 10),
			}})
		})
	if err != nil {
		return fmt.Errorf("check the activity log: %w", err)
	}
	return nil
}
