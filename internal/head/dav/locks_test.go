package dav_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/upload/uploadtest"
)

const exclusive = `<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>` +
	`<D:owner><D:href>laptop of ann</D:href></D:owner></D:lockinfo>`

const sharedLock = `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>`

// withBob makes a folder of ann's that bob may change, and returns its address for bob.
func withBob(t *testing.T, s *stack) {
	t.Helper()
	s.person(t, "bob")
	s.do(t, "MKCOL /dav/files/team").want(t, http.StatusCreated)
	s.grant(t, "bob", access.Editor)
}

// grant gives somebody a role in ann's folder team.
func (s *stack) grant(t *testing.T, name string, role access.Role) {
	t.Helper()
	team, err := s.files.GetByPath(t.Context(), s.who, drive.Address{Path: drive.Path{"team"}})
	if err != nil {
		t.Fatal(err)
	}
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.people[name].User)}
	if _, err := s.spaces.Grant(t.Context(), s.who, space.NewGrant{Node: team.ID, To: to, Role: role}, nil); err != nil {
		t.Fatal(err)
	}
}

// A lock keeps others out of every head, and the owner's programs without its token out of this
// one; until it is released, or its time is over (D6).
func TestALockKeepsOthersOut(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	bob := s.people["bob"]
	s.do(t, "PUT /dav/files/team/doc", "", "one").want(t, http.StatusCreated)
	doc, err := s.files.GetByPath(t.Context(), s.who, drive.Address{Path: drive.Path{"team", "doc"}})
	if err != nil {
		t.Fatal(err)
	}
	token := s.do(t, "LOCK /dav/files/team/doc", "Timeout: Second-600", "", exclusive).want(t, http.StatusOK).
		has(t, "Second-600", "laptop of ann", "<D:lockroot><D:href>/dav/files/team/doc</D:href>").header.Get("Lock-Token")

	place := s.sharedPlace(t)
	put := upload.PutFile{Place: place, Path: drive.Path{"doc"}, Size: 3}
	for what, do := range map[string]func() error{
		"a small file": func() error { _, err := s.PutWhole(t.Context(), bob, put, strings.NewReader("two")); return err },
		"a large file": func() error {
			large := put
			large.Size = 3 * drive.MiB
			_, err := s.PutWhole(t.Context(), bob, large, bytes.NewReader(make([]byte, 3<<20)))
			return err
		},
		"trash": func() error { _, err := s.files.Trash(t.Context(), bob, doc.ID, 0); return err },
		"rename": func() error {
			_, err := s.files.Patch(t.Context(), bob, doc.ID, files.Patch{Name: "other"})
			return err
		},
	} {
		if err := do(); !drive.IsKind(err, drive.Locked) {
			t.Errorf("%s by somebody else: %v", what, err)
		}
	}
	s.do(t, "PUT /dav/shared/team/doc", as("bob"), "", "two").want(t, http.StatusLocked).has(t, "<D:lock-token-submitted>", "ann has locked it")
	s.do(t, "PUT /dav/shared/team/doc", as("bob"), "If: ("+token+")", "", "two").want(t, http.StatusLocked) // it is not bob's
	s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "", sharedLock).want(t, http.StatusLocked).has(t, "<D:no-conflicting-lock>")
	s.do(t, "UNLOCK /dav/shared/team/doc", as("bob"), "Lock-Token: "+token).want(t, http.StatusLocked)
	s.do(t, "DELETE /dav/files/team/doc").want(t, http.StatusLocked)
	s.do(t, "DELETE /dav/files/team").want(t, http.StatusLocked)
	s.do(t, "MOVE /dav/files/team", "Destination: /dav/files/other").want(t, http.StatusLocked)
	s.do(t, "PUT /dav/files/team/doc", "", "two").want(t, http.StatusLocked)
	s.do(t, "PROPFIND /dav/files/team/", "Depth: 1").has(t, strings.Trim(token, "<>"))
	s.do(t, "GET /dav/shared/team/doc", as("bob")).has(t, "one") // readers wait for nobody
	s.do(t, "PUT /dav/files/team/doc", "If: ("+token+")", "", "two").want(t, http.StatusNoContent)
	s.do(t, "PUT /dav/files/team/beside", "", "not locked").want(t, http.StatusCreated)

	// The other side of time: what was refreshed lasts, what was not has ended.
	s.Clock.Advance(9 * time.Minute)
	s.do(t, "LOCK /dav/files/team/doc", "Timeout: Second-600", "If: ("+token+")").want(t, http.StatusOK)
	s.Clock.Advance(9 * time.Minute)
	s.do(t, "PUT /dav/shared/team/doc", as("bob"), "", "three").want(t, http.StatusLocked)
	s.Clock.Advance(2 * time.Minute)
	s.do(t, "PUT /dav/shared/team/doc", as("bob"), "", "three").want(t, http.StatusNoContent)
	s.do(t, "PUT /dav/files/team/doc", "If: ("+token+")", "", "four").want(t, http.StatusPreconditionFailed)
	if err := files.NewMarks(s.files).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := s.count(t, "dav_locks"); rows != 0 {
		t.Errorf("%d locks are left", rows)
	}
	s.CheckLedger(t, s.who)
}

