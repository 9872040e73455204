package nextcloud_test

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/transcripttest"
	"example.org/smartdrive/internal/usecase/space"
)

// play plays a file of requests: as ann, unless a header says "As: bob".
func (s *stack) play(t *testing.T, name string) {
	t.Helper()
	transcripttest.Play(t, filepath.Join("testdata", name+".txt"), transcripttest.Options{
		Handler: s.CheckedHandler(t),
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

// group creates a group with bob as its member.
func (s *stack) group(t *testing.T, name string) (team access.UserGroup) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if team, err = s.Access.CreateGroup(ctx, tx, name); err == nil {
			err = s.Access.AddMember(ctx, tx, team.ID, s.People["bob"].User)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return team
}

// Each transcript contains the requests of a client in their order, written from what is known of
// the client, and the responses.
func TestClientsAsTheySpeak(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"shares-desktop", "shares-phone", "phone-upload", "bulk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.CreateUser(t, "bob")
			s.group(t, "Staff")
			s.play(t, name)
			s.CheckLedger(t, s.Who)
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
	return s.Do(t, "POST "+ocs+"shares?format=json&"+params).Want(t, 200).Between(t, `"id":"`, `"`)
}

// A share exists only for users who may see it. All others get the reply for a missing share.
func TestForeignSharesAreNotFound(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, name := range []string{"bob", "eve", "uma"} {
		s.CreateUser(t, name)
	}
	s.Do(t, "MKCOL "+home+"plans").Want(t, 201)
	s.Do(t, "PUT "+home+"plans/f", "", "x").Want(t, 201)
	s.Do(t, "PUT "+home+"secret", "", "x").Want(t, 201)
	role := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=1")
	s.share(t, "path=/plans&shareType=0&shareWith=uma&permissions=4")
	link := s.share(t, "path=/plans/f&shareType=3")
	for _, who := range []string{"eve", "uma"} { // uma may send, and look at nothing
		for _, ask := range []string{"GET %s", "PUT %s?note=x", "PUT %s?permissions=15", "DELETE %s"} {
			never := s.Do(t, strings.Replace(ask, "%s", ocs+"shares/999999", 1), davtest.AuthHeader(who)).Want(t, 404)
			for _, number := range []string{role, link} {
				got := s.Do(t, strings.Replace(ask, "%s", ocs+"shares/"+number, 1), davtest.AuthHeader(who))
				if got.Status != never.Status || got.Body != never.Body {
					t.Errorf("%s: %s of %s: %d %s", who, ask, number, got.Status, got.Body)
				}
			}
		}
		never := s.Do(t, "GET "+ocs+"shares?path=/nothing", davtest.AuthHeader(who)).Want(t, 404)
		for _, path := range []string{"/secret", "/plans", "/plans/f"} {
			if got := s.Do(t, "GET "+ocs+"shares?path="+path, davtest.AuthHeader(who)); got.Body != never.Body {
				t.Errorf("%s: %s", who, got.Body)
			}
			s.Do(t, "POST "+ocs+"shares?path="+path+"&shareType=3", davtest.AuthHeader(who)).Want(t, 404)
		}
		if got := s.Do(t, "GET "+ocs+"shares", davtest.AuthHeader(who)).Want(t, 200); strings.Contains(got.Body, "<element>") {
			t.Errorf("%s: %s", who, got.Body)
		}
	}
	// A viewer sees who else has a role, and changes nothing.
	s.Do(t, "GET "+ocs+"shares/"+role, davtest.AuthHeader("bob")).Want(t, 200).Has(t, "<path>/Shared with me/plans</path>", "<can_edit></can_edit>")
	s.Do(t, "PUT "+ocs+"shares/"+role+"?permissions=15", davtest.AuthHeader("bob")).Want(t, 403)
	s.Do(t, "POST "+ocs+"shares?path=/Shared%20with%20me/plans&shareType=0&shareWith=eve", davtest.AuthHeader("bob")).Want(t, 403)
	s.Do(t, "POST "+ocs+"shares?path=/Shared%20with%20me/plans&shareType=3", davtest.AuthHeader("bob")).Want(t, 403)
	s.Do(t, "GET "+ocs+"shares/"+link, davtest.AuthHeader("bob")).Want(t, 404)
	s.Do(t, "DELETE "+ocs+"shares/"+link, davtest.AuthHeader("bob")).Want(t, 404)
	s.Do(t, "GET "+ocs+"shares/"+link).Want(t, 200)
}

// What clients change by a request each, at the same time, is all there in the end.
func TestShareChangesAccumulate(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"plans").Want(t, 201)
	number := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=15")
	var wait sync.WaitGroup
	for _, change := range []string{"permissions=1", "note=for+Friday", "expireDate=2027-01-31"} {
		wait.Go(func() {
			if got := s.Do(t, "PUT "+ocs+"shares/"+number, form, "", change); got.Status != 200 {
				t.Errorf("%s: %d %s", change, got.Status, got.Body)
			}
		})
	}
	wait.Wait()
	s.Do(t, "GET "+ocs+"shares/"+number).Want(t, 200).Has(t, "<permissions>1<", "<note>for Friday<", "<expiration>2027-01-31 00:00:00<")
	// It ends when that day is over.
	end := time.Date(2027, 1, 31, 23, 58, 0, 0, time.UTC)
	s.Clock.Advance(end.Sub(s.Clock.Now()))
	s.Do(t, "GET "+ocs+"shares?shared_with_me=true", davtest.AuthHeader("bob")).Want(t, 200).Has(t, "/Shared with me/plans")
	s.Clock.Advance(2 * time.Minute)
	if got := s.Do(t, "GET "+ocs+"shares?shared_with_me=true", davtest.AuthHeader("bob")).Want(t, 200); strings.Contains(got.Body, "plans") {
		t.Errorf("it has ended: %s", got.Body)
	}
	s.Do(t, "GET "+ocs+"shares/"+number).Want(t, 404)
}

// No user becomes a manager by requests that clients send by default, and a manager stays one. A
// second request for the same user changes the user's role.
func TestClientsCannotCreateManagers(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"plans").Want(t, 201)
	first := s.share(t, "path=/plans&shareType=0&shareWith=BOB&permissions=31")
	s.Do(t, "GET "+ocs+"shares/"+first).Want(t, 200).Has(t, "<permissions>15<")
	if again := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=1"); again != first {
		t.Errorf("the share of bob has the number %s, and then %s", first, again)
	}
	s.grant(t, "plans", access.Manager, 0)
	s.Do(t, "GET "+ocs+"shares/"+first).Want(t, 200).Has(t, "<permissions>31<")
	s.Do(t, "PUT "+ocs+"shares/"+first+"?permissions=31").Want(t, 200).Has(t, "<permissions>31<")
	if again := s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=31&note=hello"); again != first {
		t.Errorf("the manager's share has the number %s, and then %s", first, again)
	}
	s.share(t, "path=/plans&shareType=0&shareWith=bob") // what is not named stays
	s.Do(t, "GET "+ocs+"shares/"+first).Want(t, 200).Has(t, "<permissions>31<", "<note>hello<")
	// What a manager may: share on, in the name of the owner's drive.
	s.CreateUser(t, "eve")
	s.Do(t, "POST "+ocs+"shares?path=/Shared%20with%20me/plans&shareType=0&shareWith=eve&permissions=1", davtest.AuthHeader("bob")).Want(t, 200).
		Has(t, "<uid_owner>bob<", "<uid_file_owner>ann<", "<can_edit>1<")
	s.Do(t, "GET "+ocs+"shares").Want(t, 200).Has(t, "<share_with>eve<", "<share_with>bob<")
}

