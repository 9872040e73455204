package dav_test

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// stack is the head on real parts, behind the server's middleware, under a virtual clock.
type stack struct {
	*uploadtest.Site

	files  *files.Files
	spaces *space.Spaces
	server *server.Server
	who    drive.Who // of all requests without a name
	people map[string]drive.Who
}

func newStack(t testing.TB, change ...func(*dav.Options)) *stack {
	t.Helper()
	return newStackAt(t, uploadtest.Options{}, change...)
}

func newStackAt(t testing.TB, opt uploadtest.Options, change ...func(*dav.Options)) *stack {
	t.Helper()
	s := &stack{Site: uploadtest.New(t, opt), people: map[string]drive.Who{}}
	now := s.Clock.Now
	accounts := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}, Now: now}
	users := account.NewUsers(s.DB, account.NewAuth(s.DB, accounts), accounts)
	s.files = files.New(files.Options{
		DB: s.DB, Tree: s.Tree, Content: s.Content, Store: s.Local.Blobs, Now: now, Access: s.Access,
	})
	s.spaces = space.New(space.Parts{DB: s.DB, Access: s.Access, Users: users, Tree: s.Tree}, space.Options{Now: now})
	s.who = s.person(t, "ann")
	o := dav.Options{
		Files: s.files, Uploads: s.Sessions, Spaces: s.spaces,
		Caller: func(r *http.Request, _ bool) (drive.Who, func(), error) {
			name, _, named := r.BasicAuth()
			who, known := s.people[name]
			switch {
			case named && !known:
				return drive.Who{}, nil, drive.Fail(drive.Unauthenticated, "reason", "invalid")
			case !named:
				who = s.who
			}
			return who, func() {}, nil
		},
		Now: now,
		Balance: func(ctx context.Context, id drive.AccountID) (quota.Balance, error) {
			return quota.Ledger{}.Get(ctx, s.DB, id)
		},
	}
	for _, fn := range change {
		fn(&o)
	}
	mux := http.NewServeMux()
	dav.New(o).Register(mux)
	s.server = server.New(server.Options{Routes: mux, Loose: []string{dav.Prefix}, Log: slog.New(slog.DiscardHandler)})
	return s
}

// person makes a user, who logs in with any password.
func (s *stack) person(t testing.TB, name string) drive.Who {
	t.Helper()
	who := s.Account(t, drive.GiB)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at, link_epoch)
			VALUES (?, ?, ?, ?, '', 0, 'active', 0, 0, 1)`, who.User, who.Account, name, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.people[name] = who
	return who
}

// as is the header by which a person sends a request.
func as(name string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":password"))
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request: "METHOD /path", headers as "Name: value", and the body after an empty one.
func (s *stack) do(t testing.TB, line string, rest ...string) answer {
	t.Helper()
	var body io.Reader
	header := http.Header{}
	for i, h := range rest {
		if h == "" {
			body = strings.NewReader(strings.Join(rest[i+1:], "\n"))
			break
		}
		name, value, _ := strings.Cut(h, ": ")
		header.Add(name, value)
	}
	return s.send(t, line, header, body)
}

func (s *stack) send(t testing.TB, line string, header http.Header, body io.Reader) answer {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.Header = header
	if _, known := body.(*strings.Reader); known { // as package http has it
		r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// want fails unless the answer has the status.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d\n%v\n%s", a.status, status, a.header, a.body)
	}
	return a
}

// has fails unless the body holds each of the texts.
func (a answer) has(t testing.TB, texts ...string) answer {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Fatalf("the answer does not hold %q:\n%s", text, a.body)
		}
	}
	return a
}

// lacks fails if the body holds one of the texts.
func (a answer) lacks(t testing.TB, texts ...string) answer {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			t.Fatalf("the answer holds %q:\n%s", text, a.body)
		}
	}
	return a
}
