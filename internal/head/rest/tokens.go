package rest

import (
	"context"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
)

// tokenRoutes returns the declarations of the token routes. It registers nothing.
func (s sessions) tokenRoutes() []route {
	return []route{
		{
			id: "createToken", method: "POST", path: "/tokens", access: write, action: withJSON(s.createToken),
			summary:  "Make a token for a program. Only a login may. With `heads` it is an app password: what programs send as the password of HTTP Basic, beside the user's name.",
			outcomes: []outcome{jsonOutcome[grantView](201, "the token, shown this once")}, errors: []drive.Kind{drive.Forbidden, drive.TooManyOpen},
		}, {
			id: "listTokens", method: "GET", path: "/tokens", access: read, action: withoutBody(s.listTokens), query: []param{limitParam, cursor},
			summary:  "List the tokens, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[tokenView]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "deleteToken", method: "DELETE", path: "/tokens/{id}", access: write, action: withoutBody(s.deleteToken),
			summary:  "Revoke a token: it acts for at most 5 s more.",
			outcomes: []outcome{emptyOutcome(204, "it is revoked")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "getAppFlow", method: "GET", path: "/flows/{page}", access: read, action: withoutBody(s.showFlow),
			summary:  "What a program that asks for an app password says of itself. It has opened the page of this address.",
			outcomes: []outcome{jsonOutcome[flowView](200, "the program")}, errors: []drive.Kind{drive.NotFound, drive.Gone},
		}, {
			id: "grantAppFlow", method: "POST", path: "/flows/{page}", access: write, action: withJSON(s.grantFlow),
			summary:  "Give that program an app password for the Nextcloud head. Only a login may. Granting twice is granting once.",
			outcomes: []outcome{emptyOutcome(204, "the program gets it when it asks next")}, errors: []drive.Kind{drive.NotFound, drive.Gone, drive.Forbidden, drive.TooManyOpen},
		},
	}
}

// tokenBody is the JSON request body of POST /tokens.
type tokenBody struct {
	Name      string   `json:"name" doc:"label shown in the list of tokens, at most 64 bytes"`
	Scopes    []string `json:"scopes" enum:"read,write,admin"`
	Heads     []string `json:"heads,omitempty" enum:"native,dav,nextcloud" doc:"protocols that accept the token; absent: native"`
	ExpiresIn *int64   `json:"expires_in,omitempty" minimum:"60" maximum:"315360000" doc:"lifetime in seconds; absent: until the token is deleted"`
}

// scopeNames lists the scopes with their names.
var scopeNames = []struct {
	name  string
	scope drive.Scope
}{{"read", drive.ScopeRead}, {"write", drive.ScopeWrite}, {"admin", drive.ScopeAdmin}}

// parseScopes returns the scopes of their names. It fails with drive.BadRequest for an unknown
// name.
func parseScopes(given []string) (all drive.Scope, err error) {
	for _, name := range given {
		scope := drive.Scope(0)
		for _, s := range scopeNames {
			if s.name == name {
				scope = s.scope
			}
		}
		if scope == 0 {
			return 0, drive.BadField("scopes", drive.NotAllowed, "allowed", []string{"read", "write", "admin"}, "sent", clip(name))
		}
		all |= scope
	}
	return all, nil
}

// headNames lists the heads with their names.
var headNames = []struct {
	name string
	head drive.Heads
}{{"native", drive.HeadNative}, {"dav", drive.HeadDAV}, {"nextcloud", drive.HeadNextcloud}}

// parseHeads returns the heads of their names. It fails with drive.BadRequest for an unknown name.
func parseHeads(given []string) (all drive.Heads, err error) {
	for _, name := range given {
		head := drive.Heads(0)
		for _, h := range headNames {
			if h.name == name {
				head = h.head
			}
		}
		if head == 0 {
			return 0, drive.BadField("heads", drive.NotAllowed, "allowed", []string{"native", "dav", "nextcloud"}, "sent", clip(name))
		}
		all |= head
	}
	return all, nil
}

// createToken serves POST /tokens. It replies 201 with grantView. Beyond the errors common to all
// routes it fails with drive.Forbidden or drive.TooManyOpen.
func (s sessions) createToken(ctx context.Context, c *call, in *tokenBody) (reply, error) {
	scopes, err := parseScopes(in.Scopes)
	if err != nil {
		return reply{}, err
	}
	heads, err := parseHeads(in.Heads)
	if err != nil {
		return reply{}, err
	}
	token := account.NewToken{Name: in.Name, Scopes: scopes, Heads: heads}
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

// tokenView is the JSON in replies to GET /tokens.
type tokenView struct {
	ID        drive.SessionID `json:"id"`
	Name      string          `json:"name"`
	Scopes    []string        `json:"scopes"`
	Heads     []string        `json:"heads"` // native, dav, nextcloud: protocols that accept the token
	CreatedAt drive.Time      `json:"created_at"`
	SeenAt    drive.Time      `json:"seen_at"`    // exact to an hour
	ExpiresAt *drive.Time     `json:"expires_at"` // null: never
}

// listTokens serves GET /tokens. It replies 200 with api.Page[tokenView]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (s sessions) listTokens(ctx context.Context, c *call) (reply, error) {
	tokens, err := s.sessions.List(ctx, c.who, account.KindToken)
	if err != nil {
		return reply{}, err
	}
	views := make([]tokenView, len(tokens))
	for i, s := range tokens {
		views[i] = tokenView{s.ID, s.Name, s.Scopes.Names(), s.Heads.Names(), s.CreatedAt, s.SeenAt, timeOrNull(s.ExpiresAt)}
	}
	return pageOf(c, views, func(s tokenView) string { return s.ID.String() })
}

// deleteToken serves DELETE /tokens/{id}. It replies 204 without a body. Beyond the errors common
// to all routes it fails with drive.NotFound.
func (s sessions) deleteToken(ctx context.Context, c *call) (reply, error) {
	return s.end(ctx, c, account.KindToken)
}

// flowView describes a program that asks for an app password, before the user decides.
type flowView struct {
	Agent     string     `json:"agent"`      // name that the program gives itself; not verified
	ExpiresAt drive.Time `json:"expires_at"` // end of the time to grant it
}

// showFlow serves GET /flows/{page}. It replies 200 with flowView. Beyond the errors common to all
// routes it fails with drive.NotFound or drive.Gone.
func (s sessions) showFlow(_ context.Context, c *call) (reply, error) {
	f, err := s.sessions.ReadFlow(c.r.PathValue("page"))
	if err != nil {
		return reply{}, err
	}
	return ok(flowView{f.Agent, f.Ends})
}

// flowBody is the JSON request body of POST /flows/{page}.
type flowBody struct {
	Name string `json:"name,omitempty" doc:"label of the app password in the list of tokens; absent: the name that the program reports"`
}

// grantFlow serves POST /flows/{page}. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound, drive.Gone, drive.Forbidden or drive.TooManyOpen.
func (s sessions) grantFlow(ctx context.Context, c *call, in *flowBody) (reply, error) {
	return empty(s.sessions.GrantFlow(ctx, c.who, c.r.PathValue("page"), account.NewToken{
		Name: in.Name, Scopes: drive.ScopeRead | drive.ScopeWrite, Heads: drive.HeadNextcloud,
	}))
}
