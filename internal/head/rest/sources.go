package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/ingest"
)

// sourcesPath is a route path below prefix: /sources.
const sourcesPath = "/sources"

// sources serves the routes for sources, which send documents.
type sources struct{ intake *ingest.Intake }

// routes returns the declarations of the routes that sources serves. It registers nothing.
func (s sources) routes() []route {
	one := sourcesPath + "/{name}"
	return []route{
		{
			id: "listSources", method: "GET", path: sourcesPath, access: read, action: withoutBody(s.list), query: []param{limitParam, cursor},
			summary:  "List those who send documents: folders of /intake that have rules or have sent bundles.",
			outcomes: []outcome{jsonOutcome[api.Page[ingest.Source]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "getSource", method: "GET", path: one, access: read, action: withoutBody(s.get),
			summary:  "Show the rules of a source.",
			outcomes: []outcome{jsonOutcome[ingest.Source](200, "the source")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "setSource", method: "PUT", path: one, access: write, action: withJSON(s.put),
			summary:  "Say which documents of a source are taken; others are rejected and counted. It holds for bundles that are taken in from now on.",
			outcomes: []outcome{jsonOutcome[ingest.Source](200, "the source")},
			errors:   []drive.Kind{drive.TooManyOpen},
		}, {
			id: "deleteSource", method: "DELETE", path: one, access: write, action: withoutBody(s.remove),
			summary:  "Forget the rules of a source: every document is taken then. Its bundles and documents stay.",
			outcomes: []outcome{emptyOutcome(204, "there are no rules")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// list serves GET /sources. It replies 200 with api.Page[ingest.Source]. Beyond the errors common
// to all routes it fails with drive.CursorInvalid.
func (s sources) list(ctx context.Context, c *call) (reply, error) {
	all, err := s.intake.Sources(ctx, c.who)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, all, func(s ingest.Source) string { return s.Name })
}

// get serves GET /sources/{name}. It replies 200 with ingest.Source. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (s sources) get(ctx context.Context, c *call) (reply, error) {
	return answer(s.intake.Source(ctx, c.who, c.r.PathValue("name")))
}

// sourceBody is the JSON request body of PUT /sources/{name}.
type sourceBody struct {
	Rules ingest.Rules `json:"rules"`
}

// put serves PUT /sources/{name}. It replies 200 with ingest.Source. Beyond the errors common to
// all routes it fails with drive.TooManyOpen.
func (s sources) put(ctx context.Context, c *call, in *sourceBody) (reply, error) {
	return answer(s.intake.PutSource(ctx, c.who, ingest.Source{Name: c.r.PathValue("name"), Rules: in.Rules}))
}

// remove serves DELETE /sources/{name}. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (s sources) remove(ctx context.Context, c *call) (reply, error) {
	return empty(s.intake.DeleteSource(ctx, c.who, c.r.PathValue("name")))
}
