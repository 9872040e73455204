package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/mail"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/notify"
)

// fixture is a set of users with drives, and a manual clock.
type fixture struct {
	parts  notify.Parts
	teller *notify.Notifier
	inbox  *notify.Inbox
	people map[string]drive.Who
	roots  map[string]drive.NodeID
	calls  sqldbtest.Counter // database calls

	mu  sync.Mutex
	now time.Time
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func newFixture(t *testing.T, names ...string) *fixture {
	t.Helper()
	w := newEmptyFixture()
	w.addUsers(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: w.calls.Connector}), names...)
	return w
}

func newEmptyFixture() *fixture {
	return &fixture{people: map[string]drive.Who{}, roots: map[string]drive.NodeID{}, now: time.UnixMilli(1_800_000_000_000)}
}

// addUsers creates users with drives in a database.
func (f *fixture) addUsers(t *testing.T, db *sqldb.DB, names ...string) {
	t.Helper()
	log := activity.New(activity.Options{DB: db, Now: f.clock})
	auth := account.NewAuth(db, account.Options{Now: f.clock})
	f.parts = notify.Parts{
		DB: db, Notices: notice.New(notice.Options{DB: db, Now: f.clock}), Access: access.New(access.Options{DB: db, Now: f.clock}),
		Users: account.NewUsers(db, auth, account.Options{Now: f.clock}), Tree: tree.New(tree.Options{Now: f.clock, OnEffect: log.RecordNode}), Log: log, Now: f.clock,
	}
	f.teller, f.inbox = notify.NewNotifier(f.parts, true), notify.NewInbox(f.parts, true)
	for _, name := range names {
		who := drive.Who{User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID]()}
		f.people[name] = who
		f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 1)", who.Account); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at)
				VALUES (?, ?, ?, ?, '', 0, 'active', 1, 1)`, who.User, who.Account, name, name); err != nil {
				return err
			}
			total := drive.ByteSize(1000)
			if err := (quota.Ledger{}).Create(ctx, tx, who.Account, &total); err != nil {
				return err
			}
			f.roots[name], err = f.parts.Tree.Create(ctx, tx, who.Account)
			return err
		})
	}
}

func (f *fixture) write(t *testing.T, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := f.parts.DB.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// folder creates a folder at the root of a user's drive.
func (f *fixture) folder(t *testing.T, owner, name string) (n tree.Node) {
	t.Helper()
	who := f.people[owner]
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		tx.SetActor(who)
		if err := (quota.Ledger{}).Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		n, err = f.parts.Tree.CreateFolder(ctx, tx, who.Account, tree.Place{Parent: f.roots[owner], Name: drive.Name(name)})
		return err
	})
	return n
}

// share gives a user a role that lasts for life; zero: it does not expire.
func (f *fixture) share(t *testing.T, n tree.Node, to string, life time.Duration) {
	t.Helper()
	g := access.Grant{Node: n.ID, Account: n.Account, Principal: drive.PrincipalID(f.people[to].User), Kind: access.User, Role: access.Viewer}
	if life > 0 {
		g.Expires = drive.TimeOf(f.clock()).Add(life)
	}
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.parts.Access.Grant(ctx, tx, g)
		return err
	})
}

// handle passes a record to the consumer of its topic.
func (f *fixture) handle(t *testing.T, r stream.Record, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r.Time = drive.TimeOf(f.clock())
	for _, c := range f.teller.Consumers() {
		if c.Topic == r.Topic {
			if err := c.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// noticesOf lists a user's notices, oldest first: kind.what, and the name or that it is gone.
func (f *fixture) noticesOf(t *testing.T, name string) (all []string) {
	t.Helper()
	page, err := f.inbox.List(t.Context(), f.people[name], "", 500, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Items {
		about := s.Name
		if s.Gone {
			about = "(gone)"
		}
		all = append([]string{strings.TrimSpace(fmt.Sprintf("%s.%s %s", s.Kind, s.What, about))}, all...)
	}
	return all
}

func (f *fixture) wantNotices(t *testing.T, name string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, f.noticesOf(t, name)); d != "" {
		t.Errorf("%s is told (-want +got):\n%s", name, d)
	}
}

// TestCauseIsNotifiedOnce: a redelivered cause notifies nobody twice, wherever the process died.
// Each notice has one activity entry, which updates the page.
func TestCauseIsNotifiedOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	n := w.folder(t, "ann", "Plans")
	w.share(t, n, "bob", 0)
	r, err := notice.NewRecord(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, By: w.people["ann"].User, User: w.people["bob"].User})
	for range 3 {
		w.handle(t, r, err)
	}
	w.wantNotices(t, "bob", "share.given Plans")
	entries, err := w.parts.Log.ListBefore(t.Context(), w.parts.DB, w.people["bob"].Account, 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Verb != activity.NoticeTold || strings.Contains(string(entries[0].Data), "Plans") {
		t.Errorf("the log has %v %v", entries, err)
	}
	// A share that was revoked before it was handled is not notified.
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := w.parts.Access.Revoke(ctx, tx, n.ID, drive.PrincipalID(w.people["bob"].User))
		return err
	})
	r, err = notice.NewRecord(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, User: w.people["bob"].User})
	w.handle(t, r, err)
	w.wantNotices(t, "bob", "share.given (gone)")
}

// TestExpiringRoles: expiring roles are notified before and after their end, once, however often
// they are scanned. A name given after the end is not revealed.
func TestExpiringRoles(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	look := func() {
		t.Helper()
		if err := errors.Join(w.scanRoles(t), w.scanRoles(t)); err != nil {
			t.Fatal(err)
		}
	}
	look()
	plan, draft := w.folder(t, "ann", "Plan"), w.folder(t, "ann", "Draft")
	w.share(t, plan, "bob", 10*24*time.Hour)
	w.advance(time.Second) // so that one expires before the other
	w.share(t, draft, "bob", 10*24*time.Hour)
	w.share(t, w.folder(t, "ann", "Short"), "bob", time.Hour) // whoever was given it was told its end
	look()
	w.wantNotices(t, "bob")
	w.advance(6 * 24 * time.Hour)
	look()
	w.wantNotices(t, "bob", "role.ended Short")
	w.advance(2 * 24 * time.Hour)
	look()
	w.wantNotices(t, "bob", "role.ended Short", "role.ending Plan", "role.ending Draft")
	w.advance(2*24*time.Hour + time.Minute)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := (quota.Ledger{}).Lock(ctx, tx, draft.Account); err != nil {
			return err
		}
		_, err := w.parts.Tree.Edit(ctx, tx, draft.Account, draft.ID, tree.Edit{Name: "Secret"})
		return err
	})
	look()
	got := w.noticesOf(t, "bob")
	if len(got) != 5 || strings.Contains(fmt.Sprint(got), "Secret") || !strings.Contains(fmt.Sprint(got), "role.ended Plan") {
		t.Errorf("bob is told %q", got)
	}
}

// TestNearlyFull: a nearly full drive is notified once per month, and again after its quota
// changes.
func TestNearlyFull(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	look := func() {
		t.Helper()
		for range 2 {
			if more, err := w.teller.ScanLedgers(t.Context()); err != nil || more {
				t.Fatalf("more: %t, %v", more, err)
			}
		}
	}
	use := func(n drive.ByteSize) {
		t.Helper()
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			return quota.Ledger{}.Apply(ctx, tx, w.people["ann"].Account, quota.Move{Finished: n})
		})
	}
	use(899)
	look()
	w.wantNotices(t, "ann")
	use(1)
	look()
	w.wantNotices(t, "ann") // the next look over all is in an hour
	w.advance(time.Hour)
	look()
	w.wantNotices(t, "ann", "quota.full")
	w.advance(40 * 24 * time.Hour)
	look()
	w.wantNotices(t, "ann", "quota.full", "quota.full")
	w.wantNotices(t, "bob")
}

// TestStreamRecordsAreNotified: files from one collect link are one notice per hour. An export
// notifies the user who requested it.
func TestStreamRecordsAreNotified(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	n, ann := w.folder(t, "ann", "Inbox"), w.people["ann"]
	link, export := drive.NewID[drive.CollectID](), drive.NewID[drive.ExportID]()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO collects (id, account_id, user_id, folder_id, token, title, message, expires_at, created_at)
			VALUES (?, ?, ?, ?, 'x', 'Send me', '', 0, 1)`, link, ann.Account, ann.User, n.ID)
		return err
	})
	arrives := func() {
		t.Helper()
		up := drive.NewID[drive.UploadID]()
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO collected (upload_id, collect_id, account_id, sender_id, sender, name, size, digests, state, created_at)
				VALUES (?, ?, ?, ?, 'x', 'y', 1, '{}', 'open', 1)`, up, link, ann.Account, up)
			return err
		})
		r, err := stream.New(stream.TopicUploads, stream.UploadDone, ann.Account, up.String(), nil)
		w.handle(t, r, err)
	}
	arrives()
	arrives()
	w.wantNotices(t, "ann", "collect.arrived Inbox")
	w.advance(time.Hour)
	arrives()
	w.wantNotices(t, "ann", "collect.arrived Inbox", "collect.arrived Inbox")
	own, err := stream.New(stream.TopicUploads, stream.UploadDone, ann.Account, drive.NewID[drive.UploadID]().String(), nil)
	w.handle(t, own, err) // not by a collect link
	gone, err := stream.New(stream.TopicExports, stream.ExportSealed, ann.Account, export.String(), map[string]any{"export": export, "name": "zip"})
	w.handle(t, gone, err) // deleted meanwhile
	w.wantNotices(t, "ann", "collect.arrived Inbox", "collect.arrived Inbox")
	w.wantNotices(t, "bob")
}

// TestOldestNoticesAreEvicted: the number of a user's notices is bounded; the oldest are deleted.
func TestOldestNoticesAreEvicted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann")
	var last notice.ID
	for i := range notice.MaxPerUser + 3 {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			last = notice.DerivedID(drive.Time(1_800_000_000_000+int64(i)), "x")
			_, err := w.parts.Notices.Add(ctx, tx, notice.Notice{User: w.people["ann"].User, ID: last, Cause: notice.Cause{
				Kind: notice.Quota, What: notice.Full, Account: w.people["ann"].Account,
			}})
			return err
		})
	}
	page, err := w.inbox.List(t.Context(), w.people["ann"], "", 1, false)
	if err != nil || page.Unread != notice.MaxPerUser || page.Items[0].ID != last {
		t.Errorf("%d are left, the newest is %v, not %v: %v", page.Unread, page.Items[0].ID, last, err)
	}
	w.advance(notice.Retention + time.Second)
	if err := w.parts.Notices.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantNotices(t, "ann")
}

// fakeServer is a mail server that records mails and responds as configured.
type fakeServer struct {
	took   []mail.Message
	answer func(m mail.Message) error
}

func (p *fakeServer) send(_ context.Context, m mail.Message) error {
	if p.answer != nil {
		if err := p.answer(m); err != nil {
			return err
		}
	}
	p.took = append(p.took, m)
	return nil
}

// newMailFixture returns a fixture in which bob has a confirmed address.
func newMailFixture(t *testing.T) (w *fixture, p *fakeServer, postman *notify.Mailer) {
	t.Helper()
	w = newFixture(t, "ann", "bob")
	p, postman = w.enableMail(t)
	return w, p, postman
}

func (f *fixture) enableMail(t *testing.T) (p *fakeServer, postman *notify.Mailer) {
	t.Helper()
	p = &fakeServer{}
	postman = notify.NewMailer(f.parts, notify.MailerOptions{Send: p.send, BaseURL: "https://drive.example.org", Log: slog.New(slog.DiscardHandler)})
	address, language := "bob@example.org", "zh-CN"
	if _, err := f.inbox.Change(t.Context(), f.people["bob"], notify.Change{Address: &address, Language: &language}); err != nil {
		t.Fatal(err)
	}
	f.mailDue(t, postman)
	f.mailDue(t, postman)
	if len(p.took) != 1 || p.took[0].To != address {
		t.Fatalf("the code was sent as %v", p.took)
	}
	code := strings.TrimPrefix(p.took[0].Subject, "SmartDrive 邮件验证码：")
	if s, err := f.inbox.Confirm(t.Context(), f.people["bob"], code); err != nil || s.State != notice.Confirmed {
		t.Fatal(s, err)
	}
	p.took = nil
	return p, postman
}

func (f *fixture) mailDue(t *testing.T, p *notify.Mailer) {
	t.Helper()
	if err := notify.MailDue(t.Context(), p); err != nil && !drive.IsKind(err, drive.Unavailable) {
		t.Fatal(err)
	}
}

// shareFolders creates folders of ann and shares them with bob.
func (f *fixture) shareFolders(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		n := f.folder(t, "ann", name)
		f.share(t, n, "bob", 0)
		r, err := notice.NewRecord(notice.Cause{
			Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, By: f.people["ann"].User,
			User: f.people["bob"].User, Data: notice.Data{Role: "viewer"},
		})
		f.handle(t, r, err)
	}
}

// TestMailsAreDigests: notices within minutes are one mail, and there is a minimum interval between
// mails. Read notices are not mailed.
func TestMailsAreDigests(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	w.shareFolders(t, "a", "b", "c\r\nBcc: eve@example.org"[:1])
	w.mailDue(t, postman)
	if len(p.took) != 0 {
		t.Errorf("mailed at once: %v", p.took)
	}
	w.advance(2 * time.Minute)
	w.mailDue(t, postman)
	w.mailDue(t, postman)
	if len(p.took) != 1 || strings.Count(p.took[0].Text, "\n- ")+1 != 3 || !strings.Contains(p.took[0].Text, "ann 与您共享了“a”：查看者") ||
		!strings.Contains(p.took[0].Text, "https://drive.example.org/notices") {
		t.Fatalf("mailed %+v", p.took)
	}
	w.shareFolders(t, "d\u202e\u061c")
	w.advance(5 * time.Minute)
	w.mailDue(t, postman)
	if len(p.took) != 1 {
		t.Errorf("no pause before %+v", p.took[1])
	}
	w.advance(10 * time.Minute)
	w.mailDue(t, postman)
	if len(p.took) != 2 || p.took[1].Subject != "SmartDrive：ann 与您共享了“d\ufffd\ufffd”：查看者" { // what turns text around is not mailed
		t.Errorf("then %+v", p.took)
	}
	w.shareFolders(t, "e")
	page, err := w.inbox.List(t.Context(), w.people["bob"], "", 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.inbox.Read(t.Context(), w.people["bob"], notify.ReadMark{UpTo: page.Items[0].ID}); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Hour)
	w.mailDue(t, postman)
	if len(p.took) != 2 {
		t.Errorf("what was read is mailed: %+v", p.took[2])
	}
}

// TestRejectedMails: an unavailable server loses nothing. A crash after the server accepted a mail
// sends it again with the same id. An address that keeps rejecting is given up.
func TestRejectedMails(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	w.shareFolders(t, "a")
	w.advance(2 * time.Minute)
	away := drive.Fail(drive.Unavailable)
	tries := 0
	p.answer = func(mail.Message) error { tries++; return away }
	for range 3 {
		w.mailDue(t, postman)
	}
	if tries != 1 {
		t.Errorf("a server that is away was asked %d times at once", tries)
	}
	w.advance(5 * time.Second)
	p.answer = nil
	ctx, die := context.WithCancel(t.Context())
	p.answer = func(mail.Message) error { die(); return nil }
	if err := notify.MailDue(ctx, postman); err == nil {
		t.Error("a process that has died has written something")
	}
	p.answer = nil
	w.mailDue(t, notify.NewMailer(w.parts, notify.MailerOptions{Send: p.send}))
	if len(p.took) != 2 || p.took[0].ID != p.took[1].ID {
		t.Errorf("after a death mailed %+v", p.took)
	}

	p.took = nil
	w.shareFolders(t, "b")
	p.answer = func(mail.Message) error { return &mail.RefusedError{Code: 550, Err: errors.New("no such user")} }
	for range 10 {
		w.advance(2 * time.Hour)
		w.mailDue(t, postman)
	}
	s, err := w.inbox.Settings(t.Context(), w.people["bob"])
	if err != nil || s.State != notice.Refused {
		t.Errorf("after ten refusals %+v %v", s, err)
	}
	p.answer = nil
	w.shareFolders(t, "c")
	w.advance(time.Hour)
	w.mailDue(t, postman)
	if len(p.took) != 0 {
		t.Errorf("mailed to an address that refuses: %+v", p.took)
	}
	w.wantNotices(t, "bob", "share.given a", "share.given b", "share.given c")
}

// TestFailingMailDelaysNoOthers: a user whose mail cannot be composed delays no other.
func TestFailingMailDelaysNoOthers(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	ann := w.people["ann"]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.parts.Notices.ChangePreferences(ctx, tx, ann.User, func(one *notice.Preferences) error {
			one.Address, one.State, one.MailDue = "ann@example.org", notice.Confirmed, 1
			return nil
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO notices (user_id, id, kind, what, account_id, node_id, by_id, data, at, read_at, mail)
			VALUES (?, ?, 'quota', 'full', ?, '', '', '[]', 1, 0, 1)`, ann.User, drive.NewID[notice.ID](), ann.Account)
		return err
	})
	w.shareFolders(t, "a")
	w.advance(2 * time.Minute)
	if err := notify.MailDue(t.Context(), postman); err == nil {
		t.Error("a notice that cannot be read was mailed")
	}
	if len(p.took) != 1 || p.took[0].To != "bob@example.org" {
		t.Errorf("mailed %+v", p.took)
	}
}
