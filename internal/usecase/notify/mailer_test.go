package notify_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/mail"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/notify"
)

// changePerson changes the stored settings of a user.
func (f *fixture) changePerson(t *testing.T, name string, change func(*notice.Preferences)) (p notice.Preferences) {
	t.Helper()
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		p, err = f.parts.Notices.ChangePreferences(ctx, tx, f.people[name].User, func(one *notice.Preferences) error { change(one); return nil })
		return err
	})
	return p
}

func errRetryLater() error { return &mail.RefusedError{Code: 451, Err: errors.New("come later")} }

// TestClockJumpKeepsAddress: a clock jump must not turn two attempts into three days of failures.
func TestClockJumpKeepsAddress(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	w.shareFolders(t, "a")
	p.answer = func(mail.Message) error { return errRetryLater() }
	for range 4 {
		w.advance(30 * 24 * time.Hour)
		w.mailDue(t, postman)
	}
	if one := w.changePerson(t, "bob", func(*notice.Preferences) {}); one.State != notice.Confirmed || one.Failures != 4 {
		t.Errorf("after 4 attempts %+v", one)
	}
	w.advance(time.Hour)
	w.mailDue(t, postman)
	if one := w.changePerson(t, "bob", func(*notice.Preferences) {}); one.State != notice.Refused {
		t.Errorf("after 5 attempts %+v", one)
	}
}

// TestNoticeDuringMailIsMailedNext: a notice added while a mail is sent is mailed, whichever
// commits first.
func TestNoticeDuringMailIsMailedNext(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	w.shareFolders(t, "a")
	w.advance(2 * time.Minute)
	bob := w.people["bob"]
	planned, noted, told := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	p.answer = func(mail.Message) error {
		go func() {
			told <- w.parts.DB.Write(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := w.parts.Notices.Add(ctx, tx, notice.Notice{User: bob.User, ID: notice.DerivedID(drive.TimeOf(w.clock()), "b"), Mail: true, Cause: notice.Cause{
					Kind: notice.Quota, What: notice.Full, Account: bob.Account,
				}})
				if err == nil {
					err = w.parts.Notices.ScheduleMail(ctx, tx, bob.User, time.Minute, time.Minute)
				}
				close(planned)
				select { // the postman waits for this transaction or is done
				case <-noted:
				case <-time.After(200 * time.Millisecond):
				}
				return err
			})
		}()
		<-planned
		return nil
	}
	w.mailDue(t, postman)
	close(noted)
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	p.answer = nil
	w.advance(time.Hour)
	w.mailDue(t, postman)
	if len(p.took) != 2 {
		t.Errorf("mailed %+v", p.took)
	}
}

// TestPendingNoticesGoToNewAddress: notices that wait when an address is confirmed are mailed to
// it.
func TestPendingNoticesGoToNewAddress(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	w.shareFolders(t, "a")
	address := "robert@example.org"
	if _, err := w.inbox.Change(t.Context(), w.people["bob"], notify.Change{Address: &address}); err != nil {
		t.Fatal(err)
	}
	w.mailDue(t, postman)
	code := w.changePerson(t, "bob", func(*notice.Preferences) {}).Code
	if _, err := w.inbox.Confirm(t.Context(), w.people["bob"], code); err != nil {
		t.Fatal(err)
	}
	w.mailDue(t, postman)
	if len(p.took) != 2 || p.took[1].To != address || p.took[1].Subject != "SmartDrive：ann 与您共享了“a”：查看者" {
		t.Errorf("mailed %+v", p.took)
	}
}

