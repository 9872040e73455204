package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// BundleFilter selects the bundles to list. Zero fields match all bundles.
type BundleFilter struct {
	Source string
	State  State
	Before drive.BundleID // cursor: only bundles older than this one
	Limit  int            // maximum number of bundles; required
}

// catalog lists bundles, their records and strays for their owners, and retries rejected bundles.
type catalog struct {
	*core
	arrivals *bundleRecorder
}

// Bundles returns up to f.Limit bundles of the caller's account that match f, the newest first.
func (in *Intake) Bundles(ctx context.Context, who drive.Who, f BundleFilter) ([]Bundle, error) {
	return in.catalog.bundles(ctx, who, f)
}

// bundles returns up to f.Limit bundles of the account that f selects, newest first. Zero fields of
// f select all. It fails with the error of the query.
func (in *catalog) bundles(ctx context.Context, who drive.Who, f BundleFilter) ([]Bundle, error) {
	where, args := []string{"account_id = ?"}, []any{who.Account}
	also := func(condition string, arg any) { where, args = append(where, condition), append(args, arg) }
	if f.Source != "" {
		also("source = ?", f.Source)
	}
	if f.State != "" {
		also("state = ?", f.State)
	}
	if !f.Before.IsZero() {
		also("id < ?", f.Before)
	}
	rows, err := in.opt.DB.For(who.Account).Query(ctx, selectBundles+"WHERE "+strings.Join(where, " AND ")+" ORDER BY id DESC LIMIT ?", append(args, f.Limit)...)
	all, err := sqldb.Scan(rows, err, scanRow)
	if err != nil {
		return nil, fmt.Errorf("list bundles: %w", err)
	}
	views := make([]Bundle, len(all))
	for i, b := range all {
		views[i] = b.view()
	}
	return views, nil
}

// BundleMember is a file of a bundle as shown to its owner.
type BundleMember struct {
	Name      string         `json:"name"`
	Size      drive.ByteSize `json:"size"`
	Type      string         `json:"type,omitempty"`
	Documents int64          `json:"documents" doc:"number of declared documents"`
	Node      *drive.NodeID  `json:"node" nullable:"true"`
	State     string         `json:"state" enum:"pending,done,rejected"`
	Reason    *string        `json:"reason" nullable:"true"`
}

// BundleFull is a bundle with its members.
type BundleFull struct {
	Bundle
	Members []BundleMember `json:"members" doc:"members, in the order of the manifest"`
}

// own returns a bundle of the caller's account. NotFound: there is none.
func (in *catalog) own(ctx context.Context, who drive.Who, id drive.BundleID) (row, error) {
	return in.find(ctx, in.opt.DB.For(who.Account), "WHERE id = ? AND account_id = ?", id, who.Account)
}

// Bundle returns a bundle of the caller's account with its members. NotFound: there is none.
func (in *Intake) Bundle(ctx context.Context, who drive.Who, id drive.BundleID) (BundleFull, error) {
	return in.catalog.bundle(ctx, who, id)
}

// bundle returns a bundle of the account with its members. It fails with drive.NotFound.
func (in *catalog) bundle(ctx context.Context, who drive.Who, id drive.BundleID) (BundleFull, error) {
	b, err := in.own(ctx, who, id)
	if err != nil {
		return BundleFull{}, err
	}
	rows, err := in.opt.DB.For(who.Account).Query(ctx, "SELECT "+memberColumns+" FROM bundle_members WHERE bundle_id = ? ORDER BY n", id)
	members, err := sqldb.Scan(rows, err, scanMember)
	if err != nil {
		return BundleFull{}, fmt.Errorf("read the members of bundle %s: %w", id, err)
	}
	w := BundleFull{Bundle: b.view(), Members: []BundleMember{}}
	for _, m := range members {
		one := BundleMember{Name: m.Name, Size: m.Size, Type: m.Type, Documents: m.Documents, State: m.State}
		if !m.Node.IsZero() {
			one.Node = &m.Node
		}
		if m.Reason != "" {
			one.Reason = &m.Reason
		}
		if m.State == "pending" && (m.N <= b.Save.member || b.State == Done) {
			one.State = "done"
		}
		w.Members = append(w.Members, one)
	}
	return w, nil
}

// BundleRecord is the outcome of a document that a bundle declares, or of Count documents that have
// no records of their own.
type BundleRecord struct {
	Member   string            `json:"member" doc:"name of the file; empty: the whole bundle was rejected"`
	Index    int64             `json:"index" doc:"index of the document in the file, from 0"`
	Outcome  Outcome           `json:"outcome" enum:"accepted,rejected,duplicate,conflict"`
	Reason   *string           `json:"reason" nullable:"true" doc:"code of the reason"`
	Count    int64             `json:"count" doc:"number of documents that this record stands for"`
	Document *drive.DocumentID `json:"document" nullable:"true" doc:"id of the document, or of the one that it duplicates or conflicts with"`
	Number   string            `json:"number"`
	Findings []DocumentFinding `json:"findings"`
	Place    string            `json:"place" doc:"position of the document in the bundle; identifies it in a request to accept it"`
	Decision *Decision         `json:"decision,omitempty" doc:"decision about a rejected document that a user accepted"`
}

