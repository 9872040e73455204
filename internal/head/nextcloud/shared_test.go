package nextcloud_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload"
)

const (
	bobs   = "/remote.php/dav/files/bob/"
	shared = bobs + "Shared%20with%20me"
)

// node is a node of ann's.
func (s *stack) node(t testing.TB, path string) drive.NodeID {
	t.Helper()
	at, err := drive.ParsePath("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return s.must(t)(s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: at})).ID
}

// grant gives bob a role at something of ann's.
func (s *stack) grant(t testing.TB, path string, role access.Role, life time.Duration) {
	t.Helper()
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.People["bob"].User)}
	if _, err := s.Spaces.Grant(t.Context(), s.Who, space.NewGrant{Node: s.node(t, path), To: to, Role: role, Life: life}, nil); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) ungrant(t testing.TB, path string) {
	t.Helper()
	if err := s.Spaces.Ungrant(t.Context(), s.Who, s.node(t, path), drive.PrincipalID(s.People["bob"].User), false); err != nil {
		t.Fatal(err)
	}
}

// bobsTag is the tag of a folder for bob; empty: it is not there.
func (s *stack) bobsTag(t testing.TB, path string) string {
	t.Helper()
	a := s.Do(t, "PROPFIND "+path, "Depth: 0", davtest.AuthHeader("bob"), "", ask)
	if a.Status == 404 {
		return ""
	}
	return a.Want(t, 207).Between(t, "<d:getetag>", "</d:getetag>")
}

// N1 also holds for shared items: any change in them, or of the caller's rights there, changes the
// tags from there up to the root.
func TestTagsOfWhatIsShared(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	for _, dir := range []string{"team", "team/sub", "team/other", "private", "late"} {
		s.Do(t, "MKCOL "+home+dir).Want(t, 201)
	}
	s.Do(t, "PUT "+home+"file", "", "shared alone").Want(t, 201)
	file := s.node(t, "file")
	s.Do(t, "MKCOL "+bobs+"own", davtest.AuthHeader("bob")).Want(t, 201)
	const root, team, sub, other, own = bobs, shared + "/team", shared + "/team/sub", shared + "/team/other", bobs + "own"
	tags := func() map[string]string {
		all := map[string]string{}
		for _, path := range []string{root, shared, team, sub, other, own} {
			all[path] = s.bobsTag(t, path)
		}
		return all
	}
	hide := func(hidden bool) {
		if err := s.Spaces.SetMount(t.Context(), s.People["bob"], file, access.MountChange{Hidden: &hidden}); err != nil {
			t.Fatal(err)
		}
	}
	every := []string{root, shared, team, sub, other}
	was := tags()
	for _, step := range []struct {
		what    string
		do      func()
		changed []string
	}{
		{"a share", func() { s.grant(t, "team", access.Viewer, 0) }, every},
		{"nothing", func() {}, nil},
		{"a new file", func() { s.Do(t, "PUT "+home+"team/sub/f", "", "one").Want(t, 201) }, []string{root, shared, team, sub}},
		{"other content", func() { s.Do(t, "PUT "+home+"team/sub/f", "", "two").Want(t, 204) }, []string{root, shared, team, sub}},
		{"one less", func() { s.Do(t, "DELETE "+home+"team/sub/f").Want(t, 204) }, []string{root, shared, team, sub}},
		{"what is not shared", func() { s.Do(t, "PUT "+home+"private/f", "", "one").Want(t, 201) }, nil},
		{"a wider role", func() { s.grant(t, "team", access.Editor, 0) }, every},
		{"a part is hidden", func() { s.grant(t, "team/other", access.None, 0) }, every},
		{"and shown", func() { s.ungrant(t, "team/other") }, every},
		{"a narrower role", func() { s.grant(t, "team", access.Viewer, 0) }, every},
		{"a second share", func() { s.grant(t, "late", access.Viewer, time.Hour) }, every},
		{"which ends", func() { s.Clock.Advance(2 * time.Hour) }, every},
		{"a file alone", func() { s.grant(t, "file", access.Viewer, 0) }, every},
		{"its content", func() { s.Do(t, "PUT "+home+"file", "", "another").Want(t, 204) }, []string{root, shared}},
		{"out of sight", func() { hide(true) }, []string{root, shared}},
		{"and back", func() { hide(false) }, []string{root, shared}},
		{"another name", func() { s.Do(t, "MOVE "+home+"file", "Destination: "+home+"file2").Want(t, 201) }, []string{root, shared}},
		{"something of one's own", func() { s.Do(t, "PUT "+bobs+"own/f", davtest.AuthHeader("bob"), "", "one").Want(t, 201) }, []string{root, own}},
		{"the share is taken", func() { s.ungrant(t, "team") }, every},
	} {
		step.do()
		now := tags()
		check(t, step.what, was, now, step.changed)
		was = now
	}
	listing := s.Do(t, "PROPFIND "+shared, "Depth: 1", davtest.AuthHeader("bob"), "", ask).Want(t, 207)
	if strings.Contains(listing.Body, "team") {
		t.Error(listing.Body)
	}
}

