package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice"
)

// Filter selects the documents that match all of its fields. Empty fields match every document.
type Filter struct {
	Month    string // month of issue, as "2026-10"
	Source   string
	Seller   string // exact id or name; Buyer likewise
	Buyer    string
	Min, Max invoice.Decimal // bounds of the total with VAT, inclusive
	Currency string
	Type     string
	State    string // accepted or conflict
	Query    string // part of the number, names or ids, ignoring case
}

// Party is the seller or the buyer.
type Party struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Document is a document as shown in lists.
type Document struct {
	ID       drive.DocumentID `json:"id"`
	Source   string           `json:"source"`
	Type     string           `json:"type" doc:"code of UNTDID 1001: 380: invoice; 381: credit note"`
	Number   string           `json:"number"`
	Date     string           `json:"date"`
	Seller   Party            `json:"seller"`
	Buyer    Party            `json:"buyer"`
	Currency string           `json:"currency"`
	Total    string           `json:"total" doc:"total with VAT; exact decimal, therefore a string"`
	Payable  string           `json:"payable"`
	State    string           `json:"state" enum:"accepted,conflict"`
	File     *drive.NodeID    `json:"file" nullable:"true" doc:"id of the source file"`
	PDF      *drive.NodeID    `json:"pdf" nullable:"true"`
	Bundle   drive.BundleID   `json:"bundle"`

	member, index int64
	hash          string
	created       drive.Time
	ext           string // extension of file, in lower case
	embedded      string // SHA-256 of a PDF embedded in file
	file, pdf     drive.NodeID
	key           string
	account       drive.AccountID
}

// documentColumns lists the columns of documents in the order of scanDocument.
const documentColumns = `id, account_id, source, doc_key, hash, bundle_id, member, idx, type, number, dated, seller_id, seller_name, buyer_id,
	buyer_name, currency, total, payable, total_e4, state, file_id, pdf_id, created_at, updated_at`

// selectDocuments is the start of a query whose rows scanDocument reads.
const selectDocuments = "SELECT " + documentColumns + " FROM documents "

// scanDocument scans a row of documentColumns into d. It fails with the error of scan.
func scanDocument(d *Document, scan func(...any) error) error {
	var e4 int64
	var updated drive.Time
	return scan(&d.ID, &d.account, &d.Source, &d.key, &d.hash, &d.Bundle, &d.member, &d.index, &d.Type, &d.Number, &d.Date, &d.Seller.ID,
		&d.Seller.Name, &d.Buyer.ID, &d.Buyer.Name, &d.Currency, &d.Total, &d.Payable, &e4, &d.State, &d.file, &d.pdf, &d.created, &updated)
}

// Place returns the document's position in lists, as a cursor for Documents.
func (d Document) Place() string { return d.Date + "." + d.ID.String() }

// TakenIn returns the time when the document was stored.
func (d Document) TakenIn() drive.Time { return d.created }

// Ext returns the extension, in lower case, of the file that contains the document, such as ".xml".
// It is empty if the file no longer exists.
func (d Document) Ext() string { return d.ext }

// EmbeddedPDF returns the SHA-256, in hex, of a PDF embedded in the document's file, if the
// document has no other PDF. Empty: there is none. Only Each sets it.
func (d Document) EmbeddedPDF() string { return d.embedded }

// where returns the SQL condition of the filter and its arguments. BadRequest: Month is not in the
// form YYYY-MM.
func (f Filter) where(account drive.AccountID) (string, []any, error) {
	where, args := []string{"account_id = ?"}, []any{account}
	also := func(condition string, more ...any) { where, args = append(where, condition), append(args, more...) }
	if f.Month != "" {
		if _, err := invoice.ParseDate(f.Month + "-01"); err != nil || len(f.Month) != len("2026-10") {
			return "", nil, drive.BadField("month", drive.Malformed, "expected", "YYYY-MM")
		}
		also("dated >= ? AND dated < ?", f.Month+"-", f.Month+".")
	}
	for column, value := range map[string]string{"source": f.Source, "currency": f.Currency, "type": f.Type, "state": f.State} {
		if value != "" {
			also(column+" = ?", value)
		}
	}
	if f.Seller != "" {
		also("(seller_id = ? OR seller_name = ?)", f.Seller, f.Seller)
	}
	if f.Buyer != "" {
		also("(buyer_id = ? OR buyer_name = ?)", f.Buyer, f.Buyer)
	}
	if f.Min.Given() {
		also("total_e4 >= ?", tenThousandths(f.Min))
	}
	if f.Max.Given() {
		also("total_e4 <= ?", tenThousandths(f.Max))
	}
	if f.Query != "" {
		also("search LIKE ? ESCAPE '!'", "%"+strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(fold(f.Query))+"%")
	}
	return strings.Join(where, " AND "), args, nil
}

// library reads documents and their conflicts, and resolves conflicts.
type library struct{ *core }

// Documents returns up to limit documents of the caller's account that match f, the newest date
// first. The argument after is the Place of the last document of the previous page; empty: the
// first page. CursorInvalid: after is malformed. BadRequest: f.Month is malformed.
func (in *Intake) Documents(ctx context.Context, who drive.Who, f Filter, after string, limit int) ([]Document, error) {
	return in.library.documents(ctx, who, f, after, limit)
}

