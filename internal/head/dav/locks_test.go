package dav_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const exclusive = `<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>` +
	`<D:owner><D:href>laptop of ann</D:href></D:owner></D:lockinfo>`

const sharedLock = `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>`

// withBob creates a folder of ann's that bob may edit, and bob's path of it.
func withBob(t *testing.T, s *stack) {
	t.Helper()
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL /dav/files/team").Want(t, http.StatusCreated)
	s.grant(t, "bob", access.Editor)
}

// grant grants a user a role at ann's folder team.
func (s *stack) grant(t *testing.T, name string, role access.Role) {
	t.Helper()
	team, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"team"}})
	if err != nil {
		t.Fatal(err)
	}
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.People[name].User)}
	if _, err := s.Spaces.Grant(t.Context(), s.Who, space.NewGrant{Node: team.ID, To: to, Role: role}, nil); err != nil {
		t.Fatal(err)
	}
}

// A lock keeps others out of every head, and the owner's programs without its token out of this
// one; until it is released, or its time is over (D6).
func TestALockKeepsOthersOut(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	bob := s.People["bob"]
	s.Do(t, "PUT /dav/files/team/doc", "", "one").Want(t, http.StatusCreated)
	doc, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"team", "doc"}})
	if err != nil {
		t.Fatal(err)
	}
	token := s.Do(t, "LOCK /dav/files/team/doc", "Timeout: Second-600", "", exclusive).Want(t, http.StatusOK).
		Has(t, "Second-600", "laptop of ann", "<D:lockroot><D:href>/dav/files/team/doc</D:href>").Header.Get("Lock-Token")

	s.Do(t, "MKCOL /dav/files/team/locked").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/team/locked/there", "", "x").Want(t, http.StatusCreated)
	s.Do(t, "LOCK /dav/files/team/locked", "Depth: 0", "Timeout: Second-600", "", exclusive).Want(t, http.StatusOK)

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
		"a new file in a locked folder": func() error {
			locked := put
			locked.Path = drive.Path{"locked", "new"}
			_, err := s.PutWhole(t.Context(), bob, locked, strings.NewReader("two"))
			return err
		},
		"a folder in a locked folder": func() error {
			_, err := s.Files.Mkdir(t.Context(), bob, files.Mkdir{Place: s.sharedPlace(t), Path: drive.Path{"locked"}, Name: "new"})
			return err
		},
		"an upload into a locked folder": func() error {
			return s.complete(t, bob, upload.Begin{Place: s.sharedPlace(t), Path: drive.Path{"locked", "new"}, Size: 2 * drive.MiB})
		},
		"a file out of a locked folder": func() error {
			n, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"team", "locked", "there"}})
			if err == nil {
				_, err = s.Files.Patch(t.Context(), bob, n.ID, files.Patch{Parent: *doc.ParentID})
			}
			return err
		},
		"trash": func() error { _, err := s.Files.Trash(t.Context(), bob, doc.ID, tree.Expect{}); return err },
		"rename": func() error {
			_, err := s.Files.Patch(t.Context(), bob, doc.ID, files.Patch{Name: "other"})
			return err
		},
	} {
		if err := do(); !drive.IsKind(err, drive.Locked) {
			t.Errorf("%s by somebody else: %v", what, err)
		}
	}
	s.Do(t, "PUT /dav/shared/team/doc", davtest.AuthHeader("bob"), "", "two").Want(t, http.StatusLocked).Has(t, "<D:lock-token-submitted>", "ann has locked it")
	s.Do(t, "PUT /dav/shared/team/doc", davtest.AuthHeader("bob"), "If: ("+token+")", "", "two").Want(t, http.StatusLocked) // it is not bob's
	s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "", sharedLock).Want(t, http.StatusLocked).Has(t, "<D:no-conflicting-lock>")
	s.Do(t, "UNLOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "Lock-Token: "+token).Want(t, http.StatusLocked)
	s.Do(t, "DELETE /dav/files/team/doc").Want(t, http.StatusLocked)
	s.Do(t, "DELETE /dav/files/team").Want(t, http.StatusLocked)
	s.Do(t, "MOVE /dav/files/team", "Destination: /dav/files/other").Want(t, http.StatusLocked)
	s.Do(t, "PUT /dav/files/team/doc", "", "two").Want(t, http.StatusLocked)
	s.Do(t, "PROPFIND /dav/files/team/", "Depth: 1").Has(t, strings.Trim(token, "<>"))
	s.Do(t, "GET /dav/shared/team/doc", davtest.AuthHeader("bob")).Has(t, "one") // readers wait for nobody
	s.Do(t, "PUT /dav/files/team/doc", "If: ("+token+")", "", "two").Want(t, http.StatusNoContent)
	s.Do(t, "PUT /dav/files/team/beside", "", "not locked").Want(t, http.StatusCreated)

	// After the refreshed timeout, the refreshed lock exists and the other one has expired.
	s.Clock.Advance(9 * time.Minute)
	s.Do(t, "LOCK /dav/files/team/doc", "Timeout: Second-600", "If: ("+token+")").Want(t, http.StatusOK)
	s.Clock.Advance(9 * time.Minute)
	s.Do(t, "PUT /dav/shared/team/doc", davtest.AuthHeader("bob"), "", "three").Want(t, http.StatusLocked)
	s.Clock.Advance(2 * time.Minute)
	s.Do(t, "PUT /dav/shared/team/doc", davtest.AuthHeader("bob"), "", "three").Want(t, http.StatusNoContent)
	s.Do(t, "PUT /dav/files/team/doc", "If: ("+token+")", "", "four").Want(t, http.StatusPreconditionFailed)
	if err := files.NewDAVMetadata(s.Files).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := s.count(t, "dav_locks"); rows != 0 {
		t.Errorf("%d locks are left", rows)
	}
	s.CheckLedger(t, s.Who)
}

