package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/intake/invoice"
)

// Filter says which documents are meant: those that all fields agree to.
type Filter struct {
	Month    string // "2026-10"
	Source   string
	Seller   string // its id or name, exactly
	Buyer    string
	Min, Max invoice.Decimal // of the total
	Currency string
	Type     string
	State    string // accepted, conflict
	Query    string // occurs in number, names or ids, whatever its case
}

// Party is who sold or bought.
type Party struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Document is one as lists have it.
type Document struct {
	ID       drive.DocumentID `json:"id"`
	Source   string           `json:"source"`
	Type     string           `json:"type" doc:"code of UNTDID 1001: 380 an invoice, 381 a credit note"`
	Number   string           `json:"number"`
	Date     string           `json:"date"`
	Seller   Party            `json:"seller"`
	Buyer    Party            `json:"buyer"`
	Currency string           `json:"currency"`
	Total    string           `json:"total" doc:"with VAT; exact, so it is a text"`
	Payable  string           `json:"payable"`
	State    string           `json:"state" enum:"accepted,conflict"`
	File     *drive.NodeID    `json:"file" nullable:"true" doc:"the file that it was read from"`
	PDF      *drive.NodeID    `json:"pdf" nullable:"true"`
	Bundle   drive.BundleID   `json:"bundle"`

	member, index int64
	hash          string
	created       drive.Time
	ext           string // of file
	embedded      string // the SHA-256 of a PDF within file
	file, pdf     drive.NodeID
	key           string
	account       drive.AccountID
}

const documentColumns = `id, account_id, source, doc_key, hash, bundle_id, member, idx, type, number, dated, seller_id, seller_name, buyer_id,
	buyer_name, currency, total, payable, total_e4, state, file_id, pdf_id, created_at, updated_at`

const selectDocuments = "SELECT " + documentColumns + " FROM documents "

func scanDocument(d *Document, scan func(...any) error) error {
	var e4 int64
	var updated drive.Time
	return scan(&d.ID, &d.account, &d.Source, &d.key, &d.hash, &d.Bundle, &d.member, &d.index, &d.Type, &d.Number, &d.Date, &d.Seller.ID,
		&d.Seller.Name, &d.Buyer.ID, &d.Buyer.Name, &d.Currency, &d.Total, &d.Payable, &e4, &d.State, &d.file, &d.pdf, &d.created, &updated)
}

// Place is where a document stands in a list, for a cursor.
func (d Document) Place() string { return d.Date + "." + d.ID.String() }

// TakenIn is when a document was accepted.
func (d Document) TakenIn() drive.Time { return d.created }

// Ext is the extension of the file that it was read from, such as ".xml"; empty: it is gone.
func (d Document) Ext() string { return d.ext }

// EmbeddedPDF is the SHA-256 of a PDF within the file that a document was read from, where it has
// no other; empty: there is none. Only Each finds it.
func (d Document) EmbeddedPDF() string { return d.embedded }

// where makes the condition of a filter.
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

// library is what the documents say, and the conflicts among them.
type library struct{ *ground }

// Documents lists those of the caller's account that a filter means, the newest date first, behind
// a place (empty: from the first).
func (in *Intake) Documents(ctx context.Context, who drive.Who, f Filter, after string, limit int) ([]Document, error) {
	return in.library.documents(ctx, who, f, after, limit)
}

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

// showFiles names the files of documents that can still be seen.
func (in *ground) showFiles(ctx context.Context, account drive.AccountID, all []Document) error {
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

// DocumentEvent is something that happened to a document.
type DocumentEvent struct {
	At     drive.Time     `json:"at"`
	What   string         `json:"what" enum:"accepted,accepted-by-hand,duplicate,conflict,kept-old,kept-new"`
	Bundle drive.BundleID `json:"bundle"`
	Member string         `json:"member"`
	Index  int64          `json:"index"`
	By     *drive.UserID  `json:"by,omitempty" doc:"who settled or accepted it"`
	Reason string         `json:"reason,omitempty" doc:"why it was accepted although it had been rejected"`
}

// DocumentFull is a document with all that it says.
type DocumentFull struct {
	Document
	CreatedAt drive.Time      `json:"created_at"`
	Model     json.RawMessage `json:"model" doc:"in the own model: docs/intake.md"` // nil: see Packed
	History   []DocumentEvent `json:"history"`

	// Packed is the model, deflated: it may be fifty times as long and is inflated while it is
	// sent.
	Packed []byte `json:"-"`
}

// Document returns one of the caller's account.
func (in *Intake) Document(ctx context.Context, who drive.Who, id drive.DocumentID) (f DocumentFull, err error) {
	return in.library.document(ctx, who, id)
}

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

// maxHistory is how many events of a document are shown, the first ones.
const maxHistory = 200

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
