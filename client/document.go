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

// Bundle is a folder of documents that somebody sent.
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
	Documents int64  `json:"documents"` // declared
	State     string `json:"state"`     // pending, done, rejected
	Reason    string `json:"reason"`
}

// BundleFull is a bundle with its members.
type BundleFull struct {
	Bundle
	Members []BundleMember `json:"members"`
}

// Finding is a rule that a document breaks.
type Finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Place    string `json:"place,omitempty"` // a path of XPath
	Line     int    `json:"line,omitempty"`
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found,omitempty"`
}

// BundleRecord is what became of documents of a bundle.
type BundleRecord struct {
	Member   string    `json:"member"`
	Index    int64     `json:"index"`
	Outcome  string    `json:"outcome"` // accepted, rejected, duplicate, conflict
	Reason   string    `json:"reason"`
	Count    int64     `json:"count"`
	Document string    `json:"document"`
	Number   string    `json:"number"`
	Findings []Finding `json:"findings"`
	Place    string    `json:"place"` // in the bundle
}

// Rejection is what a bundle declared and what was not accepted.
type Rejection struct {
	Bundle string `json:"bundle"`
	Source string `json:"source"`
	BundleRecord
}

// with returns the query of a page of a filtered list.
func (p Page) with(filter url.Values) url.Values {
	query := p.values()
	maps.Copy(query, filter)
	return query
}

func bundlePath(id string) string { return "/bundles/" + url.PathEscape(id) }

// AllBundles lists bundles, the newest first; filter has the names of the API.
func (c *Client) AllBundles(ctx context.Context, filter url.Values) iter.Seq2[Bundle, error] {
	return all(func(p Page) (List[Bundle], error) {
		return fetch[List[Bundle]](ctx, c, &call{method: http.MethodGet, path: "/bundles", query: p.with(filter)})
	})
}

// Bundle returns one.
func (c *Client) Bundle(ctx context.Context, id string) (BundleFull, error) {
	return fetch[BundleFull](ctx, c, &call{method: http.MethodGet, path: bundlePath(id)})
}

// AllBundleRecords lists what became of the documents of a bundle; an empty outcome is any.
func (c *Client) AllBundleRecords(ctx context.Context, id, outcome string) iter.Seq2[BundleRecord, error] {
	filter := url.Values{}
	if outcome != "" {
		filter.Set("outcome", outcome)
	}
	return all(func(p Page) (List[BundleRecord], error) {
		return fetch[List[BundleRecord]](ctx, c, &call{method: http.MethodGet, path: bundlePath(id) + "/records", query: p.with(filter)})
	})
}

// AllRejections lists what was not accepted of all bundles, those of the newest first; filter has
// the names of the API: source, reason, lang.
func (c *Client) AllRejections(ctx context.Context, filter url.Values) iter.Seq2[Rejection, error] {
	return all(func(p Page) (List[Rejection], error) {
		return fetch[List[Rejection]](ctx, c, &call{method: http.MethodGet, path: "/rejections", query: p.with(filter)})
	})
}

// WriteRejections copies the list of all rejections of a filter as CSV.
func (c *Client) WriteRejections(ctx context.Context, to io.Writer, filter url.Values) error {
	return writeList(ctx, c, to, "/rejections", "csv", filter)
}

// AcceptAnyway accepts a rejected document: place is that of its record, reason is why, in words.
func (c *Client) AcceptAnyway(ctx context.Context, bundle, place, reason string) (BundleRecord, error) {
	in := struct {
		Place  string `json:"place"`
		Reason string `json:"reason"`
	}{place, reason}
	return fetch[BundleRecord](ctx, c, &call{method: http.MethodPost, path: bundlePath(bundle) + "/accept", in: in})
}

// Stray is something below /intake that is not a bundle, so that nobody takes it in.
type Stray struct {
	Node      string    `json:"node"`
	Path      string    `json:"path"`
	Reason    string    `json:"reason"` // loose-file, no-manifest, folder-name, too-deep, source-name
	Files     int64     `json:"files"`
	ChangedAt time.Time `json:"changed_at"`
}

// AllStrays lists what lies below /intake and is not a bundle.
func (c *Client) AllStrays(ctx context.Context) iter.Seq2[Stray, error] {
	return all(func(p Page) (List[Stray], error) {
		return fetch[List[Stray]](ctx, c, &call{method: http.MethodGet, path: "/strays", query: p.values()})
	})
}

// RetryBundle takes a rejected bundle in again.
func (c *Client) RetryBundle(ctx context.Context, id string) (Bundle, error) {
	return fetch[Bundle](ctx, c, &call{method: http.MethodPost, path: bundlePath(id) + "/retry"})
}

