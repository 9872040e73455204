package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// recorder records committed effects.
type recorder struct {
	told []Effect
	fail error
}

func (t *recorder) happened(_ context.Context, tx *sqldb.Tx, e Effect) error {
	tx.AfterCommit(func() { t.told = append(t.told, e) })
	return t.fail
}

// next returns the effects since its last call, one per line.
func (t *recorder) next() (lines []string) {
	for _, e := range t.told {
		line := string(e.What)
		if e.Name != "" {
			line += " " + e.Name
		}
		if e.Times > 0 {
			line += fmt.Sprint(" ", e.Times) + fmt.Sprint(e.From)
		}
		if e.All {
			line += " all"
		}
		lines = append(lines, line)
	}
	t.told = nil
	return lines
}

func newRecordedProcess(t *testing.T) (process, *recorder, *clock) {
	t.Helper()
	to, c := &recorder{}, newClock()
	return newProcess(sqldbtest.Open(t), Options{Cost: cheap, Now: c.Now, Happened: to.happened}), to, c
}

func (p process) reportAttempts(t *testing.T) {
	t.Helper()
	if err := p.sessions.TellGathered(t.Context()); err != nil {
		t.Error(err)
	}
}

// loginWrongly tries a wrong password.
func (p process) loginWrongly(t *testing.T, name, from string) {
	t.Helper()
	_, err := p.sessions.Login(t.Context(), Login{Name: name, Password: "wrong", Client: netip.MustParseAddr(from)})
	wantKind(t, err, drive.Unauthenticated)
}

func TestSecurityEventsAreReported(t *testing.T) {
	t.Parallel()
	p, to, _ := newRecordedProcess(t)
	ann := p.add(t, "ann", false)
	g := p.login(t, "ann")
	who := p.who(t, g.Secret)
	other := p.login(t, "ann")
	token, err := p.sessions.CreateToken(t.Context(), who, NewToken{Name: "phone", Scopes: drive.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		p.sessions.Delete(t.Context(), who, KindLogin, other.ID), p.sessions.Delete(t.Context(), who, KindToken, token.ID),
		p.sessions.DeleteOthers(t.Context(), who), p.sessions.ChangePassword(t.Context(), who, secret, "another correct horse", client),
		p.update(t, ann.ID, Patch{End: true}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	first := to.told[0]
	if d := cmp.Diff([]string{
		"login.created", "login.created", "token.created phone", "login.ended", "token.ended phone", "login.ended all", "password.changed all", "login.ended all",
	}, to.next()); d != "" {
		t.Error(d)
	}
	if first.Account != ann.Account || first.By.User != ann.ID || first.By.Address != client.String() || first.Session != g.ID {
		t.Errorf("the login is told as %+v", first)
	}
	wantKind(t, p.sessions.Delete(t.Context(), who, KindToken, token.ID), drive.NotFound)

	// An effect that cannot be reported is rolled back.
	to.fail = errors.New("no room")
	if _, err := p.sessions.Login(t.Context(), Login{Name: "ann", Password: "another correct horse"}); !errors.Is(err, to.fail) {
		t.Errorf("a login that cannot be told: %v", err)
	}
}

// TestFailedLoginsAreCombined: guessing causes one entry at once and then one per hour, and none
// for unknown names.
func TestFailedLoginsAreCombined(t *testing.T) {
	t.Parallel()
	p, to, clock := newRecordedProcess(t)
	p.add(t, "ann", false)
	for range 3 {
		p.loginWrongly(t, "ann", "198.51.100.1")
	}
	p.loginWrongly(t, "ann", "198.51.100.2")
	p.loginWrongly(t, "nobody", "198.51.100.2")
	if got := to.next(); got != nil {
		t.Errorf("an answer waited for %q", got)
	}
	p.reportAttempts(t)
	if d := cmp.Diff([]string{"login.failed 4[198.51.100.1 198.51.100.2]"}, to.next()); d != "" {
		t.Error(d)
	}
	for i := range 20 {
		p.loginWrongly(t, "ann", fmt.Sprintf("198.51.100.%d", i+1))
		clock.Advance(time.Minute)
		p.reportAttempts(t)
	}
	if got := to.next(); got != nil {
		t.Errorf("within the hour %q were told", got)
	}
	clock.Advance(time.Hour)
	to.fail = errors.New("no room")
	if err := p.sessions.TellGathered(t.Context()); !errors.Is(err, to.fail) {
		t.Errorf("told without room: %v", err)
	}
	to.fail = nil
	p.reportAttempts(t)
	p.reportAttempts(t)
	if got := to.next(); len(got) != 1 || !strings.HasPrefix(got[0], "login.failed 20[") {
		t.Errorf("told are %q", got)
	}
	clock.Advance(2 * time.Hour)
	p.reportAttempts(t)
	if len(p.sessions.failedLogins.byUser) != 0 {
		t.Error("somebody is kept whose logins do not fail")
	}
	if got := len(attemptsFrom(30).from); got != maxAddresses {
		t.Errorf("%d addresses are kept", got)
	}
}

func attemptsFrom(n int) (a userAttempts) {
	for i := range n {
		a.count(1, fmt.Sprint(i))
	}
	return a
}

// TestCombinedAttemptsAreLimited: memory is bounded, and counted attempts stay.
func TestCombinedAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	g := newAttemptLog(LoginFailed, "")
	for range maxLoggedUsers + 3 {
		g.add(User{ID: drive.NewID[drive.UserID]()}, client)
	}
	g.add(User{}, client)
	if due, missed := g.takeDue(newClock().Now()); len(due) != maxLoggedUsers || missed != 3 {
		t.Errorf("%d are told, %d were not noted", len(due), missed)
	}
}

// TestBasicRequestsAreOneLoginEvent: a client that sends its password with each request causes one
// login event.
func TestBasicRequestsAreOneLoginEvent(t *testing.T) {
	t.Parallel()
	p, to, _ := newRecordedProcess(t)
	p.add(t, "ann", false)
	for range 3 {
		if _, err := p.sessions.Basic(t.Context(), Basic{Name: "ann", Password: secret, Head: drive.HeadDAV, Client: client}); err != nil {
			t.Fatal(err)
		}
	}
	p.reportAttempts(t)
	if d := cmp.Diff([]string{"login.created 1[192.0.2.1]"}, to.next()); d != "" {
		t.Error(d)
	}
}
