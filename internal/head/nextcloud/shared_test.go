package nextcloud_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/star"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/upload"
)

const (
	bobs   = "/remote.php/dav/files/bob/"
	shared = bobs + "Shared%20with%20me"
)

// node is a node of ann's.
func (s *stack) node(t *testing.T, path string) drive.NodeID {
	t.Helper()
	at, err := drive.ParsePath("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return s.must(t)(s.files.GetByPath(t.Context(), s.who, drive.Address{Path: at})).ID
}

// grant gives bob a role at something of ann's.
func (s *stack) grant(t *testing.T, path string, role access.Role, life time.Duration) {
	t.Helper()
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.people["bob"].User)}
	if _, err := s.spaces.Grant(t.Context(), s.who, space.NewGrant{Node: s.node(t, path), To: to, Role: role, Life: life}, nil); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) ungrant(t *testing.T, path string) {
	t.Helper()
	if err := s.spaces.Ungrant(t.Context(), s.who, s.node(t, path), drive.PrincipalID(s.people["bob"].User), false); err != nil {
		t.Fatal(err)
	}
}

// bobsTag is the tag of a folder for bob; empty: it is not there.
func (s *stack) bobsTag(t *testing.T, path string) string {
	t.Helper()
	a := s.do(t, "PROPFIND "+path, "Depth: 0", as("bob"), "", ask)
	if a.status == 404 {
		return ""
	}
	return a.want(t, 207).between(t, "<D:getetag>", "</D:getetag>")
}

// N1 holds for what others share, too: whatever happens in it, and to what the caller may do and
// see there, changes the tags from there up to the top.
func TestTagsOfWhatIsShared(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	for _, dir := range []string{"team", "team/sub", "team/other", "private", "late"} {
		s.do(t, "MKCOL "+home+dir).want(t, 201)
	}
	s.do(t, "PUT "+home+"file", "", "shared alone").want(t, 201)
	file := s.node(t, "file")
	s.do(t, "MKCOL "+bobs+"own", as("bob")).want(t, 201)
	const root, team, sub, other, own = bobs, shared + "/team", shared + "/team/sub", shared + "/team/other", bobs + "own"
	tags := func() map[string]string {
		all := map[string]string{}
		for _, path := range []string{root, shared, team, sub, other, own} {
			all[path] = s.bobsTag(t, path)
		}
		return all
	}
	hide := func(hidden bool) {
		if err := s.spaces.SetMount(t.Context(), s.people["bob"], file, access.MountChange{Hidden: &hidden}); err != nil {
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
		{"a new file", func() { s.do(t, "PUT "+home+"team/sub/f", "", "one").want(t, 201) }, []string{root, shared, team, sub}},
		{"other content", func() { s.do(t, "PUT "+home+"team/sub/f", "", "two").want(t, 204) }, []string{root, shared, team, sub}},
		{"one less", func() { s.do(t, "DELETE "+home+"team/sub/f").want(t, 204) }, []string{root, shared, team, sub}},
		{"what is not shared", func() { s.do(t, "PUT "+home+"private/f", "", "one").want(t, 201) }, nil},
		{"a wider role", func() { s.grant(t, "team", access.Editor, 0) }, every},
		{"a part is hidden", func() { s.grant(t, "team/other", access.None, 0) }, every},
		{"and shown", func() { s.ungrant(t, "team/other") }, every},
		{"a narrower role", func() { s.grant(t, "team", access.Viewer, 0) }, every},
		{"a second share", func() { s.grant(t, "late", access.Viewer, time.Hour) }, every},
		{"which ends", func() { s.Clock.Advance(2 * time.Hour) }, every},
		{"a file alone", func() { s.grant(t, "file", access.Viewer, 0) }, every},
		{"its content", func() { s.do(t, "PUT "+home+"file", "", "another").want(t, 204) }, []string{root, shared}},
		{"out of sight", func() { hide(true) }, []string{root, shared}},
		{"and back", func() { hide(false) }, []string{root, shared}},
		{"another name", func() { s.do(t, "MOVE "+home+"file", "Destination: "+home+"file2").want(t, 201) }, []string{root, shared}},
		{"something of one's own", func() { s.do(t, "PUT "+bobs+"own/f", as("bob"), "", "one").want(t, 201) }, []string{root, own}},
		{"the share is taken", func() { s.ungrant(t, "team") }, every},
	} {
		step.do()
		now := tags()
		check(t, step.what, was, now, step.changed)
		was = now
	}
	listing := s.do(t, "PROPFIND "+shared, "Depth: 1", as("bob"), "", ask).want(t, 207)
	if strings.Contains(listing.body, "team") {
		t.Error(listing.body)
	}
}

// A large file goes into a folder that is shared by name, too.
func TestChunksIntoWhatIsShared(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "MKCOL "+home+"team").want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	const id = "/remote.php/dav/uploads/bob/t"
	to := "Destination: " + shared + "/team/f"
	s.do(t, "MKCOL "+id, to, as("bob")).want(t, 201)
	s.do(t, "MKCOL "+id, to, as("bob")).want(t, 405)
	s.do(t, "PUT "+id+"/1", to, as("bob"), "", "one ").want(t, 201)
	s.do(t, "PUT "+id+"/2", as("bob"), "", "two").want(t, 201) // not all clients say it each time
	s.do(t, "PROPFIND "+id, "Depth: 1", as("bob")).want(t, 207).has(t, id+"/00002<")
	s.do(t, "MOVE "+id+"/.file", to, as("bob")).want(t, 201)
	if got := s.read(t, "team/f"); got != "one two" {
		t.Errorf("%q", got)
	}
	s.do(t, "MKCOL "+id, to, as("bob")).want(t, 201)
	s.do(t, "DELETE "+id, as("bob")).want(t, 204)
	s.do(t, "PROPFIND "+id, to, as("bob")).want(t, 404)
	s.CheckLedger(t, s.who)
}