// documents returns up to limit documents after the cursor, newest first, with their files. It
// fails with drive.CursorInvalid for a malformed cursor and with the error of Filter.where.
func (in *library) documents(ctx context.Context, who drive.Who, f Filter, after string, limit int) ([]Document, error) {
	where, args, err := f.where(who.Account)
	if err != nil {
		return nil, err
	}
	if after != "" {
		date, id, _ := strings.Cut(after, ".")
		if _, err := drive.ParseID[drive.DocumentID](id); err != nil {
			return nil, drive.Wrap(err, drive.CursorInvalid)
		}
		where, args = where+" AND (dated, id) < (?, ?)", append(args, date, id)
	}
	rows, err := in.opt.DB.For(who.Account).Query(ctx, selectDocuments+"WHERE "+where+" ORDER BY dated DESC, id DESC LIMIT ?", append(args, limit)...)
	all, err := sqldb.Scan(rows, err, scanDocument)
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	return all, in.showFiles(ctx, who.Account, all)
}

// showFiles sets File, PDF and ext of each document in place. File and PDF are nil if the file is
// missing, deleted or in the trash. It fails with the error of a query.
func (in *core) showFiles(ctx context.Context, account drive.AccountID, all []Document) error {
	for at := 0; at < len(all); at += folderPage / 2 {
		page := all[at:min(at+folderPage/2, len(all))]
		var ids []drive.NodeID
		for i := range page {
			ids = append(ids, page[i].file)
			if !page[i].pdf.IsZero() {
				ids = append(ids, page[i].pdf)
			}
		}
		nodes, err := in.opt.Tree.FindMany(ctx, in.opt.DB.For(account), account, ids...)
		if err != nil {
			return err
		}
		shown := func(id drive.NodeID) *drive.NodeID {
			if n, ok := nodes[id]; !ok || n.Trashed != 0 {
				return nil
			}
			return &id
		}
		for i := range page {
			page[i].File, page[i].PDF = shown(page[i].file), shown(page[i].pdf)
			page[i].ext = strings.ToLower(path.Ext(string(nodes[page[i].file].Name)))
		}
	}
	return nil
}

// DocumentEvent is an event in the history of a document.
type DocumentEvent struct {
	At     drive.Time     `json:"at"`
	What   string         `json:"what" enum:"accepted,accepted-by-hand,duplicate,conflict,kept-old,kept-new"`
	Bundle drive.BundleID `json:"bundle"`
	Member string         `json:"member"`
	Index  int64          `json:"index"`
	By     *drive.UserID  `json:"by,omitempty" doc:"id of the user who resolved or accepted it"`
	Reason string         `json:"reason,omitempty" doc:"reason why it was accepted after a rejection"`
}

// DocumentFull is a document with its model and history.
type DocumentFull struct {
	Document
	CreatedAt drive.Time      `json:"created_at"`
	Model     json.RawMessage `json:"model" doc:"the document in the model of docs/intake.md"` // nil if Packed is set
	History   []DocumentEvent `json:"history"`

	// Packed is the deflated model. The model may be fifty times as long, so it is inflated
	// only while it is sent.
	Packed []byte `json:"-"`
}

// Document returns a document of the caller's account with its history. NotFound: there is none.
func (in *Intake) Document(ctx context.Context, who drive.Who, id drive.DocumentID) (f DocumentFull, err error) {
	return in.library.document(ctx, who, id)
}

// document returns a document of the account with its files and history. Its model is in Packed;
// Model stays nil. It fails with drive.NotFound.
func (in *library) document(ctx context.Context, who drive.Who, id drive.DocumentID) (f DocumentFull, err error) {
	err = scanDocument(&f.Document, func(dest ...any) error {
		return in.opt.DB.For(who.Account).QueryRow(ctx, "SELECT "+documentColumns+", body FROM documents WHERE id = ? AND account_id = ?", id, who.Account).
			Scan(append(dest, &f.Packed)...)
	})
	if err != nil {
		return DocumentFull{}, err
	}
	one := []Document{f.Document}
	if err := in.showFiles(ctx, who.Account, one); err != nil {
		return DocumentFull{}, err
	}
	f.Document, f.CreatedAt = one[0], one[0].created
	f.History, err = in.history(ctx, who, id)
	return f, err
}

// maxHistory is the maximum number of events in the history of a document; later events are left
// out.
const maxHistory = 200

// history returns up to maxHistory events of a document, the oldest first; never nil. Accepted and
// rejected records and resolved conflicts are events.
func (in *library) history(ctx context.Context, who drive.Who, id drive.DocumentID) ([]DocumentEvent, error) {
	rows, err := in.opt.DB.For(who.Account).Query(ctx, `SELECT CASE r.decided_at WHEN 0 THEN b.sealed_at ELSE r.decided_at END,
		CASE WHEN r.decided_at > 0 AND r.outcome = 'accepted' THEN 'accepted-by-hand' ELSE r.outcome END, r.bundle_id, COALESCE(m.name, ''), r.idx,
		r.decided_by, r.decision FROM bundle_records r
		JOIN bundles b ON b.id = r.bundle_id LEFT JOIN bundle_members m ON m.bundle_id = r.bundle_id AND m.n = r.member WHERE r.document_id = ?
		UNION ALL SELECT c.settled_at, CASE c.state WHEN 'discarded' THEN 'kept-old' ELSE 'kept-new' END, c.bundle_id, '', c.idx, c.settled_by, ''
		FROM document_conflicts c WHERE c.document_id = ? AND c.state <> 'open' ORDER BY 1, 3, 5 LIMIT ?`, id, id, maxHistory)
	all, err := sqldb.Scan(rows, err, func(e *DocumentEvent, scan func(...any) error) error {
		var by drive.UserID
		if err := scan(&e.At, &e.What, &e.Bundle, &e.Member, &e.Index, &by, &e.Reason); err != nil {
			return err
		}
		if !by.IsZero() {
			e.By = &by
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the history of document %s: %w", id, err)
	}
	return append([]DocumentEvent{}, all...), nil
}
