package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Parts are the components that notifications use.
type Parts struct {
	DB      *sqldb.DB
	Notices *notice.Notices
	Access  *access.Access
	Users   *account.Users
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Log     *activity.Log    // notifies the pages of recipients
	Now     func() time.Time // default time.Now
}

// Notifier creates notices from causes. It is safe for concurrent use.
type Notifier struct {
	parts      Parts
	mails      bool
	ledgerScan ledgerScan
	roleScan   roleScan
	limiter    *makerLimiter
}

// NewNotifier returns a Notifier. mails reports whether a mail server is configured; without one,
// no mail is scheduled.
func NewNotifier(parts Parts, mails bool) *Notifier {
	if parts.Now == nil {
		parts.Now = time.Now
	}
	return &Notifier{parts: parts, mails: mails, roleScan: roleScan{maxPeople: peoplePerCall}, limiter: newMakerLimiter()}
}

// now returns the current time of Parts.Now.
func (t *Notifier) now() drive.Time { return drive.TimeOf(t.parts.Now()) }

// Consumers returns the stream consumers that create notices. Records of exports and uploads from
// before the first start are skipped.
func (t *Notifier) Consumers() []stream.Consumer {
	return []stream.Consumer{
		{Name: "notices", Topic: stream.TopicNotices, Handle: t.onDue},
		{Name: "notices-exports", Topic: stream.TopicExports, Handle: t.onExport, Start: stream.FromEnd},
		{Name: "notices-uploads", Topic: stream.TopicUploads, Handle: t.onUpload, Start: stream.FromEnd},
	}
}

// onDue notifies the recipients of the cause that the record r carries. The record may be delivered
// again: the ids of notices prevent duplicates.
func (t *Notifier) onDue(ctx context.Context, r stream.Record) error {
	c, id, err := notice.CauseOf(r)
	if err != nil {
		return err
	}
	if c.Kind == notice.Webhook { // visible to the managers of the webhook's account
		if c.Node, err = t.parts.Tree.Root(ctx, t.parts.DB, c.Account); err != nil {
			return err
		}
	}
	return t.notify(ctx, id, c, r.Time)
}

// onExport notifies the user who requested an export that it is ready, late, about to end or
// failed. Other records, and an export that is gone, do nothing.
func (t *Notifier) onExport(ctx context.Context, r stream.Record) error {
	what, ok := map[stream.Type]notice.Event{
		stream.ExportSealed: notice.Ready, stream.ExportFailed: notice.Failed, stream.ExportEnding: notice.Ending, stream.ExportLate: notice.Late,
	}[r.Type]
	if !ok {
		return nil
	}
	var e struct {
		Export  drive.ExportID `json:"export"`
		Name    string         `json:"name"`
		Failed  int64          `json:"failed"`
		Expires drive.Time     `json:"expires_at"`
		Error   string         `json:"error"`
	}
	if err := json.Unmarshal(r.Data, &e); err != nil {
		return fmt.Errorf("read the record of an export: %w", err)
	}
	c := notice.Cause{Kind: notice.Export, What: what, Account: r.Key, Data: notice.Data{
		Name: e.Name, Export: e.Export, Failed: e.Failed, Expires: e.Expires, Reason: e.Error,
	}}
	err := t.parts.DB.QueryRow(ctx, "SELECT user_id FROM exports WHERE id = ?", e.Export).Scan(&c.User)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find who asked for export %s: %w", e.Export, err)
	}
	return t.notify(ctx, notice.ID(r.ID), c, r.Time)
}

// collectWindow is the period in which files that arrive by one collect link cause one notice.
const collectWindow = time.Hour

// onUpload notifies the creator of a collect link that files have arrived, once per link and hour.
// Other records, and uploads without a collect link, do nothing.
func (t *Notifier) onUpload(ctx context.Context, r stream.Record) error {
	if r.Type != stream.UploadDone {
		return nil
	}
	c := notice.Cause{Kind: notice.Collect, What: notice.Arrived}
	err := t.parts.DB.QueryRow(ctx, `SELECT l.id, l.user_id, l.account_id, l.folder_id FROM collected c JOIN collects l ON l.id = c.collect_id
		WHERE c.upload_id = ?`, r.Subject).Scan(&c.Data.Subject, &c.User, &c.Account, &c.Node)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the collect link of upload %s: %w", r.Subject, err)
	}
	hour := drive.TimeOf(r.Time.Std().Truncate(collectWindow))
	return t.notify(ctx, notice.DerivedID(hour, "collect", c.Data.Subject), c, r.Time)
}