// Whoever may not send to a folder any more has their transfer ended by the next thing they ask of
// it, or by housekeeping: what was reserved for it in the owner's account goes back then, and not
// at its expiry.
func TestATransferEndsWithTheRight(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"PUT /2", "MOVE /.file", "PROPFIND ", "DELETE ", "MKCOL ", "nothing"} {
		t.Run(ask, func(t *testing.T) {
			s := newStack(t)
			s.person(t, "bob")
			s.do(t, "MKCOL "+home+"team").want(t, 201)
			s.grant(t, "team", access.Editor, 0)
			const id = "/remote.php/dav/uploads/bob/t"
			to := "Destination: " + shared + "/team/f"
			s.do(t, "MKCOL "+id, to, as("bob"), "OC-Total-Length: 1000000").want(t, 201)
			s.do(t, "PUT "+id+"/1", to, as("bob"), "", "one").want(t, 201)
			if held, _ := s.Used(t, s.who); held < 1_000_000 {
				t.Fatalf("%d bytes are reserved", held)
			}
			if err := upload.EndAllRevoked(t.Context(), s.Sessions); err != nil {
				t.Fatal(err)
			}
			s.do(t, "PROPFIND "+id, to, as("bob")).want(t, 207)
			s.ungrant(t, "team")
			verb, name, _ := strings.Cut(ask, " ")
			body := []string{to, as("bob")}
			if verb == "PUT" {
				body = append(body, "", "two")
			}
			if ask == "nothing" {
				if err := upload.EndAllRevoked(t.Context(), s.Sessions); err != nil {
					t.Error(err)
				}
			} else if got := s.do(t, verb+" "+id+name, body...); got.status < 400 || got.status >= 500 {
				t.Errorf("status %d\n%s", got.status, got.body)
			}
			if held, _ := s.Used(t, s.who); held != 0 {
				t.Errorf("%d bytes are reserved yet", held)
			}
			s.CheckLedger(t, s.who)
		})
	}
}

