package nextcloud_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The number of statements of a listing or a chunk does not depend on the folder's entries or on
// the number of shares.
func TestStatementsDoNotGrow(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	const properties = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:fileid/><oc:permissions/><oc:size/><oc:share-types/></d:prop></d:propfind>`
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	team, root := s.node(t, "team"), s.node(t, "")
	const id = "/remote.php/dav/uploads/bob/t"
	s.Do(t, "MKCOL "+id, "Destination: "+shared+"/team/f", davtest.AuthHeader("bob")).Want(t, 201)
	chunk := 0
	ask := func(what string, entries int) int {
		t.Helper()
		before := count.Total()
		if what == "a chunk" {
			chunk++
			s.Do(t, fmt.Sprintf("PUT %s/%d", id, chunk), davtest.AuthHeader("bob"), "", "x").Want(t, 201)
			return count.Total() - before
		}
		a := s.Do(t, "PROPFIND "+what, "Depth: 1", davtest.AuthHeader("bob"), "", properties).Want(t, 207)
		if got := strings.Count(a.Body, "<d:response>"); got < entries {
			t.Fatalf("%s lists %d", what, got)
		}
		return count.Total() - before
	}
	all := map[string]int{shared + "/team": 1, shared: 1, bobs: 0, "a chunk": 0} // how many entries for each folder that is planted
	few := map[string]int{}
	measure := func(folders int, each func(string, int)) {
		for what, n := range all {
			ask(what, n*folders) // numbers, marks and ways are remembered
			each(what, ask(what, n*folders))
		}
	}
	s.CreateFolders(t, s.Who, team, 0, 10, drive.UserID{})
	s.CreateFolders(t, s.Who, root, 0, 10, s.People["bob"].User)
	s.Clock.Advance(time.Minute)
	measure(10, func(what string, n int) { few[what] = n })
	s.CreateFolders(t, s.Who, team, 10, uploadtest.LongListing(), drive.UserID{})
	s.CreateFolders(t, s.Who, root, 10, uploadtest.LongListing(), s.People["bob"].User)
	measure(uploadtest.LongListing(), func(what string, n int) {
		if n > few[what]+30 { // some for each page of what is shared
			t.Errorf("%s: %d statements for 10 folders and %d for %d", what, few[what], n, uploadtest.LongListing())
		}
	})
}

// What a poll asks the database does not grow with how many spaces the caller is in, nor with how
// much is shared with them.
func TestAPollDoesNotGrowWithSpaces(t *testing.T) {
	t.Parallel()
	const properties = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:fileid/><oc:permissions/></d:prop></d:propfind>`
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	boss := drive.Who{User: s.Who.User, Account: s.Who.Account, Admin: true}
	s.CreateUser(t, "bob")
	spaces := 0
	add := func(n int) {
		for range n {
			spaces++
			made, err := s.Spaces.Create(t.Context(), boss, space.NewSpace{Name: fmt.Sprintf("Space %d", spaces), Manager: s.Who.User}, nil)
			if err != nil {
				t.Fatal(err)
			}
			role := []access.Role{access.Viewer, access.Editor, access.Manager}[spaces%3]
			to := space.Principal{Kind: access.User, Name: "bob"}
			if _, err := s.Spaces.Grant(t.Context(), s.Who, space.NewGrant{Node: made.Root, To: to, Role: role}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask := func(path, depth string) (statements int, body string) {
		before := count.Total()
		a := s.Do(t, "PROPFIND "+path, "Depth: "+depth, davtest.AuthHeader("bob"), "", properties).Want(t, 207)
		return count.Total() - before, a.Body
	}
	few := map[string]int{}
	for _, n := range []int{3, 12} {
		add(n)
		for _, path := range []string{bobs, bobs + "Spaces"} {
			for _, depth := range []string{"0", "1"} {
				ask(path, depth) // numbers and marks are remembered
				got, _ := ask(path, depth)
				if was := few[path+depth]; was == 0 {
					few[path+depth] = got
				} else if got != was {
					t.Errorf("depth %s of %s: %d statements with 3 spaces, and %d with %d", depth, path, was, got, spaces)
				}
			}
		}
	}
	// A space has one tag, wherever it is listed.
	_, all := ask(bobs+"Spaces", "1")
	for i := 1; i <= 3; i++ {
		_, own := ask(fmt.Sprintf("%sSpaces/Space%%20%d", bobs, i), "0")
		tag := davtest.Response{Body: own}.Between(t, "getetag>", "<")
		if !strings.Contains(all, tag) {
			t.Errorf("space %d has the tag %s, which is not in the listing", i, tag)
		}
	}
}

// The trash is sent page after page, and has each thing once.
func TestALongTrash(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	s := newStack(t)
	n := 2*uploadtest.LongListing() + 1 // more than two pages, where that is quick
	s.CreateFolders(t, s.Who, s.node(t, ""), 0, n, drive.UserID{})
	page, err := s.Tree.ChildIDs(t.Context(), s.DB, s.node(t, ""))
	if err != nil || len(page) != n {
		t.Fatalf("%d folders (%v)", len(page), err)
	}
	for some := range slices.Chunk(page, 50) {
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for _, id := range some {
				if _, err := s.Tree.Trash(ctx, tx, s.Who.Account, id, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	body := s.Do(t, "PROPFIND /remote.php/dav/trashbin/ann/trash", "Depth: 1").Want(t, 207).Body
	for i := range n {
		if got := strings.Count(body, fmt.Sprintf("<nc:trashbin-filename>n%d<", i)); got != 1 {
			t.Fatalf("n%d is listed %d times", i, got)
		}
	}
	if !strings.HasSuffix(body, "</d:multistatus>\n") {
		t.Error("it has no end")
	}
}
