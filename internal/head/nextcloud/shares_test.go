package nextcloud_test

import (
	"context"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/testkit/transcripttest"
	"smartdrive/internal/usecase/space"
)

// play plays a file of requests: as ann, unless a header says "As: bob".
func (s *stack) play(t *testing.T, name string) {
	t.Helper()
	transcripttest.Play(t, filepath.Join("testdata", name+".txt"), transcripttest.Options{
		Handler: s.server,
		Prepare: func(r *http.Request) {
			name := "ann"
			if as := r.Header.Get("As"); as != "" {
				name = as
			}
			r.Header.Del("As")
			r.SetBasicAuth(name, "x")
		},
		Headers: []string{"DAV", "Allow", "ETag", "OC-ETag", "X-OC-MTime", "Lock-Token", "Location", "Content-Range", "WWW-Authenticate"},
		Mask:    []*regexp.Regexp{regexp.MustCompile(`/s/([0-9A-Za-z_-]{22})`), regexp.MustCompile(`"token":"([^"]+)"`), regexp.MustCompile(`<token>([^<]+)</token>`)},
	})
}

// group makes a group that bob is in.
func (s *stack) group(t *testing.T, name string) (team access.Team) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if team, err = s.Access.CreateGroup(ctx, tx, name); err == nil {
			err = s.Access.AddMember(ctx, tx, team.ID, s.people["bob"].User)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return team
}

// The dialogs of the clients, as they ask.
func TestSharesAsClientsAskForThem(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"shares-desktop", "shares-phone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.person(t, "bob")
			s.group(t, "Staff")
			s.play(t, name)
			s.CheckLedger(t, s.who)
		})
	}
}

const (
	ocs  = "/ocs/v2.php/apps/files_sharing/api/v1/"
	form = "Content-Type: application/x-www-form-urlencoded"
)

// share shares something of ann's, and returns its number.
func (s *stack) share(t *testing.T, params string) string {
	t.Helper()
	return s.do(t, "POST "+ocs+"shares?format=json&"+params).want(t, 200).between(t, `"id":"`, `"`)
}

// A share is there for those who may know of it. To everybody else all requests about it are
// answered as for one that never was.
func TestSharesOfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, name := range []string{"bob", "eve", "uma"} {
		s.person(t, name)
	}
	s.do(t, "MKCOL "+home+"plans").want(t, 201)
	s.do(t, "PUT "+home+"plans/f", "", "x").want(t, 201)
	s.do(t, "PUT "+home+"secret", "", "x").want(t, 201)
	role := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=1")
	s.share(t, "path=/plans&shareType=0&shareWith=uma&permissions=4")
	link := s.share(t, "path=/plans/f&shareType=3")
	for _, who := range []string{"eve", "uma"} { // uma may send, and look at nothing
		for _, ask := range []string{"GET %s", "PUT %s?note=x", "PUT %s?permissions=15", "DELETE %s"} {
			never := s.do(t, strings.Replace(ask, "%s", ocs+"shares/999999", 1), as(who)).want(t, 404)
			for _, number := range []string{role, link} {
				got := s.do(t, strings.Replace(ask, "%s", ocs+"shares/"+number, 1), as(who))
				if got.status != never.status || got.body != never.body {
					t.Errorf("%s: %s of %s: %d %s", who, ask, number, got.status, got.body)
				}
			}
		}
		never := s.do(t, "GET "+ocs+"shares?path=/nothing", as(who)).want(t, 404)
		for _, path := range []string{"/secret", "/plans", "/plans/f"} {
			if got := s.do(t, "GET "+ocs+"shares?path="+path, as(who)); got.body != never.body {
				t.Errorf("%s: %s", who, got.body)
			}
			s.do(t, "POST "+ocs+"shares?path="+path+"&shareType=3", as(who)).want(t, 404)
		}
		if got := s.do(t, "GET "+ocs+"shares", as(who)).want(t, 200); strings.Contains(got.body, "<element>") {
			t.Errorf("%s: %s", who, got.body)
		}
	}
	// A viewer sees who else has a role, and changes nothing.
	s.do(t, "GET "+ocs+"shares/"+role, as("bob")).want(t, 200).has(t, "<path>/Shared with me/plans</path>", "<can_edit></can_edit>")
	s.do(t, "PUT "+ocs+"shares/"+role+"?permissions=15", as("bob")).want(t, 403)
	s.do(t, "POST "+ocs+"shares?path=/Shared%20with%20me/plans&shareType=0&shareWith=eve", as("bob")).want(t, 403)
	s.do(t, "POST "+ocs+"shares?path=/Shared%20with%20me/plans&shareType=3", as("bob")).want(t, 403)
	s.do(t, "GET "+ocs+"shares/"+link, as("bob")).want(t, 404)
	s.do(t, "DELETE "+ocs+"shares/"+link, as("bob")).want(t, 404)
	s.do(t, "GET "+ocs+"shares/"+link).want(t, 200)
}

