package rest

import (
	"context"
	"reflect"
	"strings"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/ingest"
)

const (
	// bundlesPath is a route path below prefix: /bundles.
	bundlesPath = "/bundles"
	// rejectionsPath is a route path below prefix: /rejections.
	rejectionsPath = "/rejections"
	// straysPath is a route path below prefix: /strays.
	straysPath = "/strays"
)

var (
	// bundleStateParam declares the query parameter "state".
	bundleStateParam = param{name: "state", syntax: choice, choices: []string{anyChoice, "sealed", "running", "done", "rejected"}, doc: "only bundles in this state"}
	// outcomeParam declares the query parameter "outcome".
	outcomeParam = param{name: "outcome", syntax: choice, choices: []string{anyChoice, "accepted", "rejected", "duplicate", "conflict"}, doc: "only records with this outcome"}
	// reasonParam declares the query parameter "reason".
	reasonParam = param{name: "reason", doc: "only with this reason, such as `invalid`"}
	// sourceParam declares the query parameter "source".
	sourceParam = param{name: "source", doc: "only of this source"}
	// langParam declares the query parameter "lang".
	langParam = param{name: "lang", syntax: choice, choices: []string{"auto", "en", "de", "zh-CN"}, doc: "language of the findings; auto: by Accept-Language"}
	// rejectedParam declares the query parameter "format".
	rejectedParam = param{name: "format", syntax: choice, choices: []string{"json", "csv"}, doc: "csv gives all of them, a line for each finding, not a page; or by Accept: text/csv"}
)

// bundles serves the routes for bundles of documents that were sealed in /intake.
type bundles struct{ intake *ingest.Intake }

