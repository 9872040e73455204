package nextcloud_test

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
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/star"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/nextcloud"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/share"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/thumb"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// stack is the head on real parts, behind the server's middleware, under a virtual clock. The user
// is ann, unless a request says another one.
type stack struct {
	*uploadtest.Site

	files   *files.Files
	spaces  *space.Spaces
	numbers *space.Numbers
	shares  *share.Shares
	vault   *vault.Vault
	server  *server.Server
	head    *nextcloud.Head
	zero    time.Duration // nextcloud.Options.ZeroWithin
	who     drive.Who
	people  map[string]drive.Who
}

func newStack(t testing.TB) *stack {
	t.Helper()
	return newStackAt(t, uploadtest.Options{})
}

func newStackAt(t testing.TB, opt uploadtest.Options) *stack {
	t.Helper()
	s := &stack{Site: uploadtest.New(t, opt), people: map[string]drive.Who{}, zero: time.Millisecond}
	s.who = s.person(t, "ann")
	s.vault = vault.New(vault.Options{DB: s.DB, Keys: []vault.Key{vault.NewKey()}, Now: s.Clock.Now})
	if err := s.vault.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wire()
	return s
}

// person makes a user.
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
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":x"))
}

// restart kills the instance and starts another one on what it has left.
func (s *stack) restart(t testing.TB) {
	t.Helper()
	s.Restart(t)
	s.wire()
}

// wire puts the head on the parts of the site.
func (s *stack) wire() {
	now := s.Clock.Now
	accounts := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}, Now: now}
	auth := account.NewAuth(s.DB, accounts)
	users := account.NewUsers(s.DB, auth, accounts)
	s.files = files.New(files.Options{
		DB: s.DB, Tree: s.Tree, Content: s.Content, Store: s.Local.Blobs,
		Now: now, Access: s.Access,
	})
	caller := func(r *http.Request, _ bool) (drive.Who, func(), error) {
		name, _, _ := r.BasicAuth()
		who, known := s.people[name]
		if !known {
			return drive.Who{}, nil, drive.Fail(drive.Unauthenticated, "reason", "invalid")
		}
		return who, func() {}, nil
	}
	balance := func(ctx context.Context, id drive.AccountID) (quota.Balance, error) {
		return quota.Ledger{}.Get(ctx, s.DB, id)
	}
	s.spaces = space.New(space.Parts{DB: s.DB, Access: s.Access, Users: users, Tree: s.Tree}, space.Options{Now: now})
	s.numbers = space.NewNumbers(s.DB)
	s.shares = share.New(share.Options{DB: s.DB, Access: s.Access, Tree: s.Tree, Users: users, Vault: s.vault, Now: now, Log: s.Activity})
	davs := dav.New(dav.Options{
		Files: s.files, Uploads: s.Sessions, Caller: caller, Balance: balance, Spaces: s.spaces,
	})
	mux := http.NewServeMux()
	s.head = nextcloud.New(nextcloud.Options{
		ZeroWithin: s.zero,
		Shelf:      files.NewShelf(s.files, star.New(s.DB, now)),
		Spaces:     s.spaces, Numbers: s.numbers, Now: now,
		Shares: s.shares,
		DAV:    davs, Files: s.files, Uploads: s.Sessions, Thumbs: thumb.New(thumb.Options{}), Sessions: account.NewSessions(s.DB, users, auth, accounts),
		Caller: caller, Balance: balance, Instance: "sdtest", BaseURL: "https://drive.example.org",
		Visitor: func(*http.Request) (func(), error) { return func() {}, nil },
		Name: func(_ context.Context, id drive.UserID) (string, error) {
			for name, who := range s.people {
				if who.User == id {
					return name, nil
				}
			}
			return "", drive.Fail(drive.NotFound)
		},
	})
	s.head.Register(mux)
	s.server = server.New(server.Options{Routes: mux, Loose: nextcloud.Prefixes(), Log: slog.New(slog.DiscardHandler)})
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request as ann: "METHOD /path", headers as "Name: value", and the body after an empty
// one.
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
	if header.Get("Authorization") == "" {
		r.SetBasicAuth("ann", "x")
	}
	if _, known := body.(*strings.Reader); known {
		r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d\n%v\n%s", a.status, status, a.header, a.body)
	}
	return a
}

func (a answer) has(t testing.TB, texts ...string) answer {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Fatalf("the answer does not hold %q:\n%s", text, a.body)
		}
	}
	return a
}

// exact returns a header whose name has this case, which Nextcloud's has, too.
func (a answer) exact(name string) string { return strings.Join(a.header[name], ",") }

// between returns what stands between two texts of the body.
func (a answer) between(t testing.TB, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(a.body, from)
	inner, _, ends := strings.Cut(rest, to)
	if !ok || !ends {
		t.Fatalf("nothing between %q and %q:\n%s", from, to, a.body)
	}
	return inner
}
