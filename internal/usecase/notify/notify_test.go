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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/mail"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/usecase/notify"
)

// town is some people with drives, and a clock.
type town struct {
	parts  notify.Parts
	teller *notify.Teller
	inbox  *notify.Inbox
	people map[string]drive.Who
	roots  map[string]drive.NodeID
	calls  sqldbtest.Counter // of the database

	mu  sync.Mutex
	now time.Time
}

func (w *town) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *town) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func newTown(t *testing.T, names ...string) *town {
	t.Helper()
	w := emptyTown()
	w.settle(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: w.calls.Connector}), names...)
	return w
}

func emptyTown() *town {
	return &town{people: map[string]drive.Who{}, roots: map[string]drive.NodeID{}, now: time.UnixMilli(1_800_000_000_000)}
}

// settle puts people with drives into a database.
func (w *town) settle(t *testing.T, db *sqldb.DB, names ...string) {
	t.Helper()
	log := activity.New(activity.Options{DB: db, Now: w.clock})
	auth := account.NewAuth(db, account.Options{Now: w.clock})
	w.parts = notify.Parts{
		DB: db, Notices: notice.New(notice.Options{DB: db, Now: w.clock}), Access: access.New(access.Options{DB: db, Now: w.clock}),
		Users: account.NewUsers(db, auth, account.Options{Now: w.clock}), Tree: tree.New(tree.Options{Now: w.clock, Happened: log.Node}), Log: log, Now: w.clock,
	}
	w.teller, w.inbox = notify.NewTeller(w.parts, true), notify.NewInbox(w.parts, true)
	for _, name := range names {
		who := drive.Who{User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID]()}
		w.people[name] = who
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
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
			w.roots[name], err = w.parts.Tree.Create(ctx, tx, who.Account)
			return err
		})
	}
}

func (w *town) write(t *testing.T, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := w.parts.DB.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// folder makes a folder at the root of somebody's drive.
func (w *town) folder(t *testing.T, owner, name string) (n tree.Node) {
	t.Helper()
	who := w.people[owner]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		tx.ActFor(who)
		if err := (quota.Ledger{}).Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		n, err = w.parts.Tree.CreateFolder(ctx, tx, who.Account, tree.Place{Parent: w.roots[owner], Name: drive.Name(name)})
		return err
	})
	return n
}

// share gives somebody a role that ends after a while; zero: never.
func (w *town) share(t *testing.T, n tree.Node, to string, life time.Duration) {
	t.Helper()
	g := access.Grant{Node: n.ID, Account: n.Account, Principal: drive.PrincipalID(w.people[to].User), Kind: access.User, Role: access.Viewer}
	if life > 0 {
		g.Expires = drive.TimeOf(w.clock()).Add(life)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.parts.Access.Set(ctx, tx, g)
		return err
	})
}

// handle hands a record over to whoever reads its topic.
func (w *town) handle(t *testing.T, r stream.Record, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r.Time = drive.TimeOf(w.clock())
	for _, c := range w.teller.Consumers() {
		if c.Topic == r.Topic {
			if err := c.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// told are somebody's notices, the oldest first: kind.what, and name or that it is gone.
func (w *town) told(t *testing.T, name string) (all []string) {
	t.Helper()
	page, err := w.inbox.List(t.Context(), w.people[name], "", 500, false)
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

func (w *town) wants(t *testing.T, name string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, w.told(t, name)); d != "" {
		t.Errorf("%s is told (-want +got):\n%s", name, d)
	}
}

// A cause that is handled again, in whatever way its process has died, tells nobody twice; and each
// notice has one entry of the log, which wakes the page.
func TestACauseIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
	n := w.folder(t, "ann", "Plans")
	w.share(t, n, "bob", 0)
	r, err := notice.Due(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, By: w.people["ann"].User, User: w.people["bob"].User})
	for range 3 {
		w.handle(t, r, err)
	}
	w.wants(t, "bob", "share.given Plans")
	entries, err := w.parts.Log.Of(t.Context(), w.parts.DB, w.people["bob"].Account, 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Verb != activity.NoticeTold || strings.Contains(string(entries[0].Data), "Plans") {
		t.Errorf("the log has %v %v", entries, err)
	}
	// What is nothing to somebody is not told: it was taken back before it was handled.
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := w.parts.Access.Take(ctx, tx, n.ID, drive.PrincipalID(w.people["bob"].User))
		return err
	})
	r, err = notice.Due(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, User: w.people["bob"].User})
	w.handle(t, r, err)
	w.wants(t, "bob", "share.given (gone)")
}

