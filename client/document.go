package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"time"
)

// Bundle is a folder of documents that a sender delivered, and the counts of its documents by
// outcome.
type Bundle struct {
	ID        string     `json:"id"`
	Source    string     `json:"source"`
	SenderID  string     `json:"sender_id"`
	Folder    string     `json:"folder"`
	State     string     `json:"state"` // sealed, running, done, rejected
	Reason    string     `json:"reason"`
	Detail    string     `json:"detail"`
	Declared  int64      `json:"declared"`
	Accepted  int64      `json:"accepted"`
	Rejected  int64      `json:"rejected"`
	Duplicate int64      `json:"duplicate"`
	Conflict  int64      `json:"conflict"`
	Surplus   int64      `json:"surplus"`
	Size      int64      `json:"size"`
	SealedAt  time.Time  `json:"sealed_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Attempts  int64      `json:"attempts"`
}

// BundleMember is one file of a bundle.
type BundleMember struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	Documents int64  `json:"documents"` // as declared in the manifest
	State     string `json:"state"`     // pending, done, rejected
	Reason    string `json:"reason"`
}

// BundleDetail is a bundle with its files.
type BundleDetail struct {
	Bundle
	Members []BundleMember `json:"members"`
}

// Finding is a validation rule that a document violates.
type Finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Place    string `json:"place,omitempty"` // XPath
	Line     int    `json:"line,omitempty"`
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found,omitempty"`
}

// BundleRecord is the outcome of one or more documents of a bundle.
type BundleRecord struct {
	Member   string    `json:"member"`
	Index    int64     `json:"index"`
	Outcome  string    `json:"outcome"` // accepted, rejected, duplicate, conflict
	Reason   string    `json:"reason"`
	Count    int64     `json:"count"`
	Document string    `json:"document"`
	Number   string    `json:"number"`
	Findings []Finding `json:"findings"`
	Place    string    `json:"place"` // address of the document in the bundle, for AcceptAnyway
}

// Rejection is a document that was declared in a bundle and not accepted.
type Rejection struct {
	Bundle string `json:"bundle"`
	Source string `json:"source"`
	BundleRecord
}

// with encodes the page and a filter as URL parameters. A parameter of the filter wins over one of
// the page.
func (p Page) with(filter url.Values) url.Values {
	query := p.values()
	maps.Copy(query, filter)
	return query
}

// bundlePath returns the API path of a bundle.
func bundlePath(id string) string { return "/bundles/" + url.PathEscape(id) }

// AllBundles yields bundles, newest first. The filter keys are the API's query parameters. It
// yields the error of a failed request last.
func (c *Client) AllBundles(ctx context.Context, filter url.Values) iter.Seq2[Bundle, error] {
	return all(func(p Page) (List[Bundle], error) {
		return fetch[List[Bundle]](ctx, c, &request{method: http.MethodGet, path: "/bundles", query: p.with(filter)})
	})
}

// Bundle returns a bundle and its files. It fails with CodeNotFound.
func (c *Client) Bundle(ctx context.Context, id string) (BundleDetail, error) {
	return fetch[BundleDetail](ctx, c, &request{method: http.MethodGet, path: bundlePath(id)})
}

// AllBundleRecords yields the outcomes of a bundle's documents; an empty outcome selects all. It
// yields the error of a failed request last.
func (c *Client) AllBundleRecords(ctx context.Context, id, outcome string) iter.Seq2[BundleRecord, error] {
	filter := url.Values{}
	if outcome != "" {
		filter.Set("outcome", outcome)
	}
	return all(func(p Page) (List[BundleRecord], error) {
		return fetch[List[BundleRecord]](ctx, c, &request{method: http.MethodGet, path: bundlePath(id) + "/records", query: p.with(filter)})
	})
}

// AllRejections yields the rejected documents of all bundles, newest bundle first. The filter keys
// are source, reason and lang. If a request fails, the last pair is a zero value and the error.
func (c *Client) AllRejections(ctx context.Context, filter url.Values) iter.Seq2[Rejection, error] {
	return all(func(p Page) (List[Rejection], error) {
		return fetch[List[Rejection]](ctx, c, &request{method: http.MethodGet, path: "/rejections", query: p.with(filter)})
	})
}