// An upload that cannot be ended does not keep those behind it: their reservations go back in the
// same round.
func TestHousekeepingEndsWhatItCan(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "MKCOL "+home+"team").want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	for _, id := range []string{"a", "b", "c"} {
		to := "Destination: " + shared + "/team/" + id
		s.do(t, "MKCOL /remote.php/dav/uploads/bob/"+id, to, as("bob"), "OC-Total-Length: 1000").want(t, 201)
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
	if err := upload.EndAllRevoked(t.Context(), s.Sessions); err == nil {
		t.Error("nobody is told of the one that stays")
	}
	if held, _ := s.Used(t, s.who); held != 1000 {
		t.Errorf("%d bytes are reserved, want those of the first", held)
	}
	damage("{}")
	if err := upload.EndAllRevoked(t.Context(), s.Sessions); err != nil {
		t.Error(err)
	}
	if held, _ := s.Used(t, s.who); held != 0 {
		t.Errorf("%d bytes are reserved yet", held)
	}
}

// What is a favourite for the clients has a star on the pages, and nothing else: not for others,
// and not as a property of the file.
func TestFavouritesAreStars(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "MKCOL "+home+"team").want(t, 201)
	s.do(t, "PUT "+home+"team/a%26b", "", "x").want(t, 201)
	s.do(t, "PUT "+home+"own", "", "x").want(t, 201)
	s.grant(t, "team", access.Viewer, 0)
	const (
		set = `<d:propertyupdate xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:set><d:prop><oc:favorite>%s</oc:favorite></d:prop></d:set></d:propertyupdate>`
		get = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:favorite/></d:prop></d:propfind>`
		all = `<oc:filter-files xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:favorite/></d:prop>` +
			`<oc:filter-rules><oc:favorite>1</oc:favorite></oc:filter-rules></oc:filter-files>`
	)
	is := func(path, who, want string) {
		t.Helper()
		got := s.do(t, "PROPFIND "+path, "Depth: 0", as(who), "", get).want(t, 207).between(t, "favorite", "</favorite>")
		if !strings.HasSuffix(got, ">"+want) {
			t.Errorf("%s is a favourite of %s: %s, want %s", path, who, got, want)
		}
	}
	s.do(t, "PROPPATCH "+home+"team/a%26b", "", strings.Replace(set, "%s", "1", 1)).want(t, 207)
	s.do(t, "PROPPATCH "+shared+"/team/a%26b", as("bob"), "", strings.Replace(set, "%s", "1", 1)).want(t, 207) // a viewer may
	is(home+"team/a%26b", "ann", "1")
	is(home+"own", "ann", "0")
	is(shared+"/team/a%26b", "bob", "1")
	is(shared+"/team", "bob", "0")
	stars, err := files.NewShelf(s.files, star.New(s.DB, s.Clock.Now)).StarredIDs(t.Context(), s.who)
	if err != nil || len(stars) != 1 || stars[0] != s.node(t, "team/a&b") {
		t.Errorf("ann has the stars %v (%v)", stars, err)
	}
	anns := s.do(t, "REPORT "+home, "", all).want(t, 207).has(t, "<D:href>"+home+"team/a%26b</D:href>", ">1</favorite>")
	if strings.Contains(anns.body, "own<") {
		t.Error(anns.body)
	}
	s.do(t, "REPORT "+bobs, as("bob"), "", all).want(t, 207).has(t, "<D:href>"+shared+"/team/a%26b</D:href>")
	if none := s.do(t, "REPORT "+bobs, as("bob"), "", strings.Replace(all, "<oc:favorite>1</oc:favorite>", "<oc:systemtag>1</oc:systemtag>", 1)).want(t, 207); strings.Contains(none.body, "href") {
		t.Error(none.body)
	}
	s.do(t, "PROPPATCH "+home+"team/a%26b", "", strings.Replace(set, "%s", "0", 1)).want(t, 207)
	is(home+"team/a%26b", "ann", "0")
	is(shared+"/team/a%26b", "bob", "1")
	s.ungrant(t, "team")
	if none := s.do(t, "REPORT "+bobs, as("bob"), "", all).want(t, 207); strings.Contains(none.body, "team") {
		t.Error(none.body)
	}
}

// What somebody shares with a group that they are in is in their list, too, and still their own:
// clients write in it, whatever role the group has.
func TestOnesOwnIsNotReadOnly(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	bob := s.person(t, "bob")
	for _, dir := range []string{"own", "own/sub", "own/hidden"} {
		s.do(t, "MKCOL "+bobs+dir, as("bob")).want(t, 201)
	}
	at := func(name string) drive.NodeID {
		path := drive.Path{"own"}
		if name != "" {
			path = append(path, drive.Name(name))
		}
		return s.must(t)(s.files.GetByPath(t.Context(), bob, drive.Address{Path: path})).ID
	}
	var team access.Team
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
		if _, err := s.spaces.Grant(t.Context(), bob, space.NewGrant{Node: at(name), To: to, Role: role}, nil); err != nil {
			t.Fatal(err)
		}
	}
	const ask = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:permissions/></d:prop></d:propfind>`
	for path, want := range map[string]string{"/own": "SGMCK", "/own/sub": "SGDNVCK", "/own/hidden": "SGDNVCK"} {
		a := s.do(t, "PROPFIND "+shared+path, "Depth: 0", as("bob"), "", ask).want(t, 207)
		if !strings.Contains(a.body, ">"+want+"<") {
			t.Errorf("%s: %s, want %s", path, a.body, want)
		}
	}
	tag := func(of string) string { return s.bobsTag(t, of) }
	one, all := tag(shared+"/own"), tag(shared)
	s.do(t, "PUT "+shared+"/own/f", as("bob"), "", "x").want(t, 201)
	if tag(shared+"/own") == one || tag(shared) == all {
		t.Error("a change of one's own does not change the tags")
	}
}