// An upload that began before the lock does not get in when it ends: it keeps its parts, and gets
// in when the lock has gone.
func TestALockHoldsForWhatBeganBefore(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	bob := s.people["bob"]
	s.do(t, "PUT /dav/files/team/doc", "", "one").want(t, http.StatusCreated)
	content := bytes.Repeat([]byte("x"), 3<<20)
	v, err := s.Begin(t.Context(), bob, upload.Begin{
		Place: s.sharedPlace(t), Path: drive.Path{"doc"}, Size: drive.ByteSize(len(content)), Conflict: drive.ConflictReplace,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := s.Put(t.Context(), bob, v.ID, upload.PutPart{N: n, Size: drive.ByteSize(len(uploadtest.Part(v, n, content)))}, bytes.NewReader(uploadtest.Part(v, n, content))); err != nil {
			t.Fatal(err)
		}
	}
	token := s.do(t, "LOCK /dav/files/team/doc", "", exclusive).want(t, http.StatusOK).header.Get("Lock-Token")
	if _, _, err := s.Complete(t.Context(), bob, v.ID, upload.Complete{}); !drive.IsKind(err, drive.Locked) {
		t.Fatalf("complete beside a lock: %v", err)
	}
	s.do(t, "UNLOCK /dav/files/team/doc", "Lock-Token: "+token).want(t, http.StatusNoContent)
	if _, _, err := s.Complete(t.Context(), bob, v.ID, upload.Complete{}); err != nil {
		t.Fatalf("complete after the lock: %v", err)
	}
	if got := s.do(t, "GET /dav/files/team/doc"); len(got.body) != len(content) {
		t.Errorf("the file has %d bytes", len(got.body))
	}
	s.CheckLedger(t, s.who)
}

// A deep lock on a folder holds for what is in it and for what comes; a shared one lets others
// share.
func TestDeepAndSharedLocks(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "MKCOL /dav/files/dir").want(t, http.StatusCreated)
	s.do(t, "PUT /dav/files/dir/f", "", "f").want(t, http.StatusCreated)
	token := s.do(t, "LOCK /dav/files/dir", "", exclusive).want(t, http.StatusOK).has(t, "<D:depth>infinity</D:depth>").header.Get("Lock-Token")
	for _, line := range []string{"PUT /dav/files/dir/f", "PUT /dav/files/dir/new"} {
		s.do(t, line, "", "x").want(t, http.StatusLocked)
		s.do(t, line, "If: ("+token+")", "", "x")
	}
	s.do(t, "MKCOL /dav/files/dir/sub").want(t, http.StatusLocked)
	s.do(t, "LOCK /dav/files/dir/f", "", sharedLock).want(t, http.StatusLocked)
	s.do(t, "UNLOCK /dav/files/dir/f", "Lock-Token: "+token).want(t, http.StatusNoContent) // of any address that it holds for
	one := s.do(t, "LOCK /dav/files/dir/f", "Depth: 0", "", sharedLock).want(t, http.StatusOK).header.Get("Lock-Token")
	two := s.do(t, "LOCK /dav/files/dir/f", "Depth: 0", "", sharedLock).want(t, http.StatusOK).header.Get("Lock-Token")
	if one == two {
		t.Error("two locks have one token")
	}
	s.do(t, "LOCK /dav/files/dir", "", exclusive).want(t, http.StatusLocked)
	s.do(t, "PUT /dav/files/dir/f", "", "x").want(t, http.StatusLocked)
	s.do(t, "PUT /dav/files/dir/f", "If: ("+two+")", "", "x").want(t, http.StatusNoContent)
	s.do(t, "DELETE /dav/files/dir", "If: </dav/files/dir/f> ("+two+")").want(t, http.StatusNoContent)
	if rows := s.count(t, "dav_locks"); rows != 0 {
		t.Errorf("%d locks of what was deleted are left", rows)
	}
}

