package fsck

import (
	"context"
	"fmt"
	"strconv"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// notified is somebody who was told something, or has said how to be told.
type notified struct {
	user    drive.UserID
	gone    bool // there is no such user, not even a deleted one
	waiting int  // notices that wait to be mailed
	wishes  bool // they have said how to be told
	state   string
	due     drive.Time // of the next mail; zero: none waits
}

func scanNotified(n *notified, scan func(...any) error) error {
	return scan(&n.user, &n.gone, &n.waiting, &n.wishes, &n.state, &n.due)
}

const (
	selectNotified = `SELECT n.user_id, u.id IS NULL, n.waiting, p.user_id IS NOT NULL, COALESCE(p.state, ''), COALESCE(p.due_at, 0)
		FROM (SELECT user_id, SUM(mail) AS waiting FROM notices WHERE user_id > ? GROUP BY user_id ORDER BY user_id LIMIT ?) n
		LEFT JOIN users u ON u.id = n.user_id LEFT JOIN notice_people p ON p.user_id = n.user_id ORDER BY n.user_id`
	selectWishes = `SELECT p.user_id, u.id IS NULL, 0, 1, p.state, p.due_at FROM notice_people p LEFT JOIN users u ON u.id = p.user_id
		WHERE p.user_id > ? ORDER BY p.user_id LIMIT ?`
)

// toldTo are the checks of what people are told.
type toldTo struct{ *pass }

// checkNotices looks whether whoever is told something is there, and whether notices that wait to
// be mailed have somewhere to go and a mail that they go with (E4). Those of a deleted user stay
// until the user is purged.
func (p toldTo) checkNotices(ctx context.Context) error {
	const page = 50 // of up to 1,000 notices each
	return p.checkNotified(ctx, selectNotified, page)
}

// checkWishes looks whether those are there who have said how they want to be told.
func (p toldTo) checkWishes(ctx context.Context) error {
	const page = 500
	return p.checkNotified(ctx, selectWishes, page)
}

func (p toldTo) checkNotified(ctx context.Context, query string, page int) error {
	err := each(ctx, p.pass, query, page, scanNotified, func(n notified) any { return n.user }, func(n notified) error {
		switch {
		case n.gone:
			return p.found(ctx, n.ofNobody())
		case n.waiting > 0 && !n.wishes:
			return p.found(ctx, n.stuck("no address", `UPDATE notices SET mail = 0 WHERE user_id = ? AND mail = 1
				AND NOT EXISTS (SELECT 1 FROM notice_people WHERE notice_people.user_id = ?)`, n.user, n.user.String()))
		case n.waiting > 0 && n.state == "confirmed" && n.due == 0:
			return p.found(ctx, n.stuck("no mail to go with", `UPDATE notice_people SET due_at = ? WHERE user_id = ? AND due_at = 0
				AND state = 'confirmed'`, p.now(), n.user))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check notices: %w", err)
	}
	return nil
}

// ofNobody is the defect that somebody is told something who is not there.
func (n notified) ofNobody() defect {
	return defect{
		Finding: Finding{Invariant: "E4", Subject: "notices of user " + n.user.String(), Expected: "a user", Found: "no such user"},
		fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			for _, table := range []string{"notices", "notice_people"} {
				changed, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE user_id = ? AND NOT EXISTS (SELECT 1 FROM users WHERE id = ?)", n.user, n.user.String())
				if err != nil {
					return false, err
				}
				f.Repaired = f.Repaired || changed > 0
			}
			return f.Repaired, nil
		},
	}
}

// stuck is the defect that notices wait for a mail that never goes out.
func (n notified) stuck(why, fix string, args ...any) defect {
	return defect{
		Finding: Finding{
			Invariant: "E4", Subject: "notices of user " + n.user.String(), Expected: "none that wait in vain",
			Found: strconv.Itoa(n.waiting) + " that wait to be mailed, and " + why,
		},
		fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			changed, err := tx.Exec(ctx, fix, args...)
			f.Repaired = changed > 0
			return f.Repaired, err
		},
	}
}