// membersPage is how many group members one statement reads.
const membersPage = 500

// notify inserts notices for the recipients of a cause. It may be repeated with the same id without
// duplicates. After an error some recipients may have theirs.
func (t *Notifier) notify(ctx context.Context, id notice.ID, c notice.Cause, at drive.Time) error {
	_, err := t.notifyAll(ctx, id, c, at)
	return err
}

// notifyAll inserts notices for the recipients of a cause and returns how many it has notified,
// also with an error. It may be repeated with the same id without duplicates.
func (t *Notifier) notifyAll(ctx context.Context, id notice.ID, c notice.Cause, at drive.Time) (people int, err error) {
	switch {
	case !c.User.IsZero():
		return 1, t.notifyUser(ctx, id, c, c.User)
	case len(c.Users) > 0:
		for _, user := range c.Users {
			if err := t.notifyUser(ctx, id, c, user); err != nil {
				return people, err
			}
			people++
		}
		return people, nil
	}
	return t.notifyGroup(ctx, id, c, at)
}

// notifyGroup notifies the members of a group, within the limits of the maker: one by one, by an
// hourly summary, or not at all. It returns the number of members, 0 if suppressed.
func (t *Notifier) notifyGroup(ctx context.Context, id notice.ID, c notice.Cause, at drive.Time) (members int, err error) {
	maker, hour := makerKey(c), min(at, t.now()) // a role that expires later counts for the current hour
	how := t.limiter.modeFor(maker, hour, c.Group)
	if how == suppressed {
		return 0, nil
	}
	err = t.eachMember(ctx, c.Group, at, func(user drive.UserID) error {
		members++
		if how == individual {
			return t.notifyUser(ctx, id, c, user)
		}
		return t.notifySummary(ctx, c, hour, user)
	})
	if err == nil || how == individual {
		t.limiter.record(maker, hour, c.Group, how, members)
	}
	return members, err
}

// eachMember calls each for the users who have been in a group since at or longer, page by page. It
// stops at the first error.
func (t *Notifier) eachMember(ctx context.Context, group drive.GroupID, at drive.Time, each func(drive.UserID) error) error {
	for after := ""; ; {
		rows, err := t.parts.DB.Query(ctx, `SELECT user_id FROM group_members WHERE group_id = ? AND user_id > ? AND created_at <= ?
			ORDER BY user_id LIMIT ?`, group, after, at, membersPage)
		all, err := sqldb.Scan(rows, err, func(u *drive.UserID, scan func(...any) error) error { return scan(u) })
		if err != nil {
			return fmt.Errorf("list whom of group %s to tell: %w", group, err)
		}
		for _, user := range all {
			if err := each(user); err != nil {
				return err
			}
			after = user.String()
		}
		if len(all) < membersPage {
			return nil
		}
	}
}

const (
	mailDelay       = 2 * time.Minute  // notices within it go into one mail
	minMailInterval = 15 * time.Minute // between two mails to a user
)

// notifyUser notifies one user, unless the user caused the event, has the notice, has turned the
// kind off, or is not affected.
func (t *Notifier) notifyUser(ctx context.Context, id notice.ID, c notice.Cause, user drive.UserID) error {
	return t.notifyAs(ctx, c, user, id, c)
}

// notifySummary notifies one user that there are more changes than notices. Calls within one hour
// insert one notice.
func (t *Notifier) notifySummary(ctx context.Context, c notice.Cause, at drive.Time, user drive.UserID) error {
	id, more := summaryOf(c, at)
	return t.notifyAs(ctx, c, user, id, more)
}

