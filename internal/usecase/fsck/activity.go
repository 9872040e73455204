package fsck

import (
	"context"
	"fmt"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
)

// activityState is the last change of a tree and the last change in the activity log.
type activityState struct {
	account   drive.AccountID
	seq, last int64 // last change of the tree and last logged change; 0: none logged
}

// checkActivity checks that the activity log ends with the last change of each tree (E1). One
// statement reads both. A tree without log entries is correct: it is older than the log, or its
// entries have expired.
func (p *pass) checkActivity(ctx context.Context) error {
	const page = 200
	const query = `SELECT t.account_id, t.seq, COALESCE((SELECT a.seq FROM activity a WHERE a.account_id = t.account_id AND a.seq > 0
		ORDER BY a.id DESC LIMIT 1), 0) FROM trees t WHERE t.account_id > ? ORDER BY t.account_id LIMIT ?`
	err := each(ctx, p, query, page, func(t *activityState, scan func(...any) error) error { return scan(&t.account, &t.seq, &t.last) },
		func(t activityState) any { return t.account },
		func(t activityState) error {
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
