package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// Parts are what the use cases are composed of.
type Parts struct {
	DB      *sqldb.DB
	Notices *notice.Notices
	Access  *access.Access
	Users   *account.Users
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Log     *activity.Log    // wakes the pages of who was told
	Now     func() time.Time // default time.Now
}

// Teller makes notices of causes. It is safe for concurrent use.
type Teller struct {
	parts  Parts
	mails  bool
	ledger sweep
	roles  rolesLook
	pace   *pace
}

// NewTeller returns a Teller; mails says that there is a server for mail.
func NewTeller(parts Parts, mails bool) *Teller {
	if parts.Now == nil {
		parts.Now = time.Now
	}
	return &Teller{parts: parts, mails: mails, roles: rolesLook{most: rolesRun}, pace: newPace()}
}

func (t *Teller) now() drive.Time { return drive.TimeOf(t.parts.Now()) }

// Consumers are those of the records that somebody may have to be told of. What was published
// before the first start is told to nobody.
func (t *Teller) Consumers() []stream.Consumer {
	return []stream.Consumer{
		{Name: "notices", Topic: stream.TopicNotices, Handle: t.onDue},
		{Name: "notices-exports", Topic: stream.TopicExports, Handle: t.onExport, Start: stream.FromEnd},
		{Name: "notices-uploads", Topic: stream.TopicUploads, Handle: t.onUpload, Start: stream.FromEnd},
	}
}

func (t *Teller) onDue(ctx context.Context, r stream.Record) error {
	c, id, err := notice.CauseOf(r)
	if err != nil {
		return err
	}
	if c.Kind == notice.Webhook { // whose are seen by who manages the place
		if c.Node, err = t.parts.Tree.Root(ctx, t.parts.DB, c.Account); err != nil {
			return err
		}
	}
	return t.tell(ctx, id, c, r.Time)
}

// onExport tells who has asked for an export how it is.
func (t *Teller) onExport(ctx context.Context, r stream.Record) error {
	what, ok := map[stream.Type]notice.What{
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
	return t.tell(ctx, notice.ID(r.ID), c, r.Time)
}

// gather is the time in which files that come by one collect link are one notice.
const gather = time.Hour

// onUpload tells who has made a collect link that files have come by it.
func (t *Teller) onUpload(ctx context.Context, r stream.Record) error {
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
	hour := drive.TimeOf(r.Time.Std().Truncate(gather))
	return t.tell(ctx, notice.Named(hour, "collect", c.Data.Subject), c, r.Time)
}

// membersPage is how many members of a group are read at once.
const membersPage = 500

// tell tells those whom a cause is for. It may be repeated.
func (t *Teller) tell(ctx context.Context, id notice.ID, c notice.Cause, at drive.Time) error {
	_, err := t.tellAll(ctx, id, c, at)
	return err
}

// tellAll is tell, and returns how many people there were to tell.
func (t *Teller) tellAll(ctx context.Context, id notice.ID, c notice.Cause, at drive.Time) (people int, err error) {
	switch {
	case !c.User.IsZero():
		return 1, t.tellOne(ctx, id, c, c.User)
	case len(c.Users) > 0:
		for _, user := range c.Users {
			if err := t.tellOne(ctx, id, c, user); err != nil {
				return people, err
			}
			people++
		}
		return people, nil
	}
	return t.tellGroup(ctx, id, c, at)
}

// tellGroup tells the members of a group, as far as the maker of a cause has not caused too much.
func (t *Teller) tellGroup(ctx context.Context, id notice.ID, c notice.Cause, at drive.Time) (members int, err error) {
	maker, hour := makerOf(c), min(at, t.now()) // a role that ends in days counts for the hour in which that is told
	how := t.pace.of(maker, hour, c.Group)
	if how == nothing {
		return 0, nil
	}
	err = t.members(ctx, c.Group, at, func(user drive.UserID) error {
		members++
		if how == oneByOne {
			return t.tellOne(ctx, id, c, user)
		}
		return t.tellMore(ctx, c, hour, user)
	})
	if err == nil || how == oneByOne {
		t.pace.did(maker, hour, c.Group, how, members)
	}
	return members, err
}

// members calls each for those who were in a group at a moment, and are.
func (t *Teller) members(ctx context.Context, group drive.GroupID, at drive.Time, each func(drive.UserID) error) error {
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
	mailSoon  = 2 * time.Minute  // what happens within it is one mail
	mailPause = 15 * time.Minute // between two mails to a person
)

// tellOne tells one person, unless that is who did it, was told, does not want to be, or has
// nothing of it.
func (t *Teller) tellOne(ctx context.Context, id notice.ID, c notice.Cause, user drive.UserID) error {
	return t.tellAs(ctx, c, user, id, c)
}

// tellMore tells one person, once in the hour, that there is more than is told one by one.
func (t *Teller) tellMore(ctx context.Context, c notice.Cause, at drive.Time, user drive.UserID) error {
	id, more := moreOf(c, at)
	return t.tellAs(ctx, c, user, id, more)
}

// tellAs tells one person of a cause in the words of another one.
func (t *Teller) tellAs(ctx context.Context, c notice.Cause, user drive.UserID, id notice.ID, as notice.Cause) error {
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
	p, err := t.parts.Notices.FindPerson(ctx, t.parts.DB, user)
	if err != nil || p.Channels.Of(as.Kind) == notice.Off {
		return err
	}
	if told, err := t.parts.Notices.Has(ctx, t.parts.DB, user, id); err != nil || told {
		return err
	}
	who := drive.Who{User: user, Account: u.Account}
	if as.Account.IsZero() { // what was done on the machine itself was done in nobody's
		as.Account = u.Account
	}
	if known, err := concerns(ctx, t.parts, who, c); err != nil || !known {
		return err
	}
	mail := t.mails && p.State == notice.Confirmed && p.Channels.Of(as.Kind) == notice.Mail
	return t.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := t.parts.Ledger.Lock(ctx, tx, u.Account); err != nil { // the log asks for it (E2)
			return err
		}
		one := notice.Notice{User: user, ID: id, Cause: as, Mail: mail}
		if ofGrant(as) { // who goes to and fro with a role does not fill the list of others
			if done, err := t.parts.Notices.Replace(ctx, tx, one); err != nil || done {
				return err
			}
		}
		made, err := t.parts.Notices.Add(ctx, tx, one)
		if err != nil || !made {
			return err
		}
		if mail {
			err := t.parts.Notices.MailSoon(ctx, tx, user, mailSoon, mailPause)
			if err != nil {
				return err
			}
		}
		return t.parts.Log.Note(tx, activity.Entry{Account: u.Account, Verb: activity.NoticeTold}, map[string]any{"notice": id, "kind": as.Kind, "what": as.What})
	})
}

