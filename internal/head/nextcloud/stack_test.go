package nextcloud_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/head/nextcloud"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/thumb"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// stack is the head on real components, behind the server's middleware, with a virtual clock. The
// user is ann unless a request names another one.
type stack struct {
	*davtest.Site

	numbers *space.Numbers
	shares  *share.Shares
	vault   *vault.Vault
	head    *nextcloud.Head
	zero    time.Duration // nextcloud.Options.ZeroWithin
	early   time.Duration // nextcloud.Options.EarlyWithin

	fingerprint string // nextcloud.Options.Fingerprint
}

func newStack(t testing.TB) *stack {
	t.Helper()
	return newStackAt(t, uploadtest.Options{})
}

func newStackAt(t testing.TB, opt uploadtest.Options) *stack {
	t.Helper()
	s := &stack{Site: davtest.New(t, opt), zero: time.Millisecond, early: time.Hour}
	s.vault = vault.New(vault.Options{DB: s.DB, Keys: []vault.Key{vault.NewKey()}, Now: s.Clock.Now})
	if err := s.vault.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wire()
	return s
}

// restart kills the instance and starts another one with its data.
func (s *stack) restart(t testing.TB) {
	t.Helper()
	s.Restart(t)
	s.Wire()
	s.wire()
}

// wire puts the head on the parts of the site.
func (s *stack) wire() {
	now := s.Clock.Now
	s.numbers = space.NewNumbers(s.DB)
	s.shares = share.New(share.Options{DB: s.DB, Access: s.Access, Tree: s.Tree, Users: s.Users, Vault: s.vault, Now: now, Log: s.Activity})
	s.head = nextcloud.New(nextcloud.Options{
		ZeroWithin: s.zero, EarlyWithin: s.early,
		Shelf:  files.NewQuickAccess(s.Files, star.New(s.DB, now)),
		Spaces: s.Spaces, Numbers: s.numbers, Now: now,
		Shares:  s.shares,
		DAV:     dav.New(dav.Options{Files: s.Files, Uploads: s.Sessions, Caller: s.Caller, Balance: s.Balance, Spaces: s.Spaces, BaseURL: "https://drive.example.org"}),
		Batches: batch.New(batch.Options{DB: s.DB, Tree: s.Tree, Uploads: s.Sessions, Files: s.Files, Keys: idem.NewKeys(s.DB, idem.Options{Now: now})}),
		Files:   s.Files, Uploads: s.Sessions, Thumbs: thumb.New(thumb.Options{}), Sessions: s.Logins,
		Caller: s.Caller, Balance: s.Balance, Instance: "sdtest", Fingerprint: s.fingerprint, BaseURL: "https://drive.example.org",
		Visitor: func(*http.Request) (func(), error) { return func() {}, nil },
		Name: func(_ context.Context, id drive.UserID) (string, error) {
			for name, who := range s.People {
				if who.User == id {
					return name, nil
				}
			}
			return "", drive.Fail(drive.NotFound)
		},
	})
	s.Serve(s.head.Register, nextcloud.Prefixes()...)
}