// WriteRejections writes the rejections that match the filter to the writer as CSV. It does not
// retry: after an error the writer may have a part of the list.
func (c *Client) WriteRejections(ctx context.Context, to io.Writer, filter url.Values) error {
	return writeList(ctx, c, to, "/rejections", "csv", filter)
}

// AcceptAnyway accepts a rejected document. place is BundleRecord.Place; reason is a text for the
// record.
func (c *Client) AcceptAnyway(ctx context.Context, bundle, place, reason string) (BundleRecord, error) {
	in := struct {
		Place  string `json:"place"`
		Reason string `json:"reason"`
	}{place, reason}
	return fetch[BundleRecord](ctx, c, &request{method: http.MethodPost, path: bundlePath(bundle) + "/accept", input: in})
}

// Stray is a file or folder below /intake that the server does not take in because it is not a
// bundle.
type Stray struct {
	Node      string    `json:"node"`
	Path      string    `json:"path"`
	Reason    string    `json:"reason"` // loose-file, no-manifest, folder-name, too-deep, source-name
	Files     int64     `json:"files"`
	ChangedAt time.Time `json:"changed_at"`
}

// AllStrays yields the files and folders below /intake that are not bundles. It yields an error
// last.
func (c *Client) AllStrays(ctx context.Context) iter.Seq2[Stray, error] {
	return all(func(p Page) (List[Stray], error) {
		return fetch[List[Stray]](ctx, c, &request{method: http.MethodGet, path: "/strays", query: p.values()})
	})
}

// RetryBundle makes the server process a rejected bundle again, in the background, and returns it
// in state sealed. Another state fails with CodeState.
func (c *Client) RetryBundle(ctx context.Context, id string) (Bundle, error) {
	return fetch[Bundle](ctx, c, &request{method: http.MethodPost, path: bundlePath(id) + "/retry"})
}

// DocumentTotal is the sum of documents in one currency. Amounts are exact decimal strings; credit
// notes are subtracted.
type DocumentTotal struct {
	Key       string `json:"key"` // group: the month, the seller's id, the VAT category and rate, or the currency
	Name      string `json:"name,omitempty"`
	Currency  string `json:"currency"`
	Documents int64  `json:"documents"`
	Credits   int64  `json:"credits"` // credit notes among Documents
	Net       string `json:"net"`
	Tax       string `json:"tax"`
	Gross     string `json:"gross"`
	Payable   string `json:"payable"`
}

// Totals sums the documents that match the filter, grouped by "currency", "seller", "month" or
// "vat". filter must not be nil.
func (c *Client) Totals(ctx context.Context, by string, filter url.Values) ([]DocumentTotal, error) {
	query := maps.Clone(filter)
	query.Set("by", by)
	page, err := fetch[List[DocumentTotal]](ctx, c, &request{method: http.MethodGet, path: "/documents/totals", query: query})
	return page.Items, err
}

// WriteTotals writes the totals to the writer as CSV. The filter's key "by" names the grouping. It
// does not retry: after an error the writer may have a part of the list.
func (c *Client) WriteTotals(ctx context.Context, to io.Writer, filter url.Values) error {
	return writeList(ctx, c, to, "/documents/totals", "csv", filter)
}

// Party is a seller or a buyer.
type Party struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Document is an invoice from a bundle. Amounts are exact decimal strings.
type Document struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Type     string `json:"type"`
	Number   string `json:"number"`
	Date     string `json:"date"`
	Seller   Party  `json:"seller"`
	Buyer    Party  `json:"buyer"`
	Currency string `json:"currency"`
	Total    string `json:"total"`
	Payable  string `json:"payable"`
	State    string `json:"state"` // accepted, conflict
	File     string `json:"file"`
	PDF      string `json:"pdf"`
	Bundle   string `json:"bundle"`
}

// DocumentEvent is an entry of a document's history.
type DocumentEvent struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Bundle string    `json:"bundle"`
	Member string    `json:"member"`
}