// A chunked upload can end in a shared folder.
func TestChunksIntoWhatIsShared(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	const id = "/remote.php/dav/uploads/bob/t"
	to := "Destination: " + shared + "/team/f"
	s.Do(t, "MKCOL "+id, to, davtest.AuthHeader("bob")).Want(t, 201)
	s.Do(t, "MKCOL "+id, to, davtest.AuthHeader("bob")).Want(t, 405)
	s.Do(t, "PUT "+id+"/1", to, davtest.AuthHeader("bob"), "", "one ").Want(t, 201)
	s.Do(t, "PUT "+id+"/2", davtest.AuthHeader("bob"), "", "two").Want(t, 201) // not all clients say it each time
	s.Do(t, "PROPFIND "+id, "Depth: 1", davtest.AuthHeader("bob")).Want(t, 207).Has(t, id+"/00002<")
	s.Do(t, "MOVE "+id+"/.file", to, davtest.AuthHeader("bob")).Want(t, 201)
	if got := s.read(t, "team/f"); got != "one two" {
		t.Errorf("%q", got)
	}
	s.Do(t, "MKCOL "+id, to, davtest.AuthHeader("bob")).Want(t, 201)
	s.Do(t, "DELETE "+id, davtest.AuthHeader("bob")).Want(t, 204)
	s.Do(t, "PROPFIND "+id, to, davtest.AuthHeader("bob")).Want(t, 404)
	s.CheckLedger(t, s.Who)
}

// When a user loses the right to write to a folder, a chunked upload into it ends with its next
// request or by housekeeping. The bytes reserved in the owner's account are then released, not only
// at expiry.
func TestTransferEndsWithWriteAccess(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"PUT /2", "MOVE /.file", "PROPFIND ", "DELETE ", "MKCOL ", "nothing"} {
		t.Run(ask, func(t *testing.T) {
			s := newStack(t)
			s.CreateUser(t, "bob")
			s.Do(t, "MKCOL "+home+"team").Want(t, 201)
			s.grant(t, "team", access.Editor, 0)
			const id = "/remote.php/dav/uploads/bob/t"
			to := "Destination: " + shared + "/team/f"
			s.Do(t, "MKCOL "+id, to, davtest.AuthHeader("bob"), "OC-Total-Length: 1000000").Want(t, 201)
			s.Do(t, "PUT "+id+"/1", to, davtest.AuthHeader("bob"), "", "one").Want(t, 201)
			if held, _ := s.Used(t, s.Who); held < 1_000_000 {
				t.Fatalf("%d bytes are reserved", held)
			}
			if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err != nil {
				t.Fatal(err)
			}
			s.Do(t, "PROPFIND "+id, to, davtest.AuthHeader("bob")).Want(t, 207)
			s.ungrant(t, "team")
			verb, name, _ := strings.Cut(ask, " ")
			body := []string{to, davtest.AuthHeader("bob")}
			if verb == "PUT" {
				body = append(body, "", "two")
			}
			if ask == "nothing" {
				if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err != nil {
					t.Error(err)
				}
			} else if got := s.Do(t, verb+" "+id+name, body...); got.Status < 400 || got.Status >= 500 {
				t.Errorf("status %d\n%s", got.Status, got.Body)
			}
			if held, _ := s.Used(t, s.Who); held != 0 {
				t.Errorf("%d bytes are reserved yet", held)
			}
			s.CheckLedger(t, s.Who)
		})
	}
}

