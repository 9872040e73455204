package upload_test

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// At completion a lock admits only its user, with the lock token if required. Other requests leave
// the upload with all its parts.
func TestLocksAreCheckedWhenUploadEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, submits bool // the lock is the uploader's; the request submits tokens
		token        bool // of this lock, too
		fails        bool
	}{
		"another user's lock, tus or native":              {fails: true},
		"another user's lock, WebDAV with its token":      {submits: true, token: true, fails: true},
		"own lock, tus or native":                         {own: true},
		"own lock of another program, WebDAV":             {own: true, submits: true, fails: true},
		"own lock of the same program, WebDAV with token": {own: true, submits: true, token: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{})
			owner := s.Account(t, 0)
			root, err := s.Tree.Resolve(t.Context(), s.DB, owner.Account, nil)
			if err != nil {
				t.Fatal(err)
			}
			user, other := s.Editor(t, owner.Account, root.ID), s.Editor(t, owner.Account, root.ID)
			who := drive.Who{User: user, Account: owner.Account, Guest: true}
			data := random(5 << 20)
			v, err := s.Begin(t.Context(), who, upload.Begin{Parent: root.ID, Name: "f", Size: drive.ByteSize(len(data))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.SendAll(t, who, v, data)
			holder := other
			if c.own {
				holder = user
			}
			var held lock.Lock
			err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
				held, err = lock.Rules{Now: s.Clock.Now}.Acquire(ctx, tx, lock.Lock{
					Account: owner.Account, Node: root.ID, User: holder, Exclusive: true, Timeout: time.Minute,
				})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.submits {
				who.Tokens = drive.SubmitTokens(nil)
			}
			if c.token {
				who.Tokens = drive.SubmitTokens([]drive.LockID{held.ID})
			}
			_, _, err = s.Complete(t.Context(), who, v.ID, upload.Complete{})
			if drive.IsKind(err, drive.Locked) != c.fails || err != nil && !c.fails {
				t.Fatalf("complete: %v", err)
			}
			if c.fails {
				s.Clock.Advance(2 * time.Minute) // the lock ends
				if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
					t.Fatal(err)
				}
			}
			s.CheckLedger(t, owner)
		})
	}
}

// If the caller's precondition no longer holds, no file is created and the upload keeps its parts.
func TestCompletionWithStalePrecondition(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 0)
	root, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, nil)
	if err != nil {
		t.Fatal(err)
	}
	data := random(5 << 20)
	v, err := s.Begin(t.Context(), who, upload.Begin{Path: drive.Path{"f"}, Size: drive.ByteSize(len(data))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SendAll(t, who, v, data)
	if _, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: drive.Path{"g"}}, emptyBody{}); err != nil {
		t.Fatal(err)
	}
	free := func(name drive.Name) upload.Complete {
		return upload.Complete{Expect: tree.Expect{Seen: []tree.SeenNode{{Parent: root.ID, Name: name}}}}
	}
	if _, _, err := s.Complete(t.Context(), who, v.ID, free("g")); !tree.IsStale(err) {
		t.Errorf("complete: %v", err)
	}
	if state, _ := s.State(t, v.ID); state != "active" {
		t.Errorf("the upload is %s", state)
	}
	if _, _, err := s.Complete(t.Context(), who, v.ID, free("h")); err != nil {
		t.Error(err)
	}
	s.CheckLedger(t, who)
}
