package dav_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
)

// dying is a context that ends after a number of looks at it: the process dies between two steps
// of an operation.
type dying struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (d *dying) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left < 0 {
		return context.Canceled
	}
	return d.Context.Err()
}

// hide hides a node of ann's from bob.
func (s *stack) hide(t *testing.T, id drive.NodeID) {
	t.Helper()
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.People["bob"].User)}
	g := space.NewGrant{Node: id, To: to, Role: access.None}
	if _, err := s.Spaces.Grant(t.Context(), s.Who, g, nil); err != nil {
		t.Fatal(err)
	}
}

// idle returns an instance that executes the first transaction of a request and then dies.
func (s *stack) idle() *files.Files {
	return files.New(files.Options{
		DB: s.DB, Tree: s.Tree, Content: s.Content, Store: s.Local.Blobs, Now: s.Clock.Now, Access: s.Access, Direct: -1, Batch: 3,
	})
}

// at is a node of bob's, by its path or below a place.
func (s *stack) at(t testing.TB, who drive.Who, place, path string) files.NodeView {
	t.Helper()
	p, err := drive.ParsePath("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.Files.GetByPath(t.Context(), who, drive.Address{Place: place, Path: p})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// balanced checks both ledgers, and returns what each account is charged.
func (s *stack) balanced(t testing.TB) (ann, bob int64) {
	t.Helper()
	s.CheckLedger(t, s.Who)
	s.CheckLedger(t, s.People["bob"])
	ann, _ = s.Used(t, s.Who)
	bob, _ = s.Used(t, s.People["bob"])
	return ann, bob
}

// A move from one account to another is a copy, and then the source goes to the trash, with its
// history; properties that clients have set go with it.
func TestMoveAcrossAccounts(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	const set = `<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">kept</x></D:prop></D:set></D:propertyupdate>`
	const get = `<D:propfind xmlns:D="DAV:"><D:prop><x xmlns="urn:x"/></D:prop></D:propfind>`
	s.Do(t, "PUT /dav/files/file", davtest.AuthHeader("bob"), "", "one").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/file", davtest.AuthHeader("bob"), "", "content").Want(t, http.StatusNoContent)
	s.Do(t, "PROPPATCH /dav/files/file", davtest.AuthHeader("bob"), "", set).Want(t, http.StatusMultiStatus)
	s.Do(t, "MOVE /dav/files/file", "Destination: /dav/shared/team/file", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	s.Do(t, "GET /dav/files/file", davtest.AuthHeader("bob")).Want(t, http.StatusNotFound)
	s.Do(t, "GET /dav/files/team/file").Want(t, http.StatusOK).Has(t, "content")
	s.Do(t, "PROPFIND /dav/files/team/file", "Depth: 0", "", get).Want(t, http.StatusMultiStatus).Has(t, "kept")
	if ann, bob := s.balanced(t); ann != 7 || bob != 10 {
		t.Errorf("ann is charged %d bytes and bob %d", ann, bob)
	}
	s.Do(t, "MKCOL /dav/files/team/dir").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/team/dir/f", "", "deep").Want(t, http.StatusCreated)
	s.Do(t, "PROPPATCH /dav/files/team/dir/f", "", set).Want(t, http.StatusMultiStatus)
	s.Do(t, "MOVE /dav/shared/team/dir", "Destination: /dav/files/dir", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	s.Do(t, "GET /dav/files/team/dir").Want(t, http.StatusNotFound)
	s.Do(t, "PROPFIND /dav/files/dir/f", "Depth: 0", davtest.AuthHeader("bob"), "", get).Want(t, http.StatusMultiStatus).Has(t, "kept")
	s.balanced(t)
	s.Do(t, "PUT /dav/files/more", davtest.AuthHeader("bob"), "", "other").Want(t, http.StatusCreated)
	s.Do(t, "MOVE /dav/files/more", "Destination: /dav/shared/team/file", davtest.AuthHeader("bob")).Want(t, http.StatusNoContent)
	versions, err := s.Files.Versions(t.Context(), s.Who, s.at(t, s.Who, "", "team/file").ID, "", 10)
	if err != nil || len(versions.Items) != 2 {
		t.Errorf("a file that was moved over another is %d versions (%v)", len(versions.Items), err)
	}
	s.Do(t, "MOVE /dav/shared/team", "Destination: /dav/files/mine", davtest.AuthHeader("bob")).Want(t, http.StatusForbidden)
}

// The instance dies during a move, or the client stops waiting. The source still exists, and the
// same request continues the move. Nothing is copied or charged twice.
func TestInterruptedMoveBetweenAccountsContinues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source string
		bytes  int64
	}{"a file": {"file", 7}, "a folder": {"dir", 40}} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			withBob(t, s)
			bob := s.People["bob"]
			s.Do(t, "PUT /dav/files/file", davtest.AuthHeader("bob"), "", "content").Want(t, http.StatusCreated)
			s.Do(t, "MKCOL /dav/files/dir", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
			for i := range 10 {
				s.Do(t, "PUT /dav/files/dir/f"+strconv.Itoa(i), davtest.AuthHeader("bob"), "", "f at").Want(t, http.StatusCreated)
			}
			src, team := s.at(t, bob, "", c.source), s.at(t, s.Who, "", "team")
			to := files.Copy{Parent: team.ID, Name: "here", Conflict: drive.ConflictReplace}
			if r, err := s.idle().Copies.MoveAcrossAccounts(t.Context(), bob, src.ID, to); err != nil || r.Operation == nil {
				t.Fatal(r, err)
			}
			s.Do(t, "PROPFIND /dav/files/"+c.source, "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
			running, err := s.Files.Operations.ListRunning(t.Context(), drive.OperationID{}, 10)
			if err != nil || len(running) != 1 {
				t.Fatalf("%d operations run (%v)", len(running), err)
			}
			for range 2 { // by the client, or by whatever takes up what instances have left
				s.Do(t, "MOVE /dav/files/"+c.source, "Destination: /dav/shared/team/here", davtest.AuthHeader("bob"))
			}
			s.Do(t, "PROPFIND /dav/files/"+c.source, "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusNotFound)
			s.Do(t, "PROPFIND /dav/files/team/here", "Depth: 0").Want(t, http.StatusMultiStatus)
			if ann, _ := s.balanced(t); ann != c.bytes {
				t.Errorf("ann is charged %d bytes, want %d", ann, c.bytes)
			}
		})
	}
}

// What a locked folder holds does not leave it for another account, and no copy of it is shown.
func TestAMoveAcrossOutOfALockedFolder(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"file", "dir"} {
		s := newStack(t)
		withBob(t, s)
		bob := s.People["bob"]
		s.Do(t, "PUT /dav/files/team/file", "", "content").Want(t, http.StatusCreated)
		s.Do(t, "MKCOL /dav/files/team/dir").Want(t, http.StatusCreated)
		s.Do(t, "LOCK /dav/files/team", "Depth: 0", "", exclusive).Want(t, http.StatusOK)
		to := files.Copy{Parent: s.at(t, bob, "", "").ID, Name: "here", Conflict: drive.ConflictReplace}
		r, err := s.Files.Copies.MoveAcrossAccounts(t.Context(), bob, s.at(t, s.Who, "", "team/"+source).ID, to)
		if err == nil && r.Operation != nil {
			err = r.Operation.Outcome()
		}
		if !drive.IsKind(err, drive.Locked) {
			t.Errorf("%s: %v", source, err)
		}
		s.Do(t, "PROPFIND /dav/files/here", "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusNotFound)
		s.Do(t, "PROPFIND /dav/files/team/"+source, "Depth: 0").Want(t, http.StatusMultiStatus)
		s.balanced(t)
	}
}

// What is changed while a folder moves is not thrown away with the source: that stays, and the copy
// is not shown.
func TestAMoveAcrossKeepsWhatChanged(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	bob := s.People["bob"]
	s.Do(t, "MKCOL /dav/files/dir", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	for i := range 10 {
		s.Do(t, "PUT /dav/files/dir/f"+strconv.Itoa(i), davtest.AuthHeader("bob"), "", "f").Want(t, http.StatusCreated)
	}
	to := files.Copy{Parent: s.at(t, s.Who, "", "team").ID, Name: "here", Conflict: drive.ConflictReplace}
	r, err := s.idle().Copies.MoveAcrossAccounts(t.Context(), bob, s.at(t, bob, "", "dir").ID, to)
	if err != nil || r.Operation == nil {
		t.Fatal(r, err)
	}
	s.Do(t, "PUT /dav/files/dir/f0", davtest.AuthHeader("bob"), "", "what was written meanwhile").Want(t, http.StatusNoContent)
	if err := s.Files.Operations.Run(t.Context(), r.Operation.ID); err != nil {
		t.Fatal(err)
	}
	o, err := s.Files.Operations.Find(t.Context(), bob, r.Operation.ID)
	if err != nil || !drive.IsKind(o.Outcome(), drive.VersionChanged) {
		t.Errorf("it ended as %+v (%v)", o, err)
	}
	s.Do(t, "GET /dav/files/dir/f0", davtest.AuthHeader("bob")).Want(t, http.StatusOK).Has(t, "meanwhile")
	s.Do(t, "PROPFIND /dav/files/team/here", "Depth: 0").Want(t, http.StatusNotFound)
	if ann, _ := s.balanced(t); ann != 0 {
		t.Errorf("ann is charged %d bytes for a copy that is not there", ann)
	}
	s.Do(t, "MOVE /dav/files/dir", "Destination: /dav/shared/team/here", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	s.Do(t, "GET /dav/files/team/here/f0").Want(t, http.StatusOK).Has(t, "meanwhile")
}

// What a COPY or MOVE replaces goes only when what replaces it is there: not when there is no room,
// or it may not be done.
func TestOverwrittenNodeStaysUntilCopyCompletes(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	s.Do(t, "PUT /dav/files/big", davtest.AuthHeader("bob"), "", strings.Repeat("x", 100)).Want(t, http.StatusCreated)
	s.Do(t, "MKCOL /dav/files/bigs", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/bigs/f", davtest.AuthHeader("bob"), "", strings.Repeat("x", 100)).Want(t, http.StatusCreated)
	s.Do(t, "MKCOL /dav/files/team/dir").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/team/dir/kept", "", "kept").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/team/file", "", "kept").Want(t, http.StatusCreated)
	s.SetTotal(t, s.Who, 50)
	for _, verb := range []string{"COPY", "MOVE"} {
		for _, from := range []string{"big", "bigs"} {
			for _, to := range []string{"dir", "file"} {
				got := s.Do(t, verb+" /dav/files/"+from, "Destination: /dav/shared/team/"+to, davtest.AuthHeader("bob"))
				if got.Status != http.StatusInsufficientStorage {
					t.Errorf("%s of %s to %s: status %d\n%s", verb, from, to, got.Status, got.Body)
				}
				s.Do(t, "GET /dav/files/team/dir/kept").Want(t, http.StatusOK).Has(t, "kept")
				s.Do(t, "GET /dav/files/team/file").Want(t, http.StatusOK).Has(t, "kept")
				s.Do(t, "PROPFIND /dav/files/"+from, "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
			}
		}
	}
	s.balanced(t)
	s.SetTotal(t, s.Who, drive.GiB)
	s.Do(t, "COPY /dav/files/bigs", "Depth: 0", "Destination: /dav/shared/team/dir", davtest.AuthHeader("bob")).Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/team/dir/kept").Want(t, http.StatusNotFound)
	s.Do(t, "MOVE /dav/files/big", "Destination: /dav/shared/team/dir", davtest.AuthHeader("bob")).Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/team/dir").Want(t, http.StatusOK).Has(t, "xxx")
	s.Do(t, "MOVE /dav/files/bigs", "Destination: /dav/shared/team/file", davtest.AuthHeader("bob")).Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/team/file/f").Want(t, http.StatusOK).Has(t, "xxx")
	s.balanced(t)
}

// If the source is locked after its copy exists, or the right to delete it ends, the source stays
// and the caller gets an error.
func TestRefusedMoveAcrossKeepsSource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(*testing.T, *stack)
		kind      drive.Kind
	}{
		"locked": {func(t *testing.T, s *stack) {
			l := lock.Lock{Node: s.at(t, s.Who, "", "team/file").ID, Exclusive: true, Timeout: time.Hour}
			if _, err := files.NewDAVMetadata(s.Files).Lock(t.Context(), s.Who, l, tree.Expect{}); err != nil {
				t.Fatal(err)
			}
		}, drive.Locked},
		"not allowed any more": {func(t *testing.T, s *stack) { s.grant(t, "bob", access.Viewer) }, drive.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			withBob(t, s)
			bob := s.People["bob"]
			s.Do(t, "PUT /dav/files/team/file", "", "content").Want(t, http.StatusCreated)
			root := s.at(t, bob, "", "")
			to := files.Copy{Parent: root.ID, Name: "here", Conflict: drive.ConflictReplace}
			r, err := s.idle().Copies.MoveAcrossAccounts(t.Context(), bob, s.at(t, s.Who, "", "team/file").ID, to)
			if err != nil || r.Operation == nil {
				t.Fatal(r, err)
			}
			c.meanwhile(t, s)
			if err := s.Files.Operations.Run(t.Context(), r.Operation.ID); err != nil {
				t.Fatal(err)
			}
			if o, err := s.Files.Operations.Find(t.Context(), bob, r.Operation.ID); err != nil || !drive.IsKind(o.Outcome(), c.kind) {
				t.Errorf("it ended as %+v (%v)", o, err)
			}
			s.Do(t, "GET /dav/files/team/file").Want(t, http.StatusOK).Has(t, "content")
			s.Do(t, "GET /dav/files/here", davtest.AuthHeader("bob")).Want(t, http.StatusOK).Has(t, "content")
			s.balanced(t)
		})
	}
}

// A folder with a part that is hidden from the caller is not moved, even if the part becomes hidden
// during the move, at whatever step and for however long. The copy would lack the part, and the
// source would be deleted unseen.
func TestMoveBetweenAccountsKeepsHiddenNodes(t *testing.T) {
	t.Parallel()
	for steps, over := 0, false; !over; steps++ {
		t.Run(strconv.Itoa(steps), func(t *testing.T) { over = hideAfter(t, steps, false) })
		t.Run(strconv.Itoa(steps)+" for a step", func(t *testing.T) { hideAfter(t, steps, true) })
	}
}

// hideAfter hides a part of what moves after some steps, and perhaps shows it again after one
// more. It reports whether the move had ended before.
func hideAfter(t *testing.T, steps int, shown bool) (over bool) {
	t.Helper()
	s := newStack(t)
	withBob(t, s)
	bob := s.People["bob"]
	for _, folder := range []string{"dir", "dir/a", "dir/z", "dir/zz", "dir/zzz"} {
		s.Do(t, "MKCOL /dav/files/team/"+folder).Want(t, http.StatusCreated)
		s.Do(t, "PUT /dav/files/team/"+folder+"/f", "", "content").Want(t, http.StatusCreated)
	}
	to := files.Copy{Parent: s.at(t, bob, "", "").ID, Name: "here", Conflict: drive.ConflictReplace}
	r, err := s.idle().Copies.MoveAcrossAccounts(t.Context(), bob, s.at(t, s.Who, "", "team/dir").ID, to)
	if err != nil || r.Operation == nil {
		t.Fatal(r, err)
	}
	run := func(steps int) (over bool) {
		return s.idle().Operations.Run(&dying{Context: t.Context(), left: steps}, r.Operation.ID) == nil
	}
	if run(steps) {
		s.Do(t, "GET /dav/files/here/z/f", davtest.AuthHeader("bob")).Want(t, http.StatusOK)
		return true
	}
	hidden := s.at(t, s.Who, "", "team/dir/z").ID
	s.hide(t, hidden)
	if shown {
		run(3)
		s.unshare(t, s.Who, hidden)
	}
	if err := s.Files.Operations.Run(t.Context(), r.Operation.ID); err != nil {
		t.Fatal(err)
	}
	o, err := s.Files.Operations.Find(t.Context(), bob, r.Operation.ID)
	if err != nil || !shown && !drive.IsKind(o.Outcome(), drive.Forbidden) {
		t.Errorf("it ended as %+v (%v)", o, err)
	}
	if shown && o.State == files.Done {
		s.Do(t, "GET /dav/files/here/z/f", davtest.AuthHeader("bob")).Want(t, http.StatusOK)
		return false
	}
	s.Do(t, "GET /dav/files/team/dir/z/f").Want(t, http.StatusOK).Has(t, "content")
	s.Do(t, "GET /dav/files/team/dir/f").Want(t, http.StatusOK)
	if !shown {
		to.Name = "again" // it does not even begin
		if r, err := s.idle().Copies.MoveAcrossAccounts(t.Context(), bob, s.at(t, s.Who, "", "team/dir").ID, to); !drive.IsKind(err, drive.Forbidden) {
			t.Errorf("to move it again is %+v, %v", r, err)
		}
		s.Do(t, "MOVE /dav/shared/team/dir", "Destination: /dav/files/again", davtest.AuthHeader("bob")).Want(t, http.StatusForbidden)
		s.Do(t, "PROPFIND /dav/files/again", "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusNotFound)
	}
	s.balanced(t)
	return false
}

// Only an identical request joins a running copy: not one that replaces the destination where the
// other does not, and not one after the source has changed.
func TestIdenticalCopyJoinsRunningCopy(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	bob := s.People["bob"]
	s.Do(t, "MKCOL /dav/files/dir", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	for i := range 10 {
		s.Do(t, "PUT /dav/files/dir/f"+strconv.Itoa(i), davtest.AuthHeader("bob"), "", "old").Want(t, http.StatusCreated)
	}
	src, team := s.at(t, bob, "", "dir").ID, s.at(t, s.Who, "", "team").ID
	begin := func(to files.Copy) drive.OperationID {
		t.Helper()
		to.Parent, to.Name = team, "dir"
		r, err := s.idle().Copies.Copy(t.Context(), bob, src, to)
		if err != nil || r.Operation == nil {
			t.Fatal(r, err)
		}
		return r.Operation.ID
	}
	same := files.Copy{Conflict: drive.ConflictReplace, Properties: true, Join: true}
	begin(files.Copy{Conflict: drive.ConflictRename, Properties: true, Join: true})
	begin(files.Copy{Conflict: drive.ConflictReplace}) // of the pages: no properties
	first := begin(same)
	if again := begin(same); again != first {
		t.Error("the same request begins another copy")
	}
	running := func() int {
		t.Helper()
		all, err := s.Files.Operations.ListRunning(t.Context(), drive.OperationID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := running(); n != 3 {
		t.Errorf("%d copies run, want 3", n)
	}
	s.Do(t, "PUT /dav/files/dir/f0", davtest.AuthHeader("bob"), "", "new").Want(t, http.StatusNoContent)
	s.Do(t, "COPY /dav/files/dir", "Destination: /dav/shared/team/dir", davtest.AuthHeader("bob")).Want(t, http.StatusCreated)
	s.Do(t, "GET /dav/files/team/dir/f0").Want(t, http.StatusOK).Has(t, "new")
	if n := running(); n != 3 {
		t.Errorf("%d copies run, want 3", n)
	}
}