// An upload that began before the lock does not get in when it ends: it keeps its parts, and gets
// in when the lock has gone.
func TestLockAppliesToEarlierUploads(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	bob := s.People["bob"]
	s.Do(t, "PUT /dav/files/team/doc", "", "one").Want(t, http.StatusCreated)
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
	token := s.Do(t, "LOCK /dav/files/team/doc", "", exclusive).Want(t, http.StatusOK).Header.Get("Lock-Token")
	if _, _, err := s.Complete(t.Context(), bob, v.ID, upload.Complete{}); !drive.IsKind(err, drive.Locked) {
		t.Fatalf("complete beside a lock: %v", err)
	}
	s.Do(t, "UNLOCK /dav/files/team/doc", "Lock-Token: "+token).Want(t, http.StatusNoContent)
	if _, _, err := s.Complete(t.Context(), bob, v.ID, upload.Complete{}); err != nil {
		t.Fatalf("complete after the lock: %v", err)
	}
	if got := s.Do(t, "GET /dav/files/team/doc"); len(got.Body) != len(content) {
		t.Errorf("the file has %d bytes", len(got.Body))
	}
	s.CheckLedger(t, s.Who)
}

// A lock of depth infinity on a folder holds for present and new members; a shared lock allows
// other shared locks.
func TestDeepAndSharedLocks(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL /dav/files/dir").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/dir/f", "", "f").Want(t, http.StatusCreated)
	token := s.Do(t, "LOCK /dav/files/dir", "", exclusive).Want(t, http.StatusOK).Has(t, "<D:depth>infinity</D:depth>").Header.Get("Lock-Token")
	for _, line := range []string{"PUT /dav/files/dir/f", "PUT /dav/files/dir/new"} {
		s.Do(t, line, "", "x").Want(t, http.StatusLocked)
		s.Do(t, line, "If: ("+token+")", "", "x")
	}
	s.Do(t, "MKCOL /dav/files/dir/sub").Want(t, http.StatusLocked)
	s.Do(t, "LOCK /dav/files/dir/f", "", sharedLock).Want(t, http.StatusLocked)
	s.Do(t, "UNLOCK /dav/files/dir/f", "Lock-Token: "+token).Want(t, http.StatusNoContent) // of any address that it holds for
	one := s.Do(t, "LOCK /dav/files/dir/f", "Depth: 0", "", sharedLock).Want(t, http.StatusOK).Header.Get("Lock-Token")
	two := s.Do(t, "LOCK /dav/files/dir/f", "Depth: 0", "", sharedLock).Want(t, http.StatusOK).Header.Get("Lock-Token")
	if one == two {
		t.Error("two locks have one token")
	}
	s.Do(t, "LOCK /dav/files/dir", "", exclusive).Want(t, http.StatusLocked)
	s.Do(t, "PUT /dav/files/dir/f", "", "x").Want(t, http.StatusLocked)
	s.Do(t, "PUT /dav/files/dir/f", "If: ("+two+")", "", "x").Want(t, http.StatusNoContent)
	s.Do(t, "DELETE /dav/files/dir", "If: </dav/files/dir/f> ("+two+")").Want(t, http.StatusNoContent)
	if rows := s.count(t, "dav_locks"); rows != 0 {
		t.Errorf("%d locks of what was deleted are left", rows)
	}
}

// LOCK of a missing name creates an empty file; the next PUT stores its first version.
func TestLockOnMissingName(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	token := s.Do(t, "LOCK /dav/files/new.docx", "", exclusive).Want(t, http.StatusCreated).Header.Get("Lock-Token")
	s.Do(t, "PUT /dav/files/new.docx", "If: ("+token+")", "", "content").Want(t, http.StatusNoContent)
	s.Do(t, "UNLOCK /dav/files/new.docx", "Lock-Token: "+token).Want(t, http.StatusNoContent)
	doc, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"new.docx"}})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := s.Files.Versions(t.Context(), s.Who, doc.ID, "", 10)
	if err != nil || len(versions.Items) != 1 || versions.Items[0].Size != 7 {
		t.Errorf("its versions are %+v (%v)", versions.Items, err)
	}
	s.CheckLedger(t, s.Who)
	s.Do(t, "LOCK /dav/files/other.docx", `If: (Not ["any"])`, "", exclusive).Want(t, http.StatusCreated)
	s.Do(t, "LOCK /dav/files/third.docx", `If: (["any"])`, "", exclusive).Want(t, http.StatusPreconditionFailed)
	s.Do(t, "GET /dav/files/third.docx").Want(t, http.StatusNotFound)
	s.Do(t, "LOCK /dav/files/none/new", "", exclusive).Want(t, http.StatusConflict)
	s.Do(t, "LOCK /dav/files/new.docx", "Depth: 1", "", exclusive).Want(t, http.StatusBadRequest)
	s.Do(t, "LOCK /dav/files/new.docx").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "UNLOCK /dav/files/new.docx", "Lock-Token: <urn:uuid:none>").Want(t, http.StatusConflict)
}

