package fsck

import (
	"context"
	"fmt"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// recipient is a user with notifications or notification settings.
type recipient struct {
	user        drive.UserID
	gone        bool // the user does not exist, not even as deleted
	waiting     int  // notifications waiting for mail
	hasSettings bool // the user has notification settings
	state       string
	due         drive.Time // time of the next mail; zero: none
}

// scanRecipient reads a row of selectRecipients or selectSettings into n by calling scan, and
// returns the error of scan.
func scanRecipient(n *recipient, scan func(...any) error) error {
	return scan(&n.user, &n.gone, &n.waiting, &n.hasSettings, &n.state, &n.due)
}

const (
	// selectRecipients selects the users after an id who have notifications, the number of those
	// that wait for mail, and the users' settings.
	selectRecipients = `SELECT n.user_id, u.id IS NULL, n.waiting, p.user_id IS NOT NULL, COALESCE(p.state, ''), COALESCE(p.due_at, 0)
		FROM (SELECT user_id, SUM(mail) AS waiting FROM notices WHERE user_id > ? GROUP BY user_id ORDER BY user_id LIMIT ?) n
		LEFT JOIN users u ON u.id = n.user_id LEFT JOIN notice_people p ON p.user_id = n.user_id ORDER BY n.user_id`
	// selectSettings selects the users after an id who have notification settings, in the columns
	// of selectRecipients.
	selectSettings = `SELECT p.user_id, u.id IS NULL, 0, 1, p.state, p.due_at FROM notice_people p LEFT JOIN users u ON u.id = p.user_id
		WHERE p.user_id > ? ORDER BY p.user_id LIMIT ?`
)

// notifications is the pass in its steps for notifications and notification settings (E4).
type notifications struct{ *pass }

// checkNotices checks that recipients exist, and that notifications waiting for mail have an
// address and a scheduled mail (E4). Notifications of a deleted user stay until the user is purged.
func (p notifications) checkNotices(ctx context.Context) error {
	const page = 50 // each row counts up to 1,000 notifications
	return p.checkRecipients(ctx, selectRecipients, page)
}

// checkSettings is the step "wishes": it finds notification settings of users who do not exist.
func (p notifications) checkSettings(ctx context.Context) error {
	const page = 500
	return p.checkRecipients(ctx, selectSettings, page)
}

// checkRecipients finds, in the rows of query, users who do not exist and notifications that wait
// for mail that will not be sent, page rows per statement. The repairs delete or rearm them.
func (p notifications) checkRecipients(ctx context.Context, query string, page int) error {
	err := each(ctx, p.pass, query, page, scanRecipient, func(n recipient) any { return n.user }, func(n recipient) error {
		switch {
		case n.gone:
			return p.found(ctx, n.noUser())
		case n.waiting > 0 && !n.hasSettings:
			return p.found(ctx, n.stuckNotices("no address", `UPDATE notices SET mail = 0 WHERE user_id = ? AND mail = 1
				AND NOT EXISTS (SELECT 1 FROM notice_people WHERE notice_people.user_id = ?)`, n.user, n.user.String()))
		case n.waiting > 0 && n.state == "confirmed" && n.due == 0:
			return p.found(ctx, n.stuckNotices("no mail to go with", `UPDATE notice_people SET due_at = ? WHERE user_id = ? AND due_at = 0
				AND state = 'confirmed'`, p.now(), n.user))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check notices: %w", err)
	}
	return nil
}

// noUser returns the defect of notifications for a user who does not exist. The repair deletes
// them.
func (n recipient) noUser() defect {
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

// stuckNotices returns the defect of notifications waiting for a mail that is never sent because of
// why. Its repair is the statement fix.
func (n recipient) stuckNotices(why, fix string, args ...any) defect {
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