// notifyAs notifies one user of cause c with a notice made from cause as. It does nothing for the
// user who made the change, for one who is deleted, and for a kind that the user has turned off.
func (t *Notifier) notifyAs(ctx context.Context, c notice.Cause, user drive.UserID, id notice.ID, as notice.Cause) error {
	if user == c.By {
		return nil
	}
	u, err := t.parts.Users.Find(ctx, t.parts.DB, user)
	if drive.IsKind(err, drive.NotFound) || err == nil && u.State == account.Deleted {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := t.parts.Notices.FindPreferences(ctx, t.parts.DB, user)
	if err != nil || p.Channels.Of(as.Kind) == notice.Off {
		return err
	}
	if told, err := t.parts.Notices.Has(ctx, t.parts.DB, user, id); err != nil || told {
		return err
	}
	who := drive.Who{User: user, Account: u.Account}
	if as.Account.IsZero() { // an action on the machine itself has no account
		as.Account = u.Account
	}
	if known, err := isRelevant(ctx, t.parts, who, c); err != nil || !known {
		return err
	}
	mail := t.mails && p.State == notice.Confirmed && p.Channels.Of(as.Kind) == notice.Mail
	return t.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := t.parts.Ledger.Lock(ctx, tx, u.Account); err != nil { // required by the log (E2)
			return err
		}
		one := notice.Notice{User: user, ID: id, Cause: as, Mail: mail}
		if isGrantChange(as) { // repeated changes of a role replace the notice
			if done, err := t.parts.Notices.Replace(ctx, tx, one); err != nil || done {
				return err
			}
		}
		made, err := t.parts.Notices.Add(ctx, tx, one)
		if err != nil || !made {
			return err
		}
		if mail {
			err := t.parts.Notices.ScheduleMail(ctx, tx, user, mailDelay, minMailInterval)
			if err != nil {
				return err
			}
		}
		return t.parts.Log.Record(tx, activity.Entry{Account: u.Account, Verb: activity.NoticeTold}, map[string]any{"notice": id, "kind": as.Kind, "what": as.What})
	})
}

// isGrantChange reports whether a cause is a role given, changed or revoked: at a node, by a share
// or in a space.
func isGrantChange(c notice.Cause) bool {
	switch c.Kind {
	case notice.Share, notice.Role, notice.Space:
		return c.What == notice.Given || c.What == notice.Changed || c.What == notice.Taken
	case notice.Group, notice.Export, notice.Collect, notice.Quota, notice.Webhook, notice.Operation:
	}
	return false
}

// isRelevant reports whether a cause affects a user: a shared node must be visible to the user and
// not in the user's own drive.
func isRelevant(ctx context.Context, parts Parts, who drive.Who, c notice.Cause) (bool, error) {
	switch c.Kind {
	case notice.Share, notice.Role, notice.Space:
		if c.Account == who.Account {
			return false, nil
		}
		if c.What == notice.Taken || c.What == notice.Ended {
			return wasEffective(ctx, parts, who, c)
		}
		pass, err := parts.Access.At(ctx, parts.DB, who, c.Node)
		if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
			return false, nil
		}
		return err == nil && mayKnow(pass), err
	case notice.Webhook, notice.Quota:
		if c.Account == who.Account {
			return true, nil
		}
		return hasRight(ctx, parts, who, c.Node, access.Manage)
	case notice.Collect:
		return hasRight(ctx, parts, who, c.Node, access.See)
	case notice.Export, notice.Group, notice.Operation:
	}
	return true, nil
}

// wasEffective reports whether a revoked or expired role had given the user anything: a group's
// role does not if the user's own role denies access.
func wasEffective(ctx context.Context, parts Parts, who drive.Who, c notice.Cause) (bool, error) {
	if c.Group.IsZero() {
		return true, nil
	}
	own, err := parts.Access.FindGrant(ctx, parts.DB, c.Node, drive.PrincipalID(who.User))
	if drive.IsKind(err, drive.NotFound) {
		return true, nil
	}
	return err == nil && own.Role.Rights() != 0, err
}

// mayKnow reports whether a pass lets its user know the node: by the right to see it, or by a role
// at the node itself, such as uploader.
func mayKnow(pass access.Pass) bool {
	return pass.Rights.Has(access.See) || pass.Rights != 0 && pass.Level == 0
}

// hasRight reports whether a user has a right at a node now. A node that is missing or hidden from
// the user is false without an error.
func hasRight(ctx context.Context, parts Parts, who drive.Who, node drive.NodeID, right access.Right) (bool, error) {
	pass, err := parts.Access.At(ctx, parts.DB, who, node)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, nil
	}
	return err == nil && pass.Rights.Has(right), err
}