// LOCK where nothing is makes an empty file; what is then put is its first version.
func TestALockOnNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	token := s.do(t, "LOCK /dav/files/new.docx", "", exclusive).want(t, http.StatusCreated).header.Get("Lock-Token")
	s.do(t, "PUT /dav/files/new.docx", "If: ("+token+")", "", "content").want(t, http.StatusNoContent)
	s.do(t, "UNLOCK /dav/files/new.docx", "Lock-Token: "+token).want(t, http.StatusNoContent)
	doc, err := s.files.GetByPath(t.Context(), s.who, drive.Address{Path: drive.Path{"new.docx"}})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := s.files.Versions(t.Context(), s.who, doc.ID, "", 10)
	if err != nil || len(versions.Items) != 1 || versions.Items[0].Size != 7 {
		t.Errorf("its versions are %+v (%v)", versions.Items, err)
	}
	s.CheckLedger(t, s.who)
	s.do(t, "LOCK /dav/files/none/new", "", exclusive).want(t, http.StatusConflict)
	s.do(t, "LOCK /dav/files/new.docx", "Depth: 1", "", exclusive).want(t, http.StatusBadRequest)
	s.do(t, "LOCK /dav/files/new.docx").want(t, http.StatusPreconditionFailed)
	s.do(t, "UNLOCK /dav/files/new.docx", "Lock-Token: <urn:uuid:none>").want(t, http.StatusConflict)
}

// Whoever may not write any more cannot keep a lock, and it can be ended by whoever manages the
// folder.
func TestALockOfSomebodyWhoMayNotWriteAnyMore(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	s.do(t, "PUT /dav/files/team/doc", "", "one").want(t, http.StatusCreated)
	token := s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "Timeout: Second-600", "", exclusive).want(t, http.StatusOK).header.Get("Lock-Token")
	s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "If: ("+token+")").want(t, http.StatusOK)
	s.grant(t, "bob", access.Viewer)
	s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "If: ("+token+")").want(t, http.StatusForbidden)
	s.do(t, "PUT /dav/files/team/doc", "", "two").want(t, http.StatusLocked) // it lasts as long as it was to
	s.person(t, "cid")
	s.grant(t, "cid", access.Editor)
	s.do(t, "UNLOCK /dav/shared/team/doc", as("cid"), "Lock-Token: "+token).want(t, http.StatusLocked)
	s.grant(t, "cid", access.Manager)
	s.do(t, "UNLOCK /dav/shared/team/doc", as("cid"), "Lock-Token: "+token).want(t, http.StatusNoContent)
	s.do(t, "PUT /dav/files/team/doc", "", "two").want(t, http.StatusNoContent)

	s.grant(t, "bob", access.Editor)
	token = s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "", exclusive).want(t, http.StatusOK).header.Get("Lock-Token")
	s.do(t, "UNLOCK /dav/files/team/doc", "Lock-Token: "+token).want(t, http.StatusNoContent) // by the owner
	s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "If: ("+token+")").want(t, http.StatusPreconditionFailed)
	s.do(t, "LOCK /dav/shared/team/doc", as("bob"), "", exclusive).want(t, http.StatusOK)
}

// What is in the way of a COPY or MOVE stays while somebody else has it locked, or something in it.
func TestALockHoldsForWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	for _, dir := range []string{"team/a", "team/b"} {
		s.do(t, "MKCOL /dav/files/"+dir).want(t, http.StatusCreated)
		s.do(t, "PUT /dav/files/"+dir+"/doc", "", dir).want(t, http.StatusCreated)
	}
	token := s.do(t, "LOCK /dav/shared/team/b/doc", as("bob"), "", exclusive).want(t, http.StatusOK).header.Get("Lock-Token")
	ways := []string{"COPY /dav/files/team/a", "MOVE /dav/files/team/a", "COPY /dav/files/team/a/doc", "MOVE /dav/files/team/a/doc"}
	for _, line := range ways {
		to := strings.Replace(line[len("COPY "):], "/a", "/b", 1)
		s.do(t, line, "Destination: "+to).want(t, http.StatusLocked)
	}
	s.do(t, "GET /dav/files/team/b/doc").has(t, "team/b")
	s.do(t, "UNLOCK /dav/shared/team/b/doc", as("bob"), "Lock-Token: "+token).want(t, http.StatusNoContent)
	s.do(t, ways[0], "Destination: /dav/files/team/b").want(t, http.StatusNoContent)
	s.do(t, "GET /dav/files/team/b/doc").has(t, "team/a")
	s.CheckLedger(t, s.who)
}

// sharedPlace is the place of ann's team folder for bob.
func (s *stack) sharedPlace(t *testing.T) string {
	t.Helper()
	team, err := s.files.GetByPath(t.Context(), s.who, drive.Address{Path: drive.Path{"team"}})
	if err != nil {
		t.Fatal(err)
	}
	return team.ID.String()
}

// count is how many rows a table has.
func (s *stack) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