// A lock ends when its owner loses the right to write, and a manager of the folder can end it.
func TestLockEndsWithWriteAccess(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	s.Do(t, "PUT /dav/files/team/doc", "", "one").Want(t, http.StatusCreated)
	token := s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "Timeout: Second-600", "", exclusive).Want(t, http.StatusOK).Header.Get("Lock-Token")
	s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "If: ("+token+")").Want(t, http.StatusOK)
	s.grant(t, "bob", access.Viewer)
	s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "If: ("+token+")").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "PROPFIND /dav/files/team/", "Depth: 1").Lacks(t, strings.Trim(token, "<>"))
	s.Do(t, "PUT /dav/files/team/doc", "", "two").Want(t, http.StatusNoContent)
	s.Do(t, "LOCK /dav/files/team/doc", "Timeout: Second-1", "", exclusive).Want(t, http.StatusOK)
	s.Clock.Advance(2 * time.Second)

	s.grant(t, "bob", access.Editor)
	token = s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "", exclusive).Want(t, http.StatusOK).Header.Get("Lock-Token")
	s.CreateUser(t, "cid")
	s.grant(t, "cid", access.Editor)
	s.Do(t, "UNLOCK /dav/shared/team/doc", davtest.AuthHeader("cid"), "Lock-Token: "+token).Want(t, http.StatusLocked)
	s.grant(t, "cid", access.Manager)
	s.Do(t, "UNLOCK /dav/shared/team/doc", davtest.AuthHeader("cid"), "Lock-Token: "+token).Want(t, http.StatusNoContent)
	s.Do(t, "PUT /dav/files/team/doc", "", "two").Want(t, http.StatusNoContent)

	token = s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "", exclusive).Want(t, http.StatusOK).Header.Get("Lock-Token")
	s.Do(t, "UNLOCK /dav/files/team/doc", "Lock-Token: "+token).Want(t, http.StatusNoContent) // by the owner
	s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "If: ("+token+")").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "LOCK /dav/shared/team/doc", davtest.AuthHeader("bob"), "", exclusive).Want(t, http.StatusOK)
}

// COPY and MOVE do not replace a destination that another user has locked, or a member of it.
func TestLockProtectsDestination(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	for _, dir := range []string{"team/a", "team/b"} {
		s.Do(t, "MKCOL /dav/files/"+dir).Want(t, http.StatusCreated)
		s.Do(t, "PUT /dav/files/"+dir+"/doc", "", dir).Want(t, http.StatusCreated)
	}
	token := s.Do(t, "LOCK /dav/shared/team/b/doc", davtest.AuthHeader("bob"), "", exclusive).Want(t, http.StatusOK).Header.Get("Lock-Token")
	ways := []string{"COPY /dav/files/team/a", "MOVE /dav/files/team/a", "COPY /dav/files/team/a/doc", "MOVE /dav/files/team/a/doc"}
	for _, line := range ways {
		to := strings.Replace(line[len("COPY "):], "/a", "/b", 1)
		s.Do(t, line, "Destination: "+to).Want(t, http.StatusLocked)
	}
	s.Do(t, "GET /dav/files/team/b/doc").Has(t, "team/b")
	s.Do(t, "UNLOCK /dav/shared/team/b/doc", davtest.AuthHeader("bob"), "Lock-Token: "+token).Want(t, http.StatusNoContent)
	s.Do(t, ways[0], "Destination: /dav/files/team/b").Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/team/b/doc").Has(t, "team/a")
	s.CheckLedger(t, s.Who)
}

// sharedPlace is the place of ann's team folder for bob.
func (s *stack) sharedPlace(t *testing.T) string {
	t.Helper()
	team, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"team"}})
	if err != nil {
		t.Fatal(err)
	}
	return team.ID.String()
}

// complete is an upload of zeros from its beginning to its end.
func (s *stack) complete(t *testing.T, who drive.Who, b upload.Begin) error {
	t.Helper()
	v, err := s.Begin(t.Context(), who, b, nil)
	if err != nil {
		return err
	}
	content := make([]byte, b.Size)
	for n := range v.Parts {
		part := uploadtest.Part(v, n, content)
		if err := s.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: drive.ByteSize(len(part))}, bytes.NewReader(part)); err != nil {
			return err
		}
	}
	_, _, err = s.Complete(t.Context(), who, v.ID, upload.Complete{})
	return errors.Join(err, s.Cancel(t.Context(), who, v.ID))
}

// count is how many rows a table has.
func (s *stack) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
