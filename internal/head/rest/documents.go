package rest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/intake/invoice"
)

// documentsPath is a route path below prefix: /documents.
const documentsPath = "/documents"

var (
	// minParam declares the query parameter "min".
	minParam = param{name: "min", doc: "smallest total with VAT, such as 100.50"}
	// maxParam declares the query parameter "max".
	maxParam = param{name: "max", doc: "largest total with VAT"}
	// formatParam declares the query parameter "format".
	formatParam = param{name: "format", syntax: choice, choices: []string{"json", "csv", "ndjson"}, doc: "csv and ndjson give all documents, not a page; or by Accept: text/csv, application/x-ndjson"}
	// byParam declares the query parameter "by".
	byParam = param{name: "by", syntax: choice, choices: []string{"currency", "seller", "month", "vat"}, doc: "what documents are added up by"}
	// totalsFormatParam declares the query parameter "format".
	totalsFormatParam = param{name: "format", syntax: choice, choices: []string{"json", "csv"}, doc: "or by Accept: text/csv"}
	// documentStateParam declares the query parameter "state".
	documentStateParam = param{name: "state", syntax: choice, choices: []string{anyChoice, "accepted", "conflict"}, doc: "only documents in this state"}
	// documentParams are the filters of lists of documents.
	documentParams = []param{
		{name: "month", doc: "of the documents' own date, such as 2026-10"},
		sourceParam,
		{name: "seller", doc: "its id or name"},
		{name: "buyer", doc: "its id or name"},
		minParam, maxParam,
		{name: "currency", doc: "ISO 4217"},
		{name: "type", doc: "code of UNTDID 1001: 380 an invoice, 381 a credit note"},
		documentStateParam,
		{name: "q", doc: "occurs in number, names or ids, whatever its case"},
	}
)

// documents serves the routes for documents received in bundles, and for their conflicts.
type documents struct{ intake *ingest.Intake }