// A star is the caller's own mark: one on what they may not look at any more hides none of the
// others, a lock of somebody else is not in its way, and it is set with the rest of a request or
// not at all.
func TestAStarStandsForItself(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.do(t, "MKCOL "+home+"team").want(t, 201)
	s.do(t, "PUT "+home+"team/f", "", "x").want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	const (
		star = `<oc:favorite>1</oc:favorite>`
		head = `<d:propertyupdate xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:set><d:prop>`
		tail = `</d:prop></d:set></d:propertyupdate>`
		all  = `<oc:filter-files xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:favorite/></d:prop>` +
			`<oc:filter-rules><oc:favorite>1</oc:favorite></oc:filter-rules></oc:filter-files>`
	)
	starred := func() string { return s.do(t, "REPORT "+bobs, as("bob"), "", all).want(t, 207).body }
	big := `<x xmlns="urn:x">` + strings.Repeat("x", 20<<10) + `</x>`
	s.do(t, "PROPPATCH "+shared+"/team/f", as("bob"), "", head+star+big+tail).want(t, 507)
	if body := starred(); strings.Contains(body, "href") {
		t.Errorf("a request that was refused has set a star: %s", body)
	}
	l := lock.Lock{Node: s.node(t, "team/f"), Exclusive: true, Lasts: time.Hour}
	if _, err := files.NewMarks(s.files).Lock(t.Context(), s.who, l); err != nil {
		t.Fatal(err)
	}
	s.do(t, "PROPPATCH "+shared+"/team/f", as("bob"), "", head+star+tail).want(t, 207)
	s.do(t, "PROPPATCH "+shared+"/team/f", as("bob"), "", head+`<x xmlns="urn:x">y</x>`+tail).want(t, 423)
	s.do(t, "PROPPATCH "+shared+"/team", as("bob"), "", head+star+tail).want(t, 207)
	s.do(t, "PUT "+bobs+"own", as("bob"), "", "x").want(t, 201)
	s.do(t, "PROPPATCH "+bobs+"own", as("bob"), "", head+star+tail).want(t, 207)
	if body := starred(); !strings.Contains(body, "team/f<") || !strings.Contains(body, "own<") {
		t.Errorf("bob's favourites are %s", body)
	}
	s.grant(t, "team", access.Uploader, 0)
	s.Clock.Advance(time.Minute)
	if body := starred(); strings.Contains(body, "team") || !strings.Contains(body, "own<") {
		t.Errorf("bob's favourites are %s", body)
	}
}
