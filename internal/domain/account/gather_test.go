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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
)

// teller keeps the effects that it is told of, once they are committed.
type teller struct {
	told []Effect
	fail error
}

func (t *teller) happened(_ context.Context, tx *sqldb.Tx, e Effect) error {
	tx.AfterCommit(func() { t.told = append(t.told, e) })
	return t.fail
}

// next returns what was told since it was called last, in a line each.
func (t *teller) next() (lines []string) {
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

func newTold(t *testing.T) (process, *teller, *clock) {
	t.Helper()
	to, c := &teller{}, newClock()
	return newProcess(sqldbtest.Open(t), Options{Cost: cheap, Now: c.Now, Happened: to.happened}), to, c
}

func (p process) tell(t *testing.T) {
	t.Helper()
	if err := p.sessions.TellGathered(t.Context()); err != nil {
		t.Error(err)
	}
}

// wrong tries a wrong password.
func (p process) wrongly(t *testing.T, name, from string) {
	t.Helper()
	_, err := p.sessions.Login(t.Context(), Login{Name: name, Password: "wrong", Client: netip.MustParseAddr(from)})
	wantKind(t, err, drive.Unauthenticated)
}

func TestWhatIsDoneAboutLoginsIsTold(t *testing.T) {
	t.Parallel()
	p, to, _ := newTold(t)
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

	// What cannot be told is not done.
	to.fail = errors.New("no room")
	if _, err := p.sessions.Login(t.Context(), Login{Name: "ann", Password: "another correct horse"}); !errors.Is(err, to.fail) {
		t.Errorf("a login that cannot be told: %v", err)
	}
}

// Whoever guesses causes an entry at once and then one an hour, and none for names that nobody has.
func TestFailedLoginsAreGathered(t *testing.T) {
	t.Parallel()
	p, to, clock := newTold(t)
	p.add(t, "ann", false)
	for range 3 {
		p.wrongly(t, "ann", "198.51.100.1")
	}
	p.wrongly(t, "ann", "198.51.100.2")
	p.wrongly(t, "nobody", "198.51.100.2")
	if got := to.next(); got != nil {
		t.Errorf("an answer waited for %q", got)
	}
	p.tell(t)
	if d := cmp.Diff([]string{"login.failed 4[198.51.100.1 198.51.100.2]"}, to.next()); d != "" {
		t.Error(d)
	}
	for i := range 20 {
		p.wrongly(t, "ann", fmt.Sprintf("198.51.100.%d", i+1))
		clock.Advance(time.Minute)
		p.tell(t)
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
	p.tell(t)
	p.tell(t)
	if got := to.next(); len(got) != 1 || !strings.HasPrefix(got[0], "login.failed 20[") {
		t.Errorf("told are %q", got)
	}
	clock.Advance(2 * time.Hour)
	p.tell(t)
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

// What is gathered has a bound, and what was done before stays.
func TestGatheredAttemptsHaveABound(t *testing.T) {
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

// A client that sends the password with each request has logged in once.
func TestAPasswordWithEachRequestIsOneLogin(t *testing.T) {
	t.Parallel()
	p, to, _ := newTold(t)
	p.add(t, "ann", false)
	for range 3 {
		if _, err := p.sessions.Basic(t.Context(), Basic{Name: "ann", Password: secret, Head: drive.HeadDAV, Client: client}); err != nil {
			t.Fatal(err)
		}
	}
	p.tell(t)
	if d := cmp.Diff([]string{"login.created 1[192.0.2.1]"}, to.next()); d != "" {
		t.Error(d)
	}
}