// Decision tells who accepted a rejected document, when and why.
type Decision struct {
	By     drive.UserID `json:"by"`
	At     drive.Time   `json:"at"`
	Reason string       `json:"reason" doc:"reason given by the user who decided"`
}

// Records returns up to limit records of a bundle, in the order of its members. An empty outcome
// matches all records. The argument after is the Place of the last record of the previous page;
// empty: the first page. NotFound: the account has no such bundle. CursorInvalid: after is
// malformed.
func (in *Intake) Records(ctx context.Context, who drive.Who, id drive.BundleID, outcome Outcome, after string, limit int) ([]BundleRecord, error) {
	return in.catalog.records(ctx, who, id, outcome, after, limit)
}

// records returns up to limit records of a bundle after the cursor, in the order of members;
// outcome "" means all. It fails with drive.NotFound and drive.CursorInvalid.
func (in *catalog) records(ctx context.Context, who drive.Who, id drive.BundleID, outcome Outcome, after string, limit int) ([]BundleRecord, error) {
	if _, err := in.own(ctx, who, id); err != nil {
		return nil, err
	}
	where, args := "r.bundle_id = ?", []any{id}
	if outcome != "" {
		where, args = where+" AND r.outcome = ?", append(args, outcome)
	}
	if after != "" {
		var at pos
		if _, err := fmt.Sscanf(after, "%d.%d", &at.member, &at.index); err != nil || place(at) != after {
			return nil, drive.Fail(drive.CursorInvalid)
		}
		where, args = where+" AND (r.member, r.idx) > (?, ?)", append(args, at.member, at.index)
	}
	rows, err := in.opt.DB.For(who.Account).Query(ctx, `SELECT COALESCE(m.name, ''), r.member, r.idx, r.outcome, r.reason, r.counts, r.document_id, r.number, r.findings,
		r.decided_by, r.decided_at, r.decision
		FROM bundle_records r LEFT JOIN bundle_members m ON m.bundle_id = r.bundle_id AND m.n = r.member
		WHERE `+where+" ORDER BY r.member, r.idx LIMIT ?", append(args, limit)...)
	all, err := sqldb.Scan(rows, err, scanRecord)
	if err != nil {
		return nil, fmt.Errorf("list the records of bundle %s: %w", id, err)
	}
	return all, nil
}

// place returns a position as text, "MEMBER.INDEX". The inverse is parsePlace.
func place(at pos) string { return fmt.Sprintf("%d.%d", at.member, at.index) }

// scanRecord scans a record into r and decodes its findings. It fails with the error of scan or for
// findings that are no JSON.
func scanRecord(r *BundleRecord, scan func(...any) error) error {
	var at pos
	var reason, findings string
	var document drive.DocumentID
	var d Decision
	err := scan(&r.Member, &at.member, &at.index, &r.Outcome, &reason, &r.Count, &document, &r.Number, &findings, &d.By, &d.At, &d.Reason)
	if err != nil {
		return err
	}
	if d.At != 0 {
		r.Decision = &d
	}
	r.Index, r.Place, r.Findings = at.index, place(at), []DocumentFinding{}
	if reason != "" {
		r.Reason = &reason
	}
	if !document.IsZero() {
		r.Document = &document
	}
	if findings == "" {
		return nil
	}
	err = json.Unmarshal([]byte(findings), &r.Findings)
	for i := range r.Findings {
		r.Findings[i].Terms = rule.Terms(r.Findings[i].Text)
	}
	return err
}

// Retry makes a rejected bundle sealed again, with zero counts and the current meta.json; a worker
// processes it from the beginning. Documents that it stored before stay, and are counted as
// accepted again, not as duplicates. WrongState: the bundle is not rejected. NotFound: the account
// has no such bundle.
func (in *Intake) Retry(ctx context.Context, who drive.Who, id drive.BundleID) (Bundle, error) {
	return in.catalog.retry(ctx, who, id)
}

// retry makes a rejected bundle sealed again in a transaction, with the meta.json that is there
// now, and returns it. It fails with drive.NotFound, and drive.WrongState for a bundle that is not
// rejected.
func (in *catalog) retry(ctx context.Context, who drive.Who, id drive.BundleID) (Bundle, error) {
	now, err := in.now(ctx)
	if err != nil {
		return Bundle{}, err
	}
	var b row
	err = in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if b, err = in.find(ctx, tx, "WHERE id = ? AND account_id = ?"+tx.ForUpdate(), id, who.Account); err != nil {
			return err
		}
		if b.State != Rejected {
			return drive.Fail(drive.WrongState, "state", string(b.State))
		}
		meta, there, err := in.opt.Tree.Child(ctx, tx, who.Account, b.Folder, "meta.json")
		if err != nil {
			return err
		}
		if there && !meta.IsFolder() {
			b.Meta, b.Version = meta.ID, meta.Version
		}
		if err := in.arrivals.reset(ctx, tx, b, now); err != nil {
			return err
		}
		if b, err = in.find(ctx, tx, "WHERE id = ?", id); err != nil {
			return err
		}
		return in.arrivals.announce(ctx, tx, b)
	})
	return b.view(), err
}
