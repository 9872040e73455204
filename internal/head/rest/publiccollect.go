package rest

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
)

// publicRoutes returns the declarations of the public routes. It registers nothing.
func (l collects) publicRoutes() []route {
	const one = "/public/collects/{token}"
	return []route{
		{
			id: "getPublicCollectLink", method: "GET", path: one, access: open, action: withoutBody(l.look),
			summary:  "Show what a collect link asks for.",
			outcomes: []outcome{jsonOutcome[publicCollectView](200, "the link")}, errors: []drive.Kind{drive.NotFound, drive.Gone},
		}, {
			id: "openPublicCollectLink", method: "POST", path: one + "/open", access: open, action: withJSON(l.open), bodyOptional: true,
			summary:  "Get a sender's token. It may begin uploads with a `path` of one name, and see and complete these; nothing else.",
			outcomes: []outcome{jsonOutcome[senderView](200, "the token")},
			errors:   []drive.Kind{drive.NotFound, drive.Gone},
		},
	}
}

// publicCollectView is the JSON in replies to GET /public/collects/{token}.
type publicCollectView struct {
	Title     string          `json:"title"`
	Message   string          `json:"message"`
	Owner     string          `json:"owner"`
	ExpiresAt *drive.Time     `json:"expires_at"` // null: never
	MaxFile   *drive.ByteSize `json:"max_file"`   // null: any
	Left      *drive.ByteSize `json:"left"`       // null: the link has no limit of its own
}

// look serves GET /public/collects/{token}. It replies 200 with publicCollectView. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.Gone.
func (l collects) look(ctx context.Context, c *call) (reply, error) {
	p, err := l.links.Describe(ctx, c.r.PathValue("token"))
	if err != nil {
		return reply{}, err
	}
	return ok(publicCollectView{p.Title, p.Message, p.Owner, timeOrNull(p.ExpiresAt), p.MaxFile, p.Left})
}

// openCollectBody is the JSON request body of POST /public/collects/{token}/open.
type openCollectBody struct {
	Sender string `json:"sender,omitempty" nullable:"true" doc:"name of the sender, shown to the owner; at most 64 bytes"`
}

// senderView is the JSON in replies to POST /public/collects/{token}/open.
type senderView struct {
	Token     string     `json:"token"`
	ExpiresAt drive.Time `json:"expires_at"`
}

// open serves POST /public/collects/{token}/open. It replies 200 with senderView. Beyond the errors
// common to all routes it fails with drive.NotFound or drive.Gone.
func (l collects) open(ctx context.Context, c *call, in *openCollectBody) (reply, error) {
	g, err := l.links.IssueToken(ctx, c.r.PathValue("token"), in.Sender)
	if err != nil {
		return reply{}, err
	}
	return ok(senderView{g.Token, g.ExpiresAt})
}