// ofGrant reports whether a cause is that somebody has given, changed or taken a role.
func ofGrant(c notice.Cause) bool {
	switch c.Kind {
	case notice.Share, notice.Role, notice.Space:
		return c.What == notice.Given || c.What == notice.Changed || c.What == notice.Taken
	case notice.Group, notice.Export, notice.Collect, notice.Quota, notice.Webhook, notice.Operation:
	}
	return false
}

// concerns reports whether a cause is anything to somebody: what was given has to be seen, and is
// not the person's own.
func concerns(ctx context.Context, parts Parts, who drive.Who, c notice.Cause) (bool, error) {
	switch c.Kind {
	case notice.Share, notice.Role, notice.Space:
		if c.Account == who.Account {
			return false, nil
		}
		if c.What == notice.Taken || c.What == notice.Ended {
			return missed(ctx, parts, who, c)
		}
		pass, err := parts.Access.At(ctx, parts.DB, who, c.Node)
		if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
			return false, nil
		}
		return err == nil && knows(pass), err
	case notice.Webhook, notice.Quota:
		if c.Account == who.Account {
			return true, nil
		}
		return sees(ctx, parts, who, c.Node, access.Manage)
	case notice.Collect:
		return sees(ctx, parts, who, c.Node, access.See)
	case notice.Export, notice.Group, notice.Operation:
	}
	return true, nil
}

// missed reports whether a role that was taken or has ended was anything to somebody: not that of a
// group, where one of their own shuts them out.
func missed(ctx context.Context, parts Parts, who drive.Who, c notice.Cause) (bool, error) {
	if c.Group.IsZero() {
		return true, nil
	}
	own, err := parts.Access.FindGrant(ctx, parts.DB, c.Node, drive.PrincipalID(who.User))
	if drive.IsKind(err, drive.NotFound) {
		return true, nil
	}
	return err == nil && own.Role.Rights() != 0, err
}

// knows reports whether somebody may know a node: they see it, or were given a role there, such as
// one that only adds files.
func knows(pass access.Pass) bool {
	return pass.Rights.Has(access.See) || pass.Rights != 0 && pass.Level == 0
}

// sees reports whether somebody has a right at a node now.
func sees(ctx context.Context, parts Parts, who drive.Who, node drive.NodeID, right access.Right) (bool, error) {
	pass, err := parts.Access.At(ctx, parts.DB, who, node)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, nil
	}
	return err == nil && pass.Rights.Has(right), err
}
