// Package davtest puts together what a head of WebDAV stands on, on real parts and under a virtual
// clock, with people who send requests to it: the tests of package dav and of the heads on top of
// it share that.
package davtest

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree/treetest"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// Site is an installation with files, spaces and people.
type Site struct {
	*uploadtest.Site

	Users  *account.Users
	Logins *account.Sessions
	Files  *files.Files
	Spaces *space.Spaces
	Who    drive.Who // ann, who sends every request that says nobody
	People map[string]drive.Who
	Server *server.Server // what is asked; see Serve
}

// New makes a Site on which nothing is served yet.
func New(t testing.TB, opt uploadtest.Options) *Site {
	t.Helper()
	s := &Site{Site: uploadtest.New(t, opt), People: map[string]drive.Who{}}
	s.Who = s.Person(t, "ann")
	s.Wire()
	return s
}

// Wire puts files and spaces on the parts of the site: again, after a Restart.
func (s *Site) Wire() {
	now := s.Clock.Now
	accounts := account.Options{Cost: treetest.Cheap, Now: now}
	auth := account.NewAuth(s.DB, accounts)
	s.Users = account.NewUsers(s.DB, auth, accounts)
	s.Logins = account.NewSessions(s.DB, s.Users, auth, accounts)
	s.Files = files.New(files.Options{DB: s.DB, Tree: s.Tree, Content: s.Content, Store: s.Local.Blobs, Now: now, Access: s.Access})
	s.Spaces = space.New(space.Parts{DB: s.DB, Access: s.Access, Users: s.Users, Tree: s.Tree}, space.Options{Now: now})
}

// Serve serves what register adds, behind the server's middleware, for paths that are not cleaned
// below the prefixes.
func (s *Site) Serve(register func(*http.ServeMux), loose ...string) {
	mux := http.NewServeMux()
	register(mux)
	s.Server = server.New(server.Options{Routes: mux, Loose: loose, Log: slog.New(slog.DiscardHandler)})
}

// Person makes a user, who logs in with any password.
func (s *Site) Person(t testing.TB, name string) drive.Who {
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

// As is the header by which a person sends a request.
func As(name string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":x"))
}

// Caller lets people in, as a head asks for.
func (s *Site) Caller(r *http.Request, _ bool) (drive.Who, func(), error) {
	name, _, _ := r.BasicAuth()
	who, known := s.People[name]
	if !known {
		return drive.Who{}, nil, drive.Fail(drive.Unauthenticated, "reason", "invalid")
	}
	return who, func() {}, nil
}

// Balance tells what is in a drive, as a head asks for.
func (s *Site) Balance(ctx context.Context, id drive.AccountID) (quota.Balance, error) {
	return quota.Ledger{}.Get(ctx, s.DB, id)
}