// A link that a client has made opens with its password, and no more when it is over.
func TestALinkOfAClientOpens(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT "+home+"f", "", "x").Want(t, 201)
	made := s.Do(t, "POST "+ocs+"shares", form, "", "path=/f&shareType=3&password=abcd1&expireDate="+s.Clock.Now().AddDate(0, 0, 1).UTC().Format(time.DateOnly)).Want(t, 200)
	number, token := made.Between(t, "<id>", "<"), made.Between(t, "<token>", "<")
	if url := made.Between(t, "<url>", "<"); url != "https://drive.example.org/s/"+token {
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
	s.Do(t, "PUT "+ocs+"shares/"+number, form, "", "password=").Want(t, 200)
	if err := open(""); err != nil {
		t.Errorf("without a password: %v", err)
	}
	s.Do(t, "POST "+ocs+"shares", form, "", "path=/f&shareType=3&password=auto").Want(t, 400) // the server would make one up
	s.Clock.Advance(49 * time.Hour)
	if err := open(""); err == nil {
		t.Error("it opens when it is over")
	}
	s.Do(t, "DELETE "+ocs+"shares/"+number).Want(t, 200)
	s.Do(t, "GET "+ocs+"shares/"+number).Want(t, 404)
}

// Who has got a share may leave it; what their group has got goes out of their sight, and stays
// with the others.
func TestLeavingAShare(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.group(t, "Staff")
	for _, dir := range []string{"mine", "ours"} {
		s.Do(t, "MKCOL "+home+dir).Want(t, 201)
	}
	one := s.share(t, "path=/mine&shareType=0&shareWith=bob&permissions=1")
	all := s.share(t, "path=/ours&shareType=1&shareWith=staff&permissions=1")
	s.Do(t, "GET "+ocs+"shares?shared_with_me=true", davtest.AuthHeader("bob")).Want(t, 200).Has(t, "<share_type>1<", "<share_with>Staff<", "<share_with>bob<")
	s.Do(t, "DELETE "+ocs+"shares/"+one, davtest.AuthHeader("bob")).Want(t, 200)
	s.Do(t, "DELETE "+ocs+"shares/"+all, davtest.AuthHeader("bob")).Want(t, 200)
	if got := s.Do(t, "GET "+ocs+"shares?shared_with_me=true", davtest.AuthHeader("bob")).Want(t, 200); strings.Contains(got.Body, "<element>") {
		t.Errorf("%s", got.Body)
	}
	left := s.Do(t, "GET "+ocs+"shares").Want(t, 200).Has(t, "<share_with>Staff<")
	if strings.Contains(left.Body, "<share_with>bob<") {
		t.Errorf("%s", left.Body)
	}
}

// A user outside of a group cannot end the group's share, and loses no own role by trying.
func TestForeignGroupShareCannotBeLeft(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.CreateUser(t, "eve")
	s.group(t, "Staff") // of bob
	s.Do(t, "MKCOL "+home+"plans").Want(t, 201)
	all := s.share(t, "path=/plans&shareType=1&shareWith=staff&permissions=1")
	s.share(t, "path=/plans&shareType=0&shareWith=eve&permissions=1")
	s.Do(t, "DELETE "+ocs+"shares/"+all, davtest.AuthHeader("eve")).Want(t, 403)
	s.Do(t, "GET "+ocs+"shares?shared_with_me=true", davtest.AuthHeader("eve")).Want(t, 200).Has(t, "<path>/Shared with me/plans<")
	s.Do(t, "GET "+ocs+"shares").Want(t, 200).Has(t, "<share_with>Staff<", "<share_with>eve<")
}

// A client shares with a user again while that user is made a manager. In any order, the user is a
// manager in the end.
func TestSharingAgainLeavesAManager(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"plans").Want(t, 201)
	for _, already := range []bool{false, true} {
		for range depth.Pick(5, 20, 200) {
			if s.ungrant(t, "plans"); already {
				s.grant(t, "plans", access.Viewer, 0)
			}
			var wait sync.WaitGroup
			wait.Go(func() { s.share(t, "path=/plans&shareType=0&shareWith=bob&permissions=31") })
			wait.Go(func() { s.grant(t, "plans", access.Manager, 0) })
			wait.Wait()
			s.Do(t, "GET "+ocs+"shares?path=/plans").Want(t, 200).Has(t, "<permissions>31<")
		}
	}
	// The role is the one within the transaction that changes it.
	s.grant(t, "plans", access.Manager, 0)
	var told access.Role
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.People["bob"].User)}
	_, err := s.Spaces.ChangeGrant(t.Context(), s.Who, s.node(t, "plans"), to, space.GrantChange{Role: func(now access.Role) (access.Role, error) {
		told = now
		return now, nil
	}})
	if err != nil || told != access.Manager {
		t.Errorf("told %q (%v)", told, err)
	}
}