// routes returns the declarations of the routes that documents serves. It registers nothing.
func (d documents) routes() []route {
	one := documentsPath + "/{id}"
	return []route{
		{
			id: "listDocuments", method: "GET", path: documentsPath, access: read, action: withoutBody(d.list),
			query:   append(append([]param{}, documentParams...), formatParam, limitParam, cursor),
			header:  []string{"Accept"},
			summary: "List documents that came in bundles, by their own date, the newest first.",
			outcomes: []outcome{{
				status: 200, body: reflect.TypeFor[api.Page[ingest.Document]](), textTypes: []string{"text/csv", "application/x-ndjson"},
				description: "a page; or all of them as CSV or as JSON lines",
			}},
			errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "sumDocuments", method: "GET", path: documentsPath + "/totals", access: read, action: withoutBody(d.totals),
			query:    append(append([]param{}, documentParams...), byParam, totalsFormatParam),
			header:   []string{"Accept"},
			summary:  "Add up documents by currency, seller, month or VAT, and always by currency. Amounts are exact; credit notes are subtracted. Up to 100,000 documents.",
			outcomes: []outcome{{status: 200, body: reflect.TypeFor[api.Page[ingest.Total]](), textTypes: []string{"text/csv"}, description: "all of them; or as CSV"}},
		}, {
			id: "getDocument", method: "GET", path: one, access: read, action: byID(d.get),
			summary:  "Show a document with all that it says, and where it came from.",
			outcomes: []outcome{jsonOutcome[ingest.DocumentFull](200, "the document")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "downloadAttachment", method: "GET", path: one + "/attachments/{sha256}", access: read, action: byID(d.attachment),
			summary:  "Get a file that is embedded in a document, by the sha256 that the model has of it.",
			outcomes: []outcome{{status: 200, bytes: true, description: "the file"}}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "getDocumentConflict", method: "GET", path: one + "/conflict", access: read, action: byID(d.conflict),
			summary:  "Show both sides of the oldest open conflict of a document.",
			outcomes: []outcome{jsonOutcome[ingest.Dispute](200, "the conflict")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "settleDocumentConflict", method: "POST", path: one + "/settle", access: write, action: byIDWithJSON(d.settle),
			summary: "Say which side of a conflict is true. The other is kept aside: it is known when it comes again.",
			// A repeated request fails with wrong-state, so it needs no idempotency key.
			outcomes: []outcome{jsonOutcome[ingest.DocumentFull](200, "the document as it is now")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "listConflicts", method: "GET", path: conflictsPath, access: read, action: withoutBody(d.listConflicts), query: []param{limitParam, cursor},
			summary:  "List the open conflicts, the oldest first: documents of one source, seller, number and date that say different things. A page may be short and yet have a next one.",
			outcomes: []outcome{jsonOutcome[api.Page[ingest.Dispute]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "settleConflicts", method: "POST", path: conflictsPath + "/settle", access: write, action: withJSON(d.settleMany),
			summary: "Settle up to 1,000 open conflicts in one way: those named, or all, or all of a source. Of several of one document the last counts.",
			// A repeated request continues with the conflicts that are still open, so it needs no
			// key.
			outcomes: []outcome{jsonOutcome[settledView](200, "how many were settled, and how many of them are left for the next call")},
			errors:   []drive.Kind{drive.NotFound},
		},
	}
}

// conflictsPath is a route path below prefix: /conflicts.
const conflictsPath = "/conflicts"

// documentFilter reads the documentParams of the query; absent ones do not restrict. It fails with
// drive.BadRequest for an amount that is no number.
func documentFilter(c *call) (f ingest.Filter, err error) {
	f = ingest.Filter{
		Month: c.query.Get("month"), Source: c.query.Get(sourceParam.name), Seller: c.query.Get("seller"), Buyer: c.query.Get("buyer"),
		Currency: c.query.Get("currency"), Type: c.query.Get("type"), State: c.choiceValue(documentStateParam), Query: c.query.Get("q"),
	}
	for name, to := range map[string]*invoice.Decimal{minParam.name: &f.Min, maxParam.name: &f.Max} {
		value := c.query.Get(name)
		if value == "" {
			continue
		}
		if *to, err = invoice.ParseDecimal(value); err != nil {
			return ingest.Filter{}, drive.Wrap(err, drive.BadRequest, "field", name, "reason", string(drive.Malformed), "expected", "a number such as 100.50")
		}
	}
	return f, nil
}

// list serves GET /documents. Beyond the errors common to all routes it fails with
// drive.CursorInvalid. With the format csv or ndjson it streams all documents instead of a page.
func (d documents) list(ctx context.Context, c *call) (reply, error) {
	f, err := documentFilter(c)
	if err != nil {
		return reply{}, err
	}
	if sheet := listFormatOf(c); sheet != nil {
		c.releaseMemory() // the list is streamed for as long as the client reads, so it holds no memory of a page
		return d.sendAll(ctx, c, f, sheet)
	}
	all, err := d.intake.Documents(ctx, c.who, f, c.query.Get(cursor.name), c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	return ok(newPage(all, c.limit(), ingest.Document.Place))
}

// totals serves GET /documents/totals. It replies 200 with api.Page[ingest.Total], or with CSV.
func (d documents) totals(ctx context.Context, c *call) (reply, error) {
	f, err := documentFilter(c)
	if err != nil {
		return reply{}, err
	}
	if err := c.acquireDocuments(ctx, 1); err != nil { // documents are read one at a time
		return reply{}, err
	}
	by := ingest.By(cmp.Or(c.query.Get(byParam.name), string(ingest.ByCurrency)))
	all, err := d.intake.Totals(ctx, c.who, f, by)
	if err != nil {
		return reply{}, err
	}
	if format := c.query.Get(totalsFormatParam.name); format == "csv" || format == "" && strings.HasPrefix(c.r.Header.Get("Accept"), "text/csv") {
		return sendTotals(c, by, all)
	}
	return ok(api.Page[ingest.Total]{Items: append([]ingest.Total{}, all...)})
}

// get serves GET /documents/{id}. It replies 200 with ingest.DocumentFull. Beyond the errors common
// to all routes it fails with drive.NotFound.
func (d documents) get(ctx context.Context, c *call, id drive.DocumentID) (reply, error) {
	if err := c.acquireDocuments(ctx, 1); err != nil {
		return reply{}, err
	}
	doc, err := d.intake.Document(ctx, c.who, id)
	return reply{status: http.StatusOK, body: doc, models: [][]byte{doc.Packed}}, err
}

// attachmentTypes are the media types of embedded files that are served as declared (EN 16931-1,
// BT-125). Any other file is served as application/octet-stream.
var attachmentTypes = []string{
	"application/pdf", "image/png", "image/jpeg", "text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"application/vnd.oasis.opendocument.spreadsheet",
}

// attachment serves GET /documents/{id}/attachments/{sha256}. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (d documents) attachment(ctx context.Context, c *call, id drive.DocumentID) (reply, error) {
	a, err := ingest.EnclosedOf(d.intake).Open(ctx, c.who.Account, id, c.r.PathValue("sha256"))
	if err != nil {
		return reply{}, err
	}
	kind := strings.ToLower(a.Type)
	if !slices.Contains(attachmentTypes, kind) {
		kind = "application/octet-stream"
	}
	h := c.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.FormatInt(int64(a.Size), 10))
	h.Set("Content-Disposition", disposition(path.Base(a.Name), false))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'") // like any content of foreign origin
	h.Set("Cache-Control", "private, no-cache")
	c.w.WriteHeader(http.StatusOK)
	_, err = io.Copy(c.w, a)
	if err = errors.Join(err, a.Close()); err != nil {
		panic(http.ErrAbortHandler)
	}
	return reply{}, nil
}

// listConflicts serves GET /conflicts. It replies 200 with api.Page[ingest.Dispute]. Beyond the
// errors common to all routes it fails with drive.CursorInvalid.
func (d documents) listConflicts(ctx context.Context, c *call) (reply, error) {
	since, err := after[drive.ConflictID](c)
	if err != nil {
		return reply{}, err
	}
	all, more, err := d.intake.Disputes(ctx, c.who, drive.DocumentID{}, since, c.limit())
	if err != nil {
		return reply{}, err
	}
	page := api.Page[ingest.Dispute]{Items: all}
	if more {
		next := all[len(all)-1].ID.String()
		page.NextCursor = &next
	}
	return reply{status: http.StatusOK, body: page, models: modelsOf(all...)}, nil
}

// conflict serves GET /documents/{id}/conflict. It replies 200 with ingest.Dispute. Beyond the
// errors common to all routes it fails with drive.NotFound.
func (d documents) conflict(ctx context.Context, c *call, id drive.DocumentID) (reply, error) {
	if err := c.acquireDocuments(ctx, 2); err != nil {
		return reply{}, err
	}
	all, _, err := d.intake.Disputes(ctx, c.who, id, drive.ConflictID{}, 1)
	if err != nil {
		return reply{}, err
	}
	if len(all) == 0 {
		return reply{}, drive.Fail(drive.NotFound)
	}
	return reply{status: http.StatusOK, body: all[0], models: modelsOf(all[0])}, nil
}

// settleManyBody is the JSON request body of POST /conflicts/settle.
type settleManyBody struct {
	Keep      string             `json:"keep" enum:"old,new" doc:"old: keeps the current document; new: replaces it by the later one"`
	Source    string             `json:"source,omitempty" doc:"only conflicts of this source"`
	Conflicts []drive.ConflictID `json:"conflicts,omitempty" doc:"only these conflicts"`
}

// settledView is the JSON in replies to POST /conflicts/settle.
type settledView struct {
	Settled int64 `json:"settled"`
	Left    int64 `json:"left" doc:"documents that are still in conflict"`
}

// settleMany serves POST /conflicts/settle. It replies 200 with settledView. Beyond the errors
// common to all routes it fails with drive.NotFound. One call resolves at most ingest.MostSettled
// conflicts and tells how many are left.
func (d documents) settleMany(ctx context.Context, c *call, in *settleManyBody) (reply, error) {
	keep, err := keepOf(in.Keep)
	if err != nil {
		return reply{}, err
	}
	if in.Conflicts != nil && len(in.Conflicts) == 0 { // an empty list must not mean all
		return reply{}, drive.BadField("conflicts", drive.OutOfRange, "min", 1, "max", ingest.MostSettled, "sent", 0)
	}
	if err := c.acquireDocuments(ctx, 1); err != nil { // documents are read one at a time
		return reply{}, err
	}
	settled, left, err := d.intake.SettleMany(ctx, c.who, ingest.Open{Source: in.Source, IDs: in.Conflicts}, keep)
	return answer(settledView{settled, left}, err)
}

// keepOf parses the member "keep": old or new. It fails with drive.BadRequest for another text or
// none.
func keepOf(sent string) (ingest.Keep, error) {
	keep := ingest.Keep(sent)
	if keep != ingest.KeepOld && keep != ingest.KeepNew {
		return "", drive.BadField("keep", drive.NotAllowed, "allowed", []ingest.Keep{ingest.KeepOld, ingest.KeepNew}, "sent", clip(sent))
	}
	return keep, nil
}

// settleBody is the JSON request body of POST /documents/{id}/settle.
type settleBody struct {
	Keep     string `json:"keep" enum:"old,new" doc:"old: keeps the current document; new: replaces it by the later one"`
	Conflict string `json:"conflict,omitempty" doc:"id of the conflict; absent: the oldest open one"`
}

// settle serves POST /documents/{id}/settle. It replies 200 with ingest.DocumentFull. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.WrongState. The kept side
// becomes the document; without an id the oldest open conflict is resolved.
func (d documents) settle(ctx context.Context, c *call, id drive.DocumentID, in *settleBody) (reply, error) {
	keep, err := keepOf(in.Keep)
	if err != nil {
		return reply{}, err
	}
	var conflict drive.ConflictID
	if in.Conflict != "" {
		if conflict, err = drive.ParseID[drive.ConflictID](in.Conflict); err != nil {
			return reply{}, err
		}
	}
	if err := c.acquireDocuments(ctx, 1); err != nil { // commits are grouped, so several requests hold a document at once
		return reply{}, err
	}
	doc, err := d.intake.Settle(ctx, c.who, id, conflict, keep)
	return reply{status: http.StatusOK, body: doc, models: [][]byte{doc.Packed}}, err
}