// An upload that cannot be ended does not keep those behind it: their reservations go back in the
// same round.
func TestHousekeepingEndsWhatItCan(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	for _, id := range []string{"a", "b", "c"} {
		to := "Destination: " + shared + "/team/" + id
		s.Do(t, "MKCOL /remote.php/dav/uploads/bob/"+id, to, davtest.AuthHeader("bob"), "OC-Total-Length: 1000").Want(t, 201)
	}
	s.ungrant(t, "team")
	damage := func(digests string) {
		t.Helper()
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			var first string
			if err := tx.QueryRow(ctx, "SELECT MIN(id) FROM uploads").Scan(&first); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE uploads SET digests = ? WHERE id = ?", digests, first)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	damage("{")
	if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err == nil {
		t.Error("nobody is told of the one that stays")
	}
	if held, _ := s.Used(t, s.Who); held != 1000 {
		t.Errorf("%d bytes are reserved, want those of the first", held)
	}
	damage("{}")
	if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err != nil {
		t.Error(err)
	}
	if held, _ := s.Used(t, s.Who); held != 0 {
		t.Errorf("%d bytes are reserved yet", held)
	}
}

// What is a favourite for the clients has a star on the pages, and nothing else: not for others,
// and not as a property of the file.
func TestFavouritesAreStars(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.Do(t, "PUT "+home+"team/a%26b", "", "x").Want(t, 201)
	s.Do(t, "PUT "+home+"own", "", "x").Want(t, 201)
	s.grant(t, "team", access.Viewer, 0)
	const (
		set = `<d:propertyupdate xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:set><d:prop><oc:favorite>%s</oc:favorite></d:prop></d:set></d:propertyupdate>`
		get = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:favorite/></d:prop></d:propfind>`
		all = `<oc:filter-files xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:favorite/></d:prop>` +
			`<oc:filter-rules><oc:favorite>1</oc:favorite></oc:filter-rules></oc:filter-files>`
	)
	is := func(path, who, want string) {
		t.Helper()
		got := s.Do(t, "PROPFIND "+path, "Depth: 0", davtest.AuthHeader(who), "", get).Want(t, 207).Between(t, "favorite", "</oc:favorite>")
		if !strings.HasSuffix(got, ">"+want) {
			t.Errorf("%s is a favourite of %s: %s, want %s", path, who, got, want)
		}
	}
	s.Do(t, "PROPPATCH "+home+"team/a%26b", "", strings.Replace(set, "%s", "1", 1)).Want(t, 207)
	s.Do(t, "PROPPATCH "+shared+"/team/a%26b", davtest.AuthHeader("bob"), "", strings.Replace(set, "%s", "1", 1)).Want(t, 207) // a viewer may
	is(home+"team/a%26b", "ann", "1")
	is(home+"own", "ann", "0")
	is(shared+"/team/a%26b", "bob", "1")
	is(shared+"/team", "bob", "0")
	stars, err := files.NewQuickAccess(s.Files, star.New(s.DB, s.Clock.Now)).StarredIDs(t.Context(), s.Who)
	if err != nil || len(stars) != 1 || stars[0] != s.node(t, "team/a&b") {
		t.Errorf("ann has the stars %v (%v)", stars, err)
	}
	anns := s.Do(t, "REPORT "+home, "", all).Want(t, 207).Has(t, "<d:href>"+home+"team/a%26b</d:href>", ">1</oc:favorite>")
	if strings.Contains(anns.Body, "own<") {
		t.Error(anns.Body)
	}
	s.Do(t, "REPORT "+bobs, davtest.AuthHeader("bob"), "", all).Want(t, 207).Has(t, "<d:href>"+shared+"/team/a%26b</d:href>")
	if none := s.Do(t, "REPORT "+bobs, davtest.AuthHeader("bob"), "", strings.Replace(all, "<oc:favorite>1</oc:favorite>", "<oc:systemtag>1</oc:systemtag>", 1)).Want(t, 207); strings.Contains(none.Body, "href") {
		t.Error(none.Body)
	}
	s.Do(t, "PROPPATCH "+home+"team/a%26b", "", strings.Replace(set, "%s", "0", 1)).Want(t, 207)
	is(home+"team/a%26b", "ann", "0")
	is(shared+"/team/a%26b", "bob", "1")
	s.ungrant(t, "team")
	if none := s.Do(t, "REPORT "+bobs, davtest.AuthHeader("bob"), "", all).Want(t, 207); strings.Contains(none.Body, "team") {
		t.Error(none.Body)
	}
}

// An item that a user shares with a group that includes the user is in the list of shares and
// remains writable by its owner, whatever the group's role.
func TestOwnFilesAreWritable(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	bob := s.CreateUser(t, "bob")
	for _, dir := range []string{"own", "own/sub", "own/hidden"} {
		s.Do(t, "MKCOL "+bobs+dir, davtest.AuthHeader("bob")).Want(t, 201)
	}
	at := func(name string) drive.NodeID {
		path := drive.Path{"own"}
		if name != "" {
			path = append(path, drive.Name(name))
		}
		return s.must(t)(s.Files.GetByPath(t.Context(), bob, drive.Address{Path: path})).ID
	}
	var team access.UserGroup
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if team, err = s.Access.CreateGroup(ctx, tx, "team"); err == nil {
			err = s.Access.AddMember(ctx, tx, team.ID, bob.User)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]access.Role{"": access.Viewer, "hidden": access.None} {
		to := space.Principal{Kind: access.Group, ID: drive.PrincipalID(team.ID)}
		if _, err := s.Spaces.Grant(t.Context(), bob, space.NewGrant{Node: at(name), To: to, Role: role}, nil); err != nil {
			t.Fatal(err)
		}
	}
	const ask = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:permissions/></d:prop></d:propfind>`
	for path, want := range map[string]string{"/own": "SGMCK", "/own/sub": "SGDNVCK", "/own/hidden": "SGDNVCK"} {
		a := s.Do(t, "PROPFIND "+shared+path, "Depth: 0", davtest.AuthHeader("bob"), "", ask).Want(t, 207)
		if !strings.Contains(a.Body, ">"+want+"<") {
			t.Errorf("%s: %s, want %s", path, a.Body, want)
		}
	}
	tag := func(of string) string { return s.bobsTag(t, of) }
	one, all := tag(shared+"/own"), tag(shared)
	s.Do(t, "PUT "+shared+"/own/f", davtest.AuthHeader("bob"), "", "x").Want(t, 201)
	if tag(shared+"/own") == one || tag(shared) == all {
		t.Error("a change of one's own does not change the tags")
	}
}

// A star belongs to the caller: a star on an item that is no longer visible hides no other star,
// another user's lock does not prevent it, and it is set together with the rest of a request or not
// at all.
func TestStarIsPerNode(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.Do(t, "PUT "+home+"team/f", "", "x").Want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	const (
		star = `<oc:favorite>1</oc:favorite>`
		head = `<d:propertyupdate xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:set><d:prop>`
		tail = `</d:prop></d:set></d:propertyupdate>`
		all  = `<oc:filter-files xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:favorite/></d:prop>` +
			`<oc:filter-rules><oc:favorite>1</oc:favorite></oc:filter-rules></oc:filter-files>`
	)
	starred := func() string { return s.Do(t, "REPORT "+bobs, davtest.AuthHeader("bob"), "", all).Want(t, 207).Body }
	big := `<x xmlns="urn:x">` + strings.Repeat("x", 20<<10) + `</x>`
	s.Do(t, "PROPPATCH "+shared+"/team/f", davtest.AuthHeader("bob"), "", head+star+big+tail).Want(t, 507)
	if body := starred(); strings.Contains(body, "href") {
		t.Errorf("a request that was refused has set a star: %s", body)
	}
	l := lock.Lock{Node: s.node(t, "team/f"), Exclusive: true, Timeout: time.Hour}
	if _, err := files.NewDAVMetadata(s.Files).Lock(t.Context(), s.Who, l, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "PROPPATCH "+shared+"/team/f", davtest.AuthHeader("bob"), "", head+star+tail).Want(t, 207)
	s.Do(t, "PROPPATCH "+shared+"/team/f", davtest.AuthHeader("bob"), "", head+`<x xmlns="urn:x">y</x>`+tail).Want(t, 423)
	s.Do(t, "PROPPATCH "+shared+"/team", davtest.AuthHeader("bob"), "", head+star+tail).Want(t, 207)
	s.Do(t, "PUT "+bobs+"own", davtest.AuthHeader("bob"), "", "x").Want(t, 201)
	s.Do(t, "PROPPATCH "+bobs+"own", davtest.AuthHeader("bob"), "", head+star+tail).Want(t, 207)
	if body := starred(); !strings.Contains(body, "team/f<") || !strings.Contains(body, "own<") {
		t.Errorf("bob's favourites are %s", body)
	}
	s.grant(t, "team", access.Uploader, 0)
	s.Clock.Advance(time.Minute)
	if body := starred(); strings.Contains(body, "team") || !strings.Contains(body, "own<") {
		t.Errorf("bob's favourites are %s", body)
	}
}

// The apps change a file that is shared individually, as its permissions say; they can create
// nothing beside it.
func TestAFileThatIsSharedByItselfIsChanged(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "PUT "+home+"solo.txt", "", "ann's").Want(t, 201)
	s.grant(t, "solo.txt", access.Editor, 0)
	s.Clock.Advance(time.Minute)
	bob := davtest.AuthHeader("bob")
	s.Do(t, "PUT "+shared+"/solo.txt", bob, "", "bob's").Want(t, 204)
	s.Do(t, "GET "+home+"solo.txt").Want(t, 200).Has(t, "bob's")
	s.Do(t, "PUT "+shared+"/other.txt", bob, "", "new").Want(t, 403)
	s.Do(t, "MKCOL "+shared+"/other", bob).Want(t, 403)
}

// A listing of the top shows that something is shared without reading all of it, which would keep a
// name for each.
func TestTopDoesNotReadAllThatIsShared(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	const properties = `<d:propfind xmlns:d="DAV:"><d:prop><d:displayname/></d:prop></d:propfind>`
	top := func() davtest.Response {
		return s.Do(t, "PROPFIND "+bobs, "Depth: 1", davtest.AuthHeader("bob"), "", properties).Want(t, 207)
	}
	if strings.Contains(top().Body, "Shared%20with%20me") {
		t.Error("nothing is shared, and the top shows the folder of what is")
	}
	s.grant(t, "team", access.Viewer, 0)
	if !strings.Contains(top().Body, "Shared%20with%20me") {
		t.Error("the top does not show the folder of what is shared")
	}
	kept := func() (n int) {
		if err := s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM mounts").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := kept(); n != 0 {
		t.Errorf("a listing of the top has read all that is shared: %d names are kept", n)
	}
	s.Do(t, "PROPFIND "+shared, "Depth: 1", davtest.AuthHeader("bob"), "", properties).Want(t, 207)
	if n := kept(); n != 1 {
		t.Errorf("%d names are kept after a listing of what is shared", n)
	}
}