// DocumentTotal is what documents of one currency come to; amounts are exact, and credit notes are
// subtracted.
type DocumentTotal struct {
	Key       string `json:"key"` // the month, the seller's id, category and rate of VAT, or the currency
	Name      string `json:"name,omitempty"`
	Currency  string `json:"currency"`
	Documents int64  `json:"documents"`
	Credits   int64  `json:"credits"` // of them
	Net       string `json:"net"`
	Tax       string `json:"tax"`
	Gross     string `json:"gross"`
	Payable   string `json:"payable"`
}

// Totals adds up the documents of a filter by currency, seller, month or vat.
func (c *Client) Totals(ctx context.Context, by string, filter url.Values) ([]DocumentTotal, error) {
	query := maps.Clone(filter)
	query.Set("by", by)
	page, err := fetch[List[DocumentTotal]](ctx, c, &call{method: http.MethodGet, path: "/documents/totals", query: query})
	return page.Items, err
}

// WriteTotals copies the totals of a filter as CSV; by is in the filter.
func (c *Client) WriteTotals(ctx context.Context, to io.Writer, filter url.Values) error {
	return writeList(ctx, c, to, "/documents/totals", "csv", filter)
}

// Party is who sold or bought.
type Party struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Document is an invoice that came in a bundle. Amounts are exact, so they are texts.
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

// DocumentEvent is something that happened to a document.
type DocumentEvent struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Bundle string    `json:"bundle"`
	Member string    `json:"member"`
}

// DocumentFull is a document with all that it says.
type DocumentFull struct {
	Document
	Model   json.RawMessage `json:"model"`
	History []DocumentEvent `json:"history"`
}

// AllDocuments lists documents by their own date, the newest first; filter has the names of the
// API.
func (c *Client) AllDocuments(ctx context.Context, filter url.Values) iter.Seq2[Document, error] {
	return all(func(p Page) (List[Document], error) {
		return fetch[List[Document]](ctx, c, &call{method: http.MethodGet, path: "/documents", query: p.with(filter)})
	})
}

// WriteDocuments copies the list of all documents of a filter: csv or ndjson.
func (c *Client) WriteDocuments(ctx context.Context, to io.Writer, format string, filter url.Values) error {
	return writeList(ctx, c, to, "/documents", format, filter)
}

func writeList(ctx context.Context, c *Client, to io.Writer, path, format string, filter url.Values) error {
	query := url.Values{"format": {format}}
	maps.Copy(query, filter)
	resp, err := c.roundTrip(ctx, &call{method: http.MethodGet, path: path, query: query}, false)
	if err != nil {
		return err
	}
	defer letGo(resp.Body)
	_, err = io.Copy(to, resp.Body)
	return asCut(ctx, err)
}

func documentPath(id string) string { return "/documents/" + url.PathEscape(id) }

// Document returns one.
func (c *Client) Document(ctx context.Context, id string) (DocumentFull, error) {
	return fetch[DocumentFull](ctx, c, &call{method: http.MethodGet, path: documentPath(id)})
}

// ConflictSide is one of two documents that cannot both be true.
type ConflictSide struct {
	Bundle string          `json:"bundle"`
	File   string          `json:"file"`
	Model  json.RawMessage `json:"model"`
}

// Dispute is an open conflict.
type Dispute struct {
	ID       string       `json:"id"`
	Document Document     `json:"document"`
	At       time.Time    `json:"at"`
	Old      ConflictSide `json:"old"`
	New      ConflictSide `json:"new"`
}

// AllConflicts lists open conflicts, the oldest first.
func (c *Client) AllConflicts(ctx context.Context) iter.Seq2[Dispute, error] {
	return all(func(p Page) (List[Dispute], error) {
		return fetch[List[Dispute]](ctx, c, &call{method: http.MethodGet, path: "/conflicts", query: p.values()})
	})
}

// SettleConflict says which side of the oldest open conflict of a document is true: old or new.
// conflict names the one that was looked at; empty: the oldest.
func (c *Client) SettleConflict(ctx context.Context, document, conflict, keep string) (DocumentFull, error) {
	in := struct {
		Keep     string `json:"keep"`
		Conflict string `json:"conflict,omitempty"`
	}{keep, conflict}
	return fetch[DocumentFull](ctx, c, &call{method: http.MethodPost, path: documentPath(document) + "/settle", in: in})
}

// Settled is what a call to settle many conflicts came to.
type Settled struct {
	Settled int64 `json:"settled"`
	Left    int64 `json:"left"` // for the next call
}

// SettleMany settles up to 1,000 open conflicts in one way: keep is old or new. An empty source
// means all.
func (c *Client) SettleMany(ctx context.Context, source, keep string) (Settled, error) {
	in := struct {
		Keep   string `json:"keep"`
		Source string `json:"source,omitempty"`
	}{keep, source}
	return fetch[Settled](ctx, c, &call{method: http.MethodPost, path: "/conflicts/settle", in: in})
}
