package rest

import (
	"context"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/usecase/files"
)

func (s sessions) tokenRoutes() []route {
	return []route{
		{
			method: "POST", path: "/tokens", need: write, act: takes(s.createToken),
			does: "Make a token for a program. Only a login may.",
			out:  []outcome{gives[grantView](201, "the token, shown this once")}, fails: []drive.Kind{drive.Forbidden, drive.TooManyOpen},
		}, {
			method: "GET", path: "/tokens", need: read, act: plain(s.listTokens), query: []param{limitParam, cursor},
			does: "List the tokens, the newest first.",
			out:  []outcome{gives[files.Page[tokenView]](200, "a page")}, fails: []drive.Kind{drive.CursorInvalid},
		}, {
			method: "DELETE", path: "/tokens/{id}", need: write, act: plain(s.deleteToken),
			does: "Revoke a token: it acts for at most 5 s more.",
			out:  []outcome{nothing(204, "it is revoked")}, fails: []drive.Kind{drive.NotFound},
		},
	}
}

type tokenBody struct {
	Name      string   `json:"name" doc:"for the one who looks at the list later; at most 64 bytes"`
	Scopes    []string `json:"scopes" enum:"read,write,admin"`
	ExpiresIn *int64   `json:"expires_in,omitempty" minimum:"60" maximum:"315360000" doc:"seconds; absent: until it is deleted"`
}

// scopeNames are the scopes by name, in the order in which they are shown.
var scopeNames = []struct {
	name  string
	scope drive.Scope
}{{"read", drive.ScopeRead}, {"write", drive.ScopeWrite}, {"admin", drive.ScopeAdmin}}

func parseScopes(given []string) (all drive.Scope, err error) {
	for _, name := range given {
		scope := drive.Scope(0)
		for _, s := range scopeNames {
			if s.name == name {
				scope = s.scope
			}
		}
		if scope == 0 {
			return 0, drive.Bad("scopes", drive.NotAllowed, "allowed", []string{"read", "write", "admin"}, "sent", clip(name))
		}
		all |= scope
	}
	return all, nil
}

func showScopes(all drive.Scope) []string {
	shown := []string{}
	for _, s := range scopeNames {
		if all.Has(s.scope) {
			shown = append(shown, s.name)
		}
	}
	return slices.Clip(shown)
}

func (s sessions) createToken(ctx context.Context, c *call, in *tokenBody) (reply, error) {
	scopes, err := parseScopes(in.Scopes)
	if err != nil {
		return reply{}, err
	}
	token := account.NewToken{Name: in.Name, Scopes: scopes}
	if in.ExpiresIn != nil {
		const tenYears = 10 * 365 * 24 * time.Hour
		if token.Life, err = seconds("expires_in", *in.ExpiresIn, 60, int64(tenYears/time.Second)); err != nil {
			return reply{}, err
		}
	}
	g, err := s.sessions.CreateToken(ctx, c.who, token)
	if err != nil {
		return reply{}, err
	}
	return created(grant(g))
}

type tokenView struct {
	ID        drive.SessionID `json:"id"`
	Name      string          `json:"name"`
	Scopes    []string        `json:"scopes"`
	CreatedAt drive.Time      `json:"created_at"`
	SeenAt    drive.Time      `json:"seen_at"`    // exact to an hour
	ExpiresAt *drive.Time     `json:"expires_at"` // null: never
}

func (s sessions) listTokens(ctx context.Context, c *call) (reply, error) {
	tokens, err := s.sessions.List(ctx, c.who, account.KindToken)
	if err != nil {
		return reply{}, err
	}
	views := make([]tokenView, len(tokens))
	for i, s := range tokens {
		views[i] = tokenView{s.ID, s.Name, showScopes(s.Scopes), s.CreatedAt, s.SeenAt, timeOrNull(s.ExpiresAt)}
	}
	return pageOf(c, views, func(s tokenView) string { return s.ID.String() })
}

func (s sessions) deleteToken(ctx context.Context, c *call) (reply, error) {
	return s.end(ctx, c, account.KindToken)
}
