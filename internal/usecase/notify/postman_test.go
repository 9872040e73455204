package notify_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/engine/mail"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/notify"
)

// person changes what is kept of somebody.
func (w *town) person(t *testing.T, name string, change func(*notice.Person)) (p notice.Person) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		p, err = w.parts.Notices.ChangePerson(ctx, tx, w.people[name].User, func(one *notice.Person) error { change(one); return nil })
		return err
	})
	return p
}

func later() error { return &mail.RefusedError{Code: 451, Err: errors.New("come later")} }

// A clock that jumps makes no three days of two attempts.
func TestAClockThatJumpsGivesNoAddressUp(t *testing.T) {
	t.Parallel()
	w, p, postman := mailing(t)
	w.shares(t, "a")
	p.answer = func(mail.Message) error { return later() }
	for range 4 {
		w.advance(30 * 24 * time.Hour)
		w.mail(t, postman)
	}
	if one := w.person(t, "bob", func(*notice.Person) {}); one.State != notice.Confirmed || one.Failures != 4 {
		t.Errorf("after 4 attempts %+v", one)
	}
	w.advance(time.Hour)
	w.mail(t, postman)
	if one := w.person(t, "bob", func(*notice.Person) {}); one.State != notice.Refused {
		t.Errorf("after 5 attempts %+v", one)
	}
}