// Roles that end are told before and after, once, whenever it is looked; a name that was given
// after the end is not told.
func TestRolesThatEnd(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
	look := func() {
		t.Helper()
		if err := errors.Join(w.lookAtRoles(t), w.lookAtRoles(t)); err != nil {
			t.Fatal(err)
		}
	}
	look()
	plan, draft := w.folder(t, "ann", "Plan"), w.folder(t, "ann", "Draft")
	w.share(t, plan, "bob", 10*24*time.Hour)
	w.advance(time.Second) // so that the one ends before the other
	w.share(t, draft, "bob", 10*24*time.Hour)
	w.share(t, w.folder(t, "ann", "Short"), "bob", time.Hour) // whoever was given it was told its end
	look()
	w.wants(t, "bob")
	w.advance(6 * 24 * time.Hour)
	look()
	w.wants(t, "bob", "role.ended Short")
	w.advance(2 * 24 * time.Hour)
	look()
	w.wants(t, "bob", "role.ended Short", "role.ending Plan", "role.ending Draft")
	w.advance(2*24*time.Hour + time.Minute)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := (quota.Ledger{}).Lock(ctx, tx, draft.Account); err != nil {
			return err
		}
		_, err := w.parts.Tree.Edit(ctx, tx, draft.Account, draft.ID, tree.Edit{Name: "Secret"})
		return err
	})
	look()
	got := w.told(t, "bob")
	if len(got) != 5 || strings.Contains(fmt.Sprint(got), "Secret") || !strings.Contains(fmt.Sprint(got), "role.ended Plan") {
		t.Errorf("bob is told %q", got)
	}
}

// Whose drive is nearly full is told once a month, and again when it is another size.
func TestNearlyFull(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
	look := func() {
		t.Helper()
		for range 2 {
			if more, err := w.teller.Ledgers(t.Context()); err != nil || more {
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
	w.wants(t, "ann")
	use(1)
	look()
	w.wants(t, "ann") // the next look over all is in an hour
	w.advance(time.Hour)
	look()
	w.wants(t, "ann", "quota.full")
	w.advance(40 * 24 * time.Hour)
	look()
	w.wants(t, "ann", "quota.full", "quota.full")
	w.wants(t, "bob")
}

// Files that come by a collect link are one notice an hour; an export is told to who asked for it.
func TestRecordsOfOthersAreTold(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
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
	w.wants(t, "ann", "collect.arrived Inbox")
	w.advance(time.Hour)
	arrives()
	w.wants(t, "ann", "collect.arrived Inbox", "collect.arrived Inbox")
	own, err := stream.New(stream.TopicUploads, stream.UploadDone, ann.Account, drive.NewID[drive.UploadID]().String(), nil)
	w.handle(t, own, err) // not by a link
	gone, err := stream.New(stream.TopicExports, stream.ExportSealed, ann.Account, export.String(), map[string]any{"export": export, "name": "zip"})
	w.handle(t, gone, err) // it is not there any more
	w.wants(t, "ann", "collect.arrived Inbox", "collect.arrived Inbox")
	w.wants(t, "bob")
}

// Nobody's notices become too many: the oldest go.
func TestTheOldestNoticesGo(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann")
	var last notice.ID
	for i := range notice.Most + 3 {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			last = notice.Named(drive.Time(1_800_000_000_000+int64(i)), "x")
			_, err := w.parts.Notices.Add(ctx, tx, notice.Notice{User: w.people["ann"].User, ID: last, Cause: notice.Cause{
				Kind: notice.Quota, What: notice.Full, Account: w.people["ann"].Account,
			}})
			return err
		})
	}
	page, err := w.inbox.List(t.Context(), w.people["ann"], "", 1, false)
	if err != nil || page.Unread != notice.Most || page.Items[0].ID != last {
		t.Errorf("%d are left, the newest is %v, not %v: %v", page.Unread, page.Items[0].ID, last, err)
	}
	w.advance(notice.Keep + time.Second)
	if err := w.parts.Notices.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wants(t, "ann")
}

// post is a server of mail: what it took, and what it answers.
type post struct {
	took   []mail.Message
	answer func(m mail.Message) error
}

func (p *post) send(_ context.Context, m mail.Message) error {
	if p.answer != nil {
		if err := p.answer(m); err != nil {
			return err
		}
	}
	p.took = append(p.took, m)
	return nil
}

// mailing is a town in which bob has a confirmed address.
func mailing(t *testing.T) (w *town, p *post, postman *notify.Postman) {
	t.Helper()
	w = newTown(t, "ann", "bob")
	p, postman = w.mailing(t)
	return w, p, postman
}

func (w *town) mailing(t *testing.T) (p *post, postman *notify.Postman) {
	t.Helper()
	p = &post{}
	postman = notify.NewPostman(w.parts, notify.PostOptions{Send: p.send, BaseURL: "https://drive.example.org", Log: slog.New(slog.DiscardHandler)})
	address, language := "bob@example.org", "zh-CN"
	if _, err := w.inbox.Change(t.Context(), w.people["bob"], notify.Change{Address: &address, Language: &language}); err != nil {
		t.Fatal(err)
	}
	w.mail(t, postman)
	w.mail(t, postman)
	if len(p.took) != 1 || p.took[0].To != address {
		t.Fatalf("the code was sent as %v", p.took)
	}
	code := strings.TrimPrefix(p.took[0].Subject, "SmartDrive 邮件验证码：")
	if s, err := w.inbox.Confirm(t.Context(), w.people["bob"], code); err != nil || s.State != notice.Confirmed {
		t.Fatal(s, err)
	}
	p.took = nil
	return p, postman
}

func (w *town) mail(t *testing.T, p *notify.Postman) {
	t.Helper()
	if err := notify.MailDue(t.Context(), p); err != nil && !drive.IsKind(err, drive.Unavailable) {
		t.Fatal(err)
	}
}

// shares makes folders of ann's, and tells bob of them.
func (w *town) shares(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		n := w.folder(t, "ann", name)
		w.share(t, n, "bob", 0)
		r, err := notice.Due(notice.Cause{
			Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, By: w.people["ann"].User,
			User: w.people["bob"].User, Data: notice.Data{Role: "viewer"},
		})
		w.handle(t, r, err)
	}
}

