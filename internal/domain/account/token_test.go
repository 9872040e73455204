package account

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

func TestTokenIsLimitedToScopesAndExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "root", true)
	who := f.who(t, f.login(t, "root").Secret)
	read, err := f.sessions.CreateToken(t.Context(), who, NewToken{Name: "read", Scopes: drive.ScopeRead, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	full, err := f.sessions.CreateToken(t.Context(), who, NewToken{Name: "all", Scopes: allScopes})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.who(t, read.Secret); got.Admin || got.Scopes != drive.ScopeRead {
		t.Errorf("a read token acts as %+v", got)
	}
	if got := f.who(t, full.Secret); !got.Admin || got.Scopes != allScopes {
		t.Errorf("an admin token acts as %+v", got)
	}
	f.clock.Advance(time.Hour)
	f.wantRefused(t, read.Secret, "expired")
	f.clock.Advance(5 * 365 * 24 * time.Hour)
	f.who(t, full.Secret)
}

func TestCreateTokenAuthorization(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "root", true)
	f.add(t, "ann", false)
	ann := f.who(t, f.login(t, "ann").Secret)
	token, err := f.sessions.CreateToken(t.Context(), ann, NewToken{Name: "rw", Scopes: drive.ScopeRead | drive.ScopeWrite})
	if err != nil {
		t.Fatal(err)
	}
	ended := f.who(t, f.login(t, "ann").Secret)
	if err := f.sessions.Delete(t.Context(), ended, KindLogin, ended.Session); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who  drive.Who
		in   NewToken
		kind drive.Kind
	}{
		"admin scope for a user":  {ann, NewToken{Name: "a", Scopes: drive.ScopeAdmin}, drive.Forbidden},
		"by a token":              {f.who(t, token.Secret), NewToken{Name: "a", Scopes: drive.ScopeRead}, drive.Forbidden},
		"by a session that ended": {ended, NewToken{Name: "a", Scopes: drive.ScopeRead}, drive.Unauthenticated},
		"no name":                 {ann, NewToken{Scopes: drive.ScopeRead}, drive.BadRequest},
		"no scope":                {ann, NewToken{Name: "a"}, drive.BadRequest},
		"unknown scope":           {ann, NewToken{Name: "a", Scopes: 8}, drive.BadRequest},
		"life too short":          {ann, NewToken{Name: "a", Scopes: drive.ScopeRead, Life: time.Second}, drive.BadRequest},
		"negative life":           {ann, NewToken{Name: "a", Scopes: drive.ScopeRead, Life: -time.Hour}, drive.BadRequest},
	} {
		_, err := f.sessions.CreateToken(t.Context(), c.who, c.in)
		if !drive.IsKind(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

func TestSessionsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	f.add(t, "bob", false)
	ann, bob := f.who(t, f.login(t, "ann").Secret), f.who(t, f.login(t, "bob").Secret)
	token, err := f.sessions.CreateToken(t.Context(), ann, NewToken{Name: "t", Scopes: drive.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := f.sessions.List(t.Context(), bob, KindToken); err != nil || len(all) != 0 {
		t.Fatalf("bob sees %v, error %v", all, err)
	}
	wantKind(t, f.sessions.Delete(t.Context(), bob, KindToken, token.ID), drive.NotFound)
	wantKind(t, f.sessions.Delete(t.Context(), ann, KindLogin, token.ID), drive.NotFound)
	f.who(t, token.Secret)
	if err := f.sessions.DeleteOthers(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	f.who(t, token.Secret) // tokens are not logins
	if err := f.sessions.Delete(t.Context(), ann, KindToken, token.ID); err != nil {
		t.Fatal(err)
	}
	f.wantRefused(t, token.Secret, "invalid")
	wantKind(t, f.sessions.Delete(t.Context(), ann, KindToken, token.ID), drive.NotFound)
}

func TestTokensOfOneUserAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	ann := f.who(t, f.login(t, "ann").Secret)
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for range maxSessions {
			_, hash := newSecret()
			if err := insertSession(ctx, tx, Session{ID: drive.NewID[drive.SessionID](), User: ann.User, Kind: KindToken}, hash); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err := f.sessions.CreateToken(t.Context(), ann, NewToken{Name: "one more", Scopes: drive.ScopeRead})
	wantKind(t, err, drive.TooManyOpen)
}