// TestUnrecordedMailIsNotResent: a sent mail that cannot be recorded, because the disk is full or
// the database is read-only, is recorded later and not sent again every five seconds.
func TestUnrecordedMailIsNotResent(t *testing.T) {
	t.Parallel()
	for _, why := range []error{errors.New("the disk is full"), drive.Fail(drive.Unavailable)} {
		var faults sqldbtest.Faults
		w := newEmptyFixture()
		w.addUsers(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector}), "ann", "bob")
		p, postman := w.enableMail(t)
		w.shareFolders(t, "a")
		w.advance(2 * time.Minute)
		faults.FailAll(sqldbtest.Commit, why)
		looks := 0
		for range 20 {
			if notify.MailDue(t.Context(), postman) != nil {
				looks++
			}
			w.advance(5 * time.Second)
		}
		if len(p.took) != 1 || looks == 0 || looks > 5 {
			t.Errorf("%v: %d mails, and %d attempts to note it in 100 s", why, len(p.took), looks)
		}
		faults.Clear()
		for range 2 {
			w.advance(time.Hour)
			w.mailDue(t, postman)
		}
		w.shareFolders(t, "b")
		w.advance(time.Hour)
		w.mailDue(t, postman)
		if len(p.took) != 2 || strings.Contains(p.took[1].Text, "“a”") {
			t.Errorf("%v: in the end mailed %+v", why, p.took)
		}
	}
}

// TestCodesAreMailedFirst: each code is its own mail and precedes the notices of others; an expired
// one is not sent.
func TestCodesAreMailedFirst(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	w.shareFolders(t, "a")
	w.advance(3 * time.Minute)
	address := "ann@example.org"
	ask := func() {
		t.Helper()
		if _, err := w.inbox.Change(t.Context(), w.people["ann"], notify.Change{Address: &address}); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	w.mailDue(t, postman)
	ask() // within the same millisecond
	w.mailDue(t, postman)
	if len(p.took) != 3 || p.took[0].To != address || p.took[1].To != "bob@example.org" || p.took[2].To != address {
		t.Fatalf("mailed %+v", p.took)
	}
	for _, m := range p.took {
		if !regexp.MustCompile(`^[A-Za-z0-9.-]+$`).MatchString(m.ID) {
			t.Errorf("the id of a mail is %q", m.ID)
		}
	}
	if p.took[0].ID == p.took[2].ID {
		t.Errorf("two codes are mails of one id: %q", p.took[0].ID)
	}
	ask()
	w.advance(31 * time.Minute)
	w.mailDue(t, postman)
	if one := w.changePerson(t, "ann", func(*notice.Preferences) {}); len(p.took) != 3 || one.MailDue != 0 {
		t.Errorf("a code that is too late is mailed: %+v, %+v", p.took[3:], one)
	}
}

// TestTimesOfFastClockDelayNoMail: times stored by a clock that was ahead delay neither mails nor
// codes.
func TestTimesOfFastClockDelayNoMail(t *testing.T) {
	t.Parallel()
	w, p, postman := newMailFixture(t)
	p.answer = func(mail.Message) error { return drive.Fail(drive.Unavailable) }
	ahead := 1000 * 24 * time.Hour
	w.shareFolders(t, "a")
	w.advance(ahead)
	w.mailDue(t, postman)
	p.answer = nil
	w.advance(2*time.Minute - ahead)
	w.mailDue(t, postman)
	if len(p.took) != 1 {
		t.Fatalf("mailed %+v", p.took)
	}
	w.changePerson(t, "bob", func(one *notice.Preferences) { one.LastMail = one.LastMail.Add(ahead) })
	w.shareFolders(t, "b")
	w.advance(time.Hour)
	w.mailDue(t, postman)
	if len(p.took) != 2 {
		t.Errorf("then mailed %+v", p.took)
	}
	w.advance(ahead)
	w.shareFolders(t, "c")
	w.advance(-ahead)
	w.mailDue(t, postman)
	if len(p.took) != 3 {
		t.Errorf("in the end mailed %+v", p.took)
	}
	w.changePerson(t, "bob", func(one *notice.Preferences) { one.Codes, one.CodesSince = 5, one.CodesSince.Add(ahead) })
	address := "robert@example.org"
	if _, err := w.inbox.Change(t.Context(), w.people["bob"], notify.Change{Address: &address}); err != nil {
		t.Error(err)
	}
}