// What happens within minutes is one mail, and there is a pause between two. What was read needs
// none.
func TestMailsAreDigests(t *testing.T) {
	t.Parallel()
	w, p, postman := mailing(t)
	w.shares(t, "a", "b", "c\r\nBcc: eve@example.org"[:1])
	w.mail(t, postman)
	if len(p.took) != 0 {
		t.Errorf("mailed at once: %v", p.took)
	}
	w.advance(2 * time.Minute)
	w.mail(t, postman)
	w.mail(t, postman)
	if len(p.took) != 1 || strings.Count(p.took[0].Text, "\n- ")+1 != 3 || !strings.Contains(p.took[0].Text, "ann 与您共享了“a”：查看者") ||
		!strings.Contains(p.took[0].Text, "https://drive.example.org/notices") {
		t.Fatalf("mailed %+v", p.took)
	}
	w.shares(t, "d\u202e\u061c")
	w.advance(5 * time.Minute)
	w.mail(t, postman)
	if len(p.took) != 1 {
		t.Errorf("no pause before %+v", p.took[1])
	}
	w.advance(10 * time.Minute)
	w.mail(t, postman)
	if len(p.took) != 2 || p.took[1].Subject != "SmartDrive：ann 与您共享了“d\ufffd\ufffd”：查看者" { // what turns text around is not mailed
		t.Errorf("then %+v", p.took)
	}
	w.shares(t, "e")
	page, err := w.inbox.List(t.Context(), w.people["bob"], "", 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.inbox.Read(t.Context(), w.people["bob"], notify.Mark{UpTo: page.Items[0].ID}); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Hour)
	w.mail(t, postman)
	if len(p.took) != 2 {
		t.Errorf("what was read is mailed: %+v", p.took[2])
	}
}

// A server that is away loses nothing; a process that dies once the server has the mail sends it
// again under the same id; an address that refuses is given up.
func TestMailsThatFail(t *testing.T) {
	t.Parallel()
	w, p, postman := mailing(t)
	w.shares(t, "a")
	w.advance(2 * time.Minute)
	away := drive.Fail(drive.Unavailable)
	tries := 0
	p.answer = func(mail.Message) error { tries++; return away }
	for range 3 {
		w.mail(t, postman)
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
	w.mail(t, notify.NewPostman(w.parts, notify.PostOptions{Send: p.send}))
	if len(p.took) != 2 || p.took[0].ID != p.took[1].ID {
		t.Errorf("after a death mailed %+v", p.took)
	}

	p.took = nil
	w.shares(t, "b")
	p.answer = func(mail.Message) error { return &mail.RefusedError{Code: 550, Err: errors.New("no such user")} }
	for range 10 {
		w.advance(2 * time.Hour)
		w.mail(t, postman)
	}
	s, err := w.inbox.Settings(t.Context(), w.people["bob"])
	if err != nil || s.State != notice.Refused {
		t.Errorf("after ten refusals %+v %v", s, err)
	}
	p.answer = nil
	w.shares(t, "c")
	w.advance(time.Hour)
	w.mail(t, postman)
	if len(p.took) != 0 {
		t.Errorf("mailed to an address that refuses: %+v", p.took)
	}
	w.wants(t, "bob", "share.given a", "share.given b", "share.given c")
}

// One person whose mail cannot be made keeps nobody else's.
func TestAMailThatCannotBeMadeHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w, p, postman := mailing(t)
	ann := w.people["ann"]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.parts.Notices.ChangePerson(ctx, tx, ann.User, func(one *notice.Person) error {
			one.Address, one.State, one.Due = "ann@example.org", notice.Confirmed, 1
			return nil
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO notices (user_id, id, kind, what, account_id, node_id, by_id, data, at, read_at, mail)
			VALUES (?, ?, 'quota', 'full', ?, '', '', '[]', 1, 0, 1)`, ann.User, drive.NewID[notice.ID](), ann.Account)
		return err
	})
	w.shares(t, "a")
	w.advance(2 * time.Minute)
	if err := notify.MailDue(t.Context(), postman); err == nil {
		t.Error("a notice that cannot be read was mailed")
	}
	if len(p.took) != 1 || p.took[0].To != "bob@example.org" {
		t.Errorf("mailed %+v", p.took)
	}
}