// What clients change by a request each, at the same time, is all there in the end.
func TestChangesOfAShareAddUp(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "MKCOL "+home+"plans").want(t, 201)
	number := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=15")
	var wait sync.WaitGroup
	for _, change := range []string{"permissions=1", "note=for+Friday", "expireDate=2027-01-31"} {
		wait.Go(func() {
			if got := s.do(t, "PUT "+ocs+"shares/"+number, form, "", change); got.status != 200 {
				t.Errorf("%s: %d %s", change, got.status, got.body)
			}
		})
	}
	wait.Wait()
	s.do(t, "GET "+ocs+"shares/"+number).want(t, 200).has(t, "<permissions>1<", "<note>for Friday<", "<expiration>2027-01-31 00:00:00<")
	// It ends when that day is over.
	end := time.Date(2027, 1, 31, 23, 58, 0, 0, time.UTC)
	s.Clock.Advance(end.Sub(s.Clock.Now()))
	s.do(t, "GET "+ocs+"shares?shared_with_me=true", as("bob")).want(t, 200).has(t, "/Shared with me/plans")
	s.Clock.Advance(2 * time.Minute)
	if got := s.do(t, "GET "+ocs+"shares?shared_with_me=true", as("bob")).want(t, 200); strings.Contains(got.body, "plans") {
		t.Errorf("it has ended: %s", got.body)
	}
	s.do(t, "GET "+ocs+"shares/"+number).want(t, 404)
}

// Nobody becomes a manager by what clients send without asking, and who is one stays it. A second
// request for the same person changes the role that they have.
func TestManagersAreNotMadeByClients(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "MKCOL "+home+"plans").want(t, 201)
	first := s.share(t, "path=/plans&shareType=0&shareWith=BOB&permissions=31")
	s.do(t, "GET "+ocs+"shares/"+first).want(t, 200).has(t, "<permissions>15<")
	if again := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=1"); again != first {
		t.Errorf("the share of bob has the number %s, and then %s", first, again)
	}
	s.grant(t, "plans", access.Manager, 0)
	s.do(t, "GET "+ocs+"shares/"+first).want(t, 200).has(t, "<permissions>31<")
	s.do(t, "PUT "+ocs+"shares/"+first+"?permissions=31").want(t, 200).has(t, "<permissions>31<")
	// What a manager may: share on, in the name of the owner's drive.
	s.person(t, "eve")
	s.do(t, "POST "+ocs+"shares?path=/Shared%20with%20me/plans&shareType=0&shareWith=eve&permissions=1", as("bob")).want(t, 200).
		has(t, "<uid_owner>bob<", "<uid_file_owner>ann<", "<can_edit>1<")
	s.do(t, "GET "+ocs+"shares").want(t, 200).has(t, "<share_with>eve<", "<share_with>bob<")
}

// A link that a client has made opens with its password, and no more when it is over.
func TestALinkOfAClientOpens(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "PUT "+home+"f", "", "x").want(t, 201)
	made := s.do(t, "POST "+ocs+"shares", form, "", "path=/f&shareType=3&password=abcd1&expireDate="+s.Clock.Now().AddDate(0, 0, 1).UTC().Format(time.DateOnly)).want(t, 200)
	number, token := made.between(t, "<id>", "<"), made.between(t, "<token>", "<")
	if url := made.between(t, "<url>", "<"); url != "https://drive.example.org/s/"+token {
		t.Errorf("%q", url)
	}
	open := func(code string) error {
		_, err := s.shares.Open(t.Context(), token, code, netip.MustParseAddr("192.0.2.1"))
		return err
	}
	if err := open("other"); !drive.IsKind(err, drive.WrongCode) {
		t.Errorf("a wrong password: %v", err)
	}
	if err := open("abcd1"); err != nil {
		t.Errorf("the password: %v", err)
	}
	s.do(t, "PUT "+ocs+"shares/"+number, form, "", "password=").want(t, 200)
	if err := open(""); err != nil {
		t.Errorf("without a password: %v", err)
	}
	s.do(t, "POST "+ocs+"shares", form, "", "path=/f&shareType=3&password=auto").want(t, 400) // the server would make one up
	s.Clock.Advance(49 * time.Hour)
	if err := open(""); err == nil {
		t.Error("it opens when it is over")
	}
	s.do(t, "DELETE "+ocs+"shares/"+number).want(t, 200)
	s.do(t, "GET "+ocs+"shares/"+number).want(t, 404)
}

