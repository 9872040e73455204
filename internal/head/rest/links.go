package rest

import (
	"context"
	"errors"
	"net/url"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// linksPath is a route path below prefix: /links.
const linksPath = "/links"

// linkRoutes returns the declarations of the link routes. It registers nothing.
func (s contents) linkRoutes() []route {
	return []route{
		{
			id: "createLink", method: "POST", path: nodesPath + "/{id}/links", access: write, action: byNodeWithJSON(s.files, s.createLink),
			summary:  "Make a signed link to a file, for browsers and other programs. It is void once it has expired, the file is trashed, the login or token that made it has ended, or the password changed.",
			outcomes: []outcome{jsonOutcome[api.Link](201, "the link; whoever has it may read the file")},
			// A second link does no harm, so it needs no idempotency key.
			errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.WrongState},
		}, {
			id: "downloadLinkedFile", method: "GET", path: linksPath, access: open, action: withoutBody(s.openLink),
			query:    []param{{name: "token", required: true, doc: "what the link's maker was given; in the query, which no log shows"}},
			header:   []string{"Range", "If-Range", "If-None-Match", "If-Match"},
			summary:  "Read the file of a signed link.",
			outcomes: contentOutcomes(),
			errors:   []drive.Kind{drive.NotFound, drive.Gone, drive.Precondition, drive.Range},
		},
	}
}

// linkBody is the JSON request body of POST /nodes/{id}/links.
type linkBody struct {
	ExpiresIn   int64  `json:"expires_in" minimum:"1" maximum:"86400" doc:"seconds"`
	Disposition string `json:"disposition,omitempty" enum:"attachment,inline" default:"attachment"`
}

// createLink serves POST /nodes/{id}/links. It replies 201 with api.Link. Beyond the errors common
// to all routes it fails with drive.NotFound, drive.Forbidden or drive.WrongState. The link is
// signed, not stored; whoever has it can read the file until it expires.
func (s contents) createLink(ctx context.Context, c *call, id drive.NodeID, in *linkBody) (reply, error) {
	how := files.Attachment
	switch in.Disposition {
	case "", "attachment":
	case "inline":
		how = files.Inline
	default:
		return reply{}, drive.BadField("disposition", drive.NotAllowed, "allowed", []string{"attachment", "inline"}, "sent", clip(in.Disposition))
	}
	life, err := seconds("expires_in", in.ExpiresIn, 1, int64(files.MaxLinkLife/time.Second))
	if err != nil {
		return reply{}, err
	}
	link, err := s.links.Create(ctx, c.who, id, life, how)
	if err != nil {
		return reply{}, err
	}
	return created(api.Link{URL: c.baseURL() + prefix + linksPath + "?token=" + url.QueryEscape(link.Token), ExpiresAt: showTime(link.ExpiresAt)})
}

// openLink serves GET /links. Beyond the errors common to all routes it fails with drive.NotFound,
// drive.Gone, drive.Precondition or drive.Range.
func (s contents) openLink(ctx context.Context, c *call) (reply, error) {
	token := c.query.Get("token")
	d, how, err := s.links.Open(ctx, token, c.client().String())
	if err != nil {
		return reply{}, err
	}
	release, err := s.readers.acquire(token)
	if err != nil {
		return reply{}, errors.Join(err, d.Close())
	}
	defer release()
	return s.send(ctx, c, &d, how == files.Inline)
}