// routes returns the declarations of the routes that bundles serves. It registers nothing.
func (b bundles) routes() []route {
	one := bundlesPath + "/{id}"
	return []route{
		{
			id: "listBundles", method: "GET", path: bundlesPath, access: read, action: withoutBody(b.list),
			query:    []param{sourceParam, bundleStateParam, limitParam, cursor},
			summary:  "List the bundles of documents that were sealed in /intake, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[ingest.Bundle]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "getBundle", method: "GET", path: one, access: read, action: byID(b.get),
			summary:  "Show a bundle with its members.",
			outcomes: []outcome{jsonOutcome[ingest.BundleFull](200, "the bundle")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "listBundleRecords", method: "GET", path: one + "/records", access: read, action: byID(b.records), query: []param{outcomeParam, langParam, limitParam, cursor}, header: []string{"Accept-Language"},
			summary:  "List what became of each document that the bundle declares.",
			outcomes: []outcome{jsonOutcome[api.Page[ingest.BundleRecord]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "retryBundle", method: "POST", path: one + "/retry", access: write, action: byID(b.retry),
			summary: "Process a rejected bundle again. Documents that were accepted before are recognised and count once.",
			// A repeated request fails with wrong-state, so it needs no idempotency key.
			outcomes: []outcome{jsonOutcome[ingest.Bundle](200, "the bundle, `sealed`")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "acceptBundleDocument", method: "POST", path: one + "/accept", access: write, action: byIDWithJSON(b.accept),
			summary: "Accept a rejected document that breaks rules, or that the source's rules do not want: its record says who did it, when and why.",
			// A repeated request fails with wrong-state, so it needs no idempotency key.
			outcomes: []outcome{jsonOutcome[ingest.BundleRecord](200, "the record as it is now")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "listRejections", method: "GET", path: rejectionsPath, access: read, action: withoutBody(b.rejections),
			query: []param{sourceParam, reasonParam, langParam, rejectedParam, limitParam, cursor}, header: []string{"Accept", "Accept-Language"},
			summary: "List the documents of all bundles that were not accepted, those of the newest bundle first, with what is wrong with them.",
			outcomes: []outcome{{
				status: 200, body: reflect.TypeFor[api.Page[ingest.Rejection]](), textTypes: []string{"text/csv"}, description: "a page; or all of them as CSV",
			}},
			errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "listStrays", method: "GET", path: straysPath, access: read, action: withoutBody(b.strays), query: []param{limitParam, cursor},
			summary:  "List what lies below /intake and is no bundle, so that nobody takes it in, and why. A page may be short, or longer than the limit, and have a next one.",
			outcomes: []outcome{jsonOutcome[api.Page[ingest.Stray]](200, "a page")},
		},
	}
}

// strays serves GET /strays. It replies 200 with api.Page[ingest.Stray]. A page may be short, or
// empty, while there is a next one.
func (b bundles) strays(ctx context.Context, c *call) (reply, error) {
	found, next, err := b.intake.Strays(ctx, c.who, c.query.Get(cursor.name), c.limit())
	if err != nil {
		return reply{}, err
	}
	page := api.Page[ingest.Stray]{Items: append([]ingest.Stray{}, found...)}
	if next != "" {
		page.NextCursor = &next
	}
	return ok(page)
}

// list serves GET /bundles. It replies 200 with api.Page[ingest.Bundle]. Beyond the errors common
// to all routes it fails with drive.CursorInvalid.
func (b bundles) list(ctx context.Context, c *call) (reply, error) {
	return listPage(c, func(before drive.BundleID, limit int) ([]ingest.Bundle, error) {
		return b.intake.Bundles(ctx, c.who, ingest.BundleFilter{
			Source: c.query.Get(sourceParam.name), State: ingest.State(c.choiceValue(bundleStateParam)), Before: before, Limit: limit,
		})
	}, unchanged, func(v ingest.Bundle) string { return v.ID.String() })
}

// get serves GET /bundles/{id}. It replies 200 with ingest.BundleFull. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (b bundles) get(ctx context.Context, c *call, id drive.BundleID) (reply, error) {
	return answer(b.intake.Bundle(ctx, c.who, id))
}

// records serves GET /bundles/{id}/records. It replies 200 with api.Page[ingest.BundleRecord].
// Beyond the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (b bundles) records(ctx context.Context, c *call, id drive.BundleID) (reply, error) {
	records, err := b.intake.Records(ctx, c.who, id, ingest.Outcome(c.choiceValue(outcomeParam)), c.query.Get(cursor.name), c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	said := c.findingsIn()
	for i := range records {
		said.translate(&records[i])
	}
	return ok(newPage(records, c.limit(), func(r ingest.BundleRecord) string { return r.Place }))
}

// rejections serves GET /rejections. Beyond the errors common to all routes it fails with
// drive.CursorInvalid.
func (b bundles) rejections(ctx context.Context, c *call) (reply, error) {
	f := ingest.RejectedFilter{Source: c.query.Get(sourceParam.name), Reason: c.query.Get(reasonParam.name)}
	said := c.findingsIn()
	if format := c.query.Get(rejectedParam.name); format == "csv" || format == "" && strings.HasPrefix(c.r.Header.Get("Accept"), "text/csv") {
		c.releaseMemory() // the CSV is streamed for as long as the client reads, so it holds no memory of a page
		return b.sendRejections(ctx, c, f, said)
	}
	all, err := b.intake.Rejections(ctx, c.who, f, c.query.Get(cursor.name), c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	for i := range all {
		said.translate(&all[i].BundleRecord)
	}
	return ok(newPage(all, c.limit(), ingest.Rejection.Cursor))
}

// acceptBody is the JSON request body of POST /bundles/{id}/accept.
type acceptBody struct {
	Place  string `json:"place" doc:"position of the record in the bundle"`
	Reason string `json:"reason" doc:"reason of the decision, up to 500 bytes"`
}

// accept serves POST /bundles/{id}/accept. It replies 200 with ingest.BundleRecord. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.WrongState. It stores a
// rejected document despite its findings, with the caller and the reason.
func (b bundles) accept(ctx context.Context, c *call, id drive.BundleID, in *acceptBody) (reply, error) {
	if err := c.acquireDocuments(ctx, 1); err != nil {
		return reply{}, err
	}
	return answer(b.intake.AcceptAnyway(ctx, c.who, id, in.Place, in.Reason))
}

// retry serves POST /bundles/{id}/retry. It replies 200 with ingest.Bundle. Beyond the errors
// common to all routes it fails with drive.NotFound or drive.WrongState. The bundle is processed
// again in the background.
func (b bundles) retry(ctx context.Context, c *call, id drive.BundleID) (reply, error) {
	return answer(b.intake.Retry(ctx, c.who, id))
}