// Who has got a share may leave it; what their group has got goes out of their sight, and stays
// with the others.
func TestLeavingAShare(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.group(t, "Staff")
	for _, dir := range []string{"mine", "ours"} {
		s.do(t, "MKCOL "+home+dir).want(t, 201)
	}
	one := s.share(t, "path=/mine&shareType=0&shareWith=bob&permissions=1")
	all := s.share(t, "path=/ours&shareType=1&shareWith=staff&permissions=1")
	s.do(t, "GET "+ocs+"shares?shared_with_me=true", as("bob")).want(t, 200).has(t, "<share_type>1<", "<share_with>Staff<", "<share_with>bob<")
	s.do(t, "DELETE "+ocs+"shares/"+one, as("bob")).want(t, 200)
	s.do(t, "DELETE "+ocs+"shares/"+all, as("bob")).want(t, 200)
	if got := s.do(t, "GET "+ocs+"shares?shared_with_me=true", as("bob")).want(t, 200); strings.Contains(got.body, "<element>") {
		t.Errorf("%s", got.body)
	}
	left := s.do(t, "GET "+ocs+"shares").want(t, 200).has(t, "<share_with>Staff<")
	if strings.Contains(left.body, "<share_with>bob<") {
		t.Errorf("%s", left.body)
	}
}

// A number is never given twice, and goes when its share has ended; one that is given back before
// keeps it.
func TestNumbersOfShares(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "PUT "+home+"f", "", "x").want(t, 201)
	const bob = "path=/f&shareType=0&shareWith=bob&permissions=1"
	role, link := s.share(t, bob), s.share(t, "path=/f&shareType=3")
	count := func() (n int) {
		if err := s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM share_numbers").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	purge := func() {
		if err := s.numbers.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	purge()
	if n := count(); n != 2 {
		t.Errorf("%d numbers, want 2", n)
	}
	s.do(t, "DELETE "+ocs+"shares/"+role).want(t, 200)
	if again := s.share(t, bob); again != role {
		t.Errorf("it had the number %s and has %s", role, again)
	}
	s.do(t, "DELETE "+ocs+"shares/"+role).want(t, 200)
	s.do(t, "DELETE "+ocs+"shares/"+link).want(t, 200)
	purge()
	if n := count(); n != 0 {
		t.Errorf("%d numbers of nothing", n)
	}
	if next := s.share(t, bob); next == role || next == link {
		t.Errorf("the number %s is given twice", next)
	}
}

// What lies in a space is shared by its managers, and named as clients see it.
func TestSharesInASpace(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	admin := s.who
	admin.Admin = true
	if _, err := s.spaces.Create(t.Context(), admin, space.NewSpace{Name: "Design"}, nil); err != nil {
		t.Fatal(err)
	}
	s.do(t, "MKCOL "+home+"Spaces/Design/plan").want(t, 201)
	role := s.share(t, "path=/Spaces/Design/plan&shareType=0&shareWith=bob&permissions=1")
	link := s.share(t, "path=/Spaces/Design/plan&shareType=3")
	for _, number := range []string{role, link} {
		s.do(t, "GET "+ocs+"shares/"+number).want(t, 200).has(t, "<path>/Spaces/Design/plan<", "<uid_owner>ann<", "<uid_file_owner>Design<")
	}
	s.do(t, "GET "+ocs+"shares?path=/Spaces/Design/plan").want(t, 200).has(t, "<id>"+role+"<", "<id>"+link+"<")
	s.do(t, "GET "+ocs+"shares?path=/Spaces&format=json").want(t, 200).has(t, `"data":[]`) // no folder of anybody's
	s.do(t, "POST "+ocs+"shares?path=/Spaces&shareType=3").want(t, 403)
	s.do(t, "GET "+ocs+"shares?shared_with_me=true", as("bob")).want(t, 200).has(t, "<uid_owner>Design<", "<file_target>/Shared with me/plan<")
	s.do(t, "POST "+ocs+"shares?path=/&shareType=3").want(t, 400) // nobody is given all of a drive
	s.do(t, "POST "+ocs+"shares?path=/&shareType=0&shareWith=bob").want(t, 400)
}
