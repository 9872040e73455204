// Package davtest sets up an installation for tests of WebDAV heads, with real parts, a virtual
// clock, and users who send requests. The tests of package dav and of the heads on top of it share
// it.
package davtest

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Site is an installation with files, spaces and users.
type Site struct {
	*uploadtest.Site

	Users  *account.Users
	Logins *account.Sessions
	Files  *files.Files
	Spaces *space.Spaces
	Who    drive.Who // ann, the default sender of requests
	People map[string]drive.Who
	Server *server.Server // set by Serve
}

// New returns a Site that does not serve anything yet.
func New(t testing.TB, opt uploadtest.Options) *Site {
	t.Helper()
	s := &Site{Site: uploadtest.New(t, opt), People: map[string]drive.Who{}}
	s.Who = s.CreateUser(t, "ann")
	s.Wire()
	return s
}

// Wire constructs files and spaces on the parts of the site. Call it again after a Restart.
func (s *Site) Wire() {
	now := s.Clock.Now
	accounts := account.Options{Cost: treetest.Cheap, Now: now}
	auth := account.NewAuth(s.DB, accounts)
	s.Users = account.NewUsers(s.DB, auth, accounts)
	s.Logins = account.NewSessions(s.DB, s.Users, auth, accounts)
	s.Files = files.New(files.Options{DB: s.DB, Tree: s.Tree, Content: s.Content, Store: s.Local.Blobs, Now: now, Access: s.Access})
	s.Spaces = space.New(space.Parts{DB: s.DB, Access: s.Access, Users: s.Users, Tree: s.Tree}, space.Options{Now: now})
}

// Serve serves the routes that register adds behind the server's middleware. Paths below the loose
// prefixes are not cleaned.
func (s *Site) Serve(register func(*http.ServeMux), loose ...string) {
	mux := http.NewServeMux()
	register(mux)
	s.Server = server.New(server.Options{Routes: mux, Loose: loose, Log: slog.New(slog.DiscardHandler)})
}

// CreateUser creates a user who logs in with any password.
func (s *Site) CreateUser(t testing.TB, name string) drive.Who {
	t.Helper()
	who := s.Account(t, drive.GiB)
	treetest.Write(t, s.DB, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at, link_epoch)
			VALUES (?, ?, ?, ?, '', 0, 'active', 0, 0, 1)`, who.User, who.Account, name, name)
		return err
	})
	s.People[name] = who
	return who
}

// AuthHeader returns the header that authenticates a request as the user.
func AuthHeader(name string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":x"))
}

// Caller authenticates a request by its Basic user name alone; the password is not checked. It
// fails with drive.Unauthenticated for a name that is not in People. The returned release function
// does nothing.
func (s *Site) Caller(r *http.Request, _ bool) (drive.Who, func(), error) {
	name, _, _ := r.BasicAuth()
	who, known := s.People[name]
	if !known {
		return drive.Who{}, nil, drive.Fail(drive.Unauthenticated, "reason", "invalid")
	}
	return who, func() {}, nil
}

// Balance returns the ledger balance of an account for dav.Options.Balance, or the error of the
// database.
func (s *Site) Balance(ctx context.Context, id drive.AccountID) (quota.Balance, error) {
	return quota.Ledger{}.Get(ctx, s.DB, id)
}