// Listings show how an item is shared, and a folder's shared members can be requested.
func TestSharesInFolder(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.group(t, "Staff")
	for _, dir := range []string{"dir", "dir/all", "dir/none", "dir/deep", "dir/deep/below"} {
		s.Do(t, "MKCOL "+home+dir).Want(t, 201)
	}
	s.Do(t, "PUT "+home+"dir/f", "", "x").Want(t, 201)
	for _, how := range []string{"0&shareWith=bob&permissions=15", "1&shareWith=staff&permissions=1", "3"} {
		s.share(t, "path=/dir/all&shareType="+how)
	}
	s.share(t, "path=/dir/f&shareType=3")
	s.share(t, "path=/dir/deep/below&shareType=3")
	s.share(t, "path=/dir&shareType=0&shareWith=bob&permissions=31")
	in := s.Do(t, "GET "+ocs+"shares?path=/dir&subfiles=true").Want(t, 200).Has(t, "<path>/dir/f<", "<path>/dir/all<", "<share_with>bob<", "<share_with>Staff<")
	if n := strings.Count(in.Body, "<element>"); n != 4 {
		t.Errorf("%d shares in the folder, want 4", n)
	}
	const types = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:share-types/></d:prop></d:propfind>`
	of := func(who, path string) map[string]string {
		t.Helper()
		body := s.Do(t, "PROPFIND "+path, "Depth: 1", davtest.AuthHeader(who), "", types).Want(t, 207).Body
		found := map[string]string{}
		for _, m := range regexp.MustCompile(`(?s)<d:href>([^<]*)</d:href>.*?</d:response>`).FindAllStringSubmatch(body, -1) {
			name := strings.TrimSuffix(m[1], "/")
			for _, one := range regexp.MustCompile(`<oc:share-type>(\d)<`).FindAllStringSubmatch(m[0], -1) {
				found[name[strings.LastIndex(name, "/")+1:]] += one[1]
			}
		}
		return found
	}
	want := map[string]string{"dir": "0", "all": "013", "f": "3"}
	if got := of("ann", home+"dir"); !maps.Equal(got, want) {
		t.Errorf("ann sees %v, want %v", got, want)
	}
	if got := of("bob", shared+"/dir"); len(got) != 0 { // an editor, who shares nothing
		t.Errorf("bob sees %v", got)
	}
	s.grant(t, "dir", access.Manager, 0)
	if got := of("bob", shared+"/dir"); got["f"] != "3" {
		t.Errorf("as a manager bob sees %v", got)
	}
}

// A share's number is never reused; it ends with the share, and a share that is restored before
// keeps it.
func TestShareNumbersAreNeverReused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "PUT "+home+"f", "", "x").Want(t, 201)
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
	s.Do(t, "DELETE "+ocs+"shares/"+role).Want(t, 200)
	if again := s.share(t, bob); again != role {
		t.Errorf("it had the number %s and has %s", role, again)
	}
	s.Do(t, "DELETE "+ocs+"shares/"+role).Want(t, 200)
	s.Do(t, "DELETE "+ocs+"shares/"+link).Want(t, 200)
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
	s.CreateUser(t, "bob")
	admin := s.Who
	admin.Admin = true
	if _, err := s.Spaces.Create(t.Context(), admin, space.NewSpace{Name: "Design"}, nil); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "MKCOL "+home+"Spaces/Design/plan").Want(t, 201)
	role := s.share(t, "path=/Spaces/Design/plan&shareType=0&shareWith=bob&permissions=1")
	link := s.share(t, "path=/Spaces/Design/plan&shareType=3")
	for _, number := range []string{role, link} {
		s.Do(t, "GET "+ocs+"shares/"+number).Want(t, 200).Has(t, "<path>/Spaces/Design/plan<", "<uid_owner>ann<", "<uid_file_owner>Design<")
	}
	s.Do(t, "GET "+ocs+"shares?path=/Spaces/Design/plan").Want(t, 200).Has(t, "<id>"+role+"<", "<id>"+link+"<")
	s.Do(t, "GET "+ocs+"shares?path=/Spaces&format=json").Want(t, 200).Has(t, `"data":[]`) // no folder of anybody's
	s.Do(t, "POST "+ocs+"shares?path=/Spaces&shareType=3").Want(t, 403)
	s.Do(t, "GET "+ocs+"shares?shared_with_me=true", davtest.AuthHeader("bob")).Want(t, 200).Has(t, "<uid_owner>Design<", "<file_target>/Shared with me/plan<")
	s.Do(t, "POST "+ocs+"shares?path=/&shareType=3").Want(t, 400) // nobody is given all of a drive
	s.Do(t, "POST "+ocs+"shares?path=/&shareType=0&shareWith=bob").Want(t, 400)
}