// DocumentDetail is a document with its parsed content and its history.
type DocumentDetail struct {
	Document
	Model   json.RawMessage `json:"model"`
	History []DocumentEvent `json:"history"`
}

// AllDocuments yields documents by document date, newest first. The filter keys are the API's query
// parameters. If a request fails, the last pair is a zero value and the error.
func (c *Client) AllDocuments(ctx context.Context, filter url.Values) iter.Seq2[Document, error] {
	return all(func(p Page) (List[Document], error) {
		return fetch[List[Document]](ctx, c, &request{method: http.MethodGet, path: "/documents", query: p.with(filter)})
	})
}

// WriteDocuments writes all documents that match the filter to the writer; format is "csv" or
// "ndjson". It does not retry: after an error the writer may have a part of the list.
func (c *Client) WriteDocuments(ctx context.Context, to io.Writer, format string, filter url.Values) error {
	return writeList(ctx, c, to, "/documents", format, filter)
}

// writeList copies a list endpoint's reply to the writer, in one attempt. After an error a part may
// be written.
func writeList(ctx context.Context, c *Client, to io.Writer, path, format string, filter url.Values) error {
	query := url.Values{"format": {format}}
	maps.Copy(query, filter)
	resp, err := c.roundTrip(ctx, &request{method: http.MethodGet, path: path, query: query}, false)
	if err != nil {
		return err
	}
	defer closeQuietly(resp.Body)
	_, err = io.Copy(to, resp.Body)
	return wrapConnError(ctx, err)
}

// documentPath returns the API path of a document.
func documentPath(id string) string { return "/documents/" + url.PathEscape(id) }

// Document returns a document by its id. It fails with CodeNotFound.
func (c *Client) Document(ctx context.Context, id string) (DocumentDetail, error) {
	return fetch[DocumentDetail](ctx, c, &request{method: http.MethodGet, path: documentPath(id)})
}

// ConflictSide is one of the two documents of a conflict.
type ConflictSide struct {
	Bundle string          `json:"bundle"`
	File   string          `json:"file"`
	Model  json.RawMessage `json:"model"`
}

// OpenConflict is an open conflict: two documents with the same key and different content.
type OpenConflict struct {
	ID       string       `json:"id"`
	Document Document     `json:"document"`
	At       time.Time    `json:"at"`
	Old      ConflictSide `json:"old"`
	New      ConflictSide `json:"new"`
}

// AllConflicts yields open conflicts, oldest first. If a request fails, the last pair is a zero
// value and the error.
func (c *Client) AllConflicts(ctx context.Context) iter.Seq2[OpenConflict, error] {
	return all(func(p Page) (List[OpenConflict], error) {
		return fetch[List[OpenConflict]](ctx, c, &request{method: http.MethodGet, path: "/conflicts", query: p.values()})
	})
}

// SettleConflict resolves an open conflict of a document; keep is "old" or "new". conflict is the
// conflict's id; empty: the oldest one.
func (c *Client) SettleConflict(ctx context.Context, document, conflict, keep string) (DocumentDetail, error) {
	in := struct {
		Keep     string `json:"keep"`
		Conflict string `json:"conflict,omitempty"`
	}{keep, conflict}
	return fetch[DocumentDetail](ctx, c, &request{method: http.MethodPost, path: documentPath(document) + "/settle", input: in})
}

// SettleResult counts the conflicts that a SettleConflicts call resolved and left open.
type SettleResult struct {
	Settled int64 `json:"settled"`
	Left    int64 `json:"left"` // still open; call again
}

// SettleConflicts resolves up to 1,000 open conflicts the same way; keep is "old" or "new". An
// empty source selects all sources.
func (c *Client) SettleConflicts(ctx context.Context, source, keep string) (SettleResult, error) {
	in := struct {
		Keep   string `json:"keep"`
		Source string `json:"source,omitempty"`
	}{keep, source}
	return fetch[SettleResult](ctx, c, &request{method: http.MethodPost, path: "/conflicts/settle", input: in})
}
