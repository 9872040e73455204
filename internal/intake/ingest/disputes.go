package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ConflictSide is one of the two contradicting versions of a document.
type ConflictSide struct {
	Bundle drive.BundleID  `json:"bundle"`
	Number string          `json:"number"`
	File   *drive.NodeID   `json:"file" nullable:"true"`
	PDF    *drive.NodeID   `json:"pdf" nullable:"true"`
	Model  json.RawMessage `json:"model"` // nil if Packed is set

	Packed []byte `json:"-"` // the deflated model
}

// Dispute is an open conflict: a stored document, and another one with the same source, seller,
// number and date but different content.
type Dispute struct {
	ID       drive.ConflictID `json:"id"`
	Document Document         `json:"document"`
	At       drive.Time       `json:"at"`
	Old      ConflictSide     `json:"old" doc:"the current document"`
	New      ConflictSide     `json:"new" doc:"the later document"`
}

// maxPacked bounds the deflated models of a page of conflicts, in bytes. The first conflict is
// returned whatever its size.
const maxPacked = 4 << 20

// errEnough stops the scan of rows once the page is full.
var errEnough = errors.New("the page is full")

// Disputes returns up to limit open conflicts of the caller's account, the oldest first. A zero
// document selects all documents. The argument after is the id of the last conflict of the previous
// page; zero: the first page. If more is true, there is a next page; a page may be shorter than
// limit.
func (in *Intake) Disputes(ctx context.Context, who drive.Who, document drive.DocumentID, after drive.ConflictID, limit int) (_ []Dispute, more bool, err error) {
	return in.library.disputes(ctx, who, document, after, limit)
}

// disputes implements Intake.Disputes. It returns fewer than limit conflicts if their models exceed
// maxPacked bytes. Model of the sides stays nil; Packed is set.
func (in *library) disputes(ctx context.Context, who drive.Who, document drive.DocumentID, after drive.ConflictID, limit int) (_ []Dispute, more bool, err error) {
	where, args := "c.account_id = ? AND c.state = 'open' AND c.id > ?", []any{who.Account, after.String()}
	if !document.IsZero() {
		where, args = where+" AND c.document_id = ?", append(args, document)
	}
	rows, err := in.opt.DB.Query(ctx, `SELECT c.id, c.document_id, c.bundle_id, c.file_id, c.pdf_id, c.created_at, c.body, d.body
		FROM document_conflicts c JOIN documents d ON d.id = c.document_id WHERE `+where+" ORDER BY c.id LIMIT ?", append(args, limit+1)...)
	type found struct {
		Dispute
		document  drive.DocumentID
		file, pdf drive.NodeID
	}
	var all []found
	size := 0
	_, err = sqldb.Scan(rows, err, func(_ *struct{}, scan func(...any) error) error {
		if len(all) == limit || size > maxPacked {
			return errEnough
		}
		var f found
		err := scan(&f.ID, &f.document, &f.New.Bundle, &f.file, &f.pdf, &f.At, &f.New.Packed, &f.Old.Packed)
		size += len(f.New.Packed) + len(f.Old.Packed)
		all = append(all, f)
		return err
	})
	if more = errors.Is(err, errEnough); err != nil && !more {
		return nil, false, fmt.Errorf("list conflicts: %w", err)
	}
	disputes := make([]Dispute, len(all))
	for i, f := range all {
		rows, err := in.opt.DB.Query(ctx, selectDocuments+"WHERE id = ?", f.document)
		docs, err := sqldb.Scan(rows, err, scanDocument)
		if err != nil || len(docs) == 0 {
			return nil, false, err
		}
		both := []Document{docs[0], {file: f.file, pdf: f.pdf}}
		if err := in.showFiles(ctx, who.Account, both); err != nil {
			return nil, false, err
		}
		f.Document = both[0]
		f.Old.Bundle, f.Old.Number, f.Old.File, f.Old.PDF = both[0].Bundle, both[0].Number, both[0].File, both[0].PDF
		f.New.Number, f.New.File, f.New.PDF = both[0].Number, both[1].File, both[1].PDF
		disputes[i] = f.Dispute
	}
	return disputes, more, nil
}

// Keep selects the side of a conflict to keep.
type Keep string

// Sides of a conflict.
const (
	KeepOld Keep = "old"
	KeepNew Keep = "new"
)

// Settle resolves an open conflict of a document. A zero conflict selects the oldest one. The other
// side stays in document_conflicts, so that it is recognized if it arrives again. WrongState: the
// document has no such open conflict. NotFound: the account has no such document.
func (in *Intake) Settle(ctx context.Context, who drive.Who, id drive.DocumentID, conflict drive.ConflictID, keep Keep) (DocumentFull, error) {
	return in.library.settle(ctx, who, id, conflict, keep)
}

// settle implements Intake.Settle.
func (in *library) settle(ctx context.Context, who drive.Who, id drive.DocumentID, conflict drive.ConflictID, keep Keep) (DocumentFull, error) {
	if err := in.settleOne(ctx, who, id, conflict, keep); err != nil {
		return DocumentFull{}, err
	}
	return in.document(ctx, who, id)
}

// settleOne resolves one conflict in a transaction: KeepNew swaps the models of document and
// conflict, KeepOld only closes the conflict. It records who decided. It fails with the error of
// lockSides.
func (in *library) settleOne(ctx context.Context, who drive.Who, id drive.DocumentID, conflict drive.ConflictID, keep Keep) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	err = in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		s, err := lockSides(ctx, tx, who.Account, id, conflict)
		if err != nil {
			return err
		}
		state := sideDiscarded
		if keep == KeepNew {
			state = sideReplaced
			if err := s.swap(ctx, tx, now); err != nil {
				return err
			}
		}
		return closeConflicts(ctx, tx, who, state, now, []any{s.conflict}, []any{id})
	})
	if err != nil {
		return fmt.Errorf("settle a conflict of document %s: %w", id, err)
	}
	return nil
}

// sides holds both versions of a document in conflict: the stored document (old), and the row of
// document_conflicts (new, fresh).
type sides struct {
	conflict         drive.ConflictID
	document         drive.DocumentID
	account          drive.AccountID // set by lockAll only
	source           string
	oldHash, newHash string
	oldBody, newBody []byte
	old, fresh       origin
}

// origin is the place where a side was found.
type origin struct {
	bundle        drive.BundleID
	member, index int64
	file, pdf     drive.NodeID
}

// lockSides reads a document and one of its open conflicts, and locks the document first, in the
// same order as the workers. WrongState: there is no such open conflict.
func lockSides(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.DocumentID, conflict drive.ConflictID) (s sides, err error) {
	s.document = id
	err = tx.QueryRow(ctx, "SELECT source, hash, bundle_id, member, idx, file_id, pdf_id, body FROM documents WHERE id = ? AND account_id = ?"+tx.ForUpdate(),
		id, account).Scan(&s.source, &s.oldHash, &s.old.bundle, &s.old.member, &s.old.index, &s.old.file, &s.old.pdf, &s.oldBody)
	if err != nil {
		return sides{}, err
	}
	where, args := "document_id = ? AND state = 'open' ORDER BY id LIMIT 1", []any{id}
	if !conflict.IsZero() {
		where, args = "document_id = ? AND state = 'open' AND id = ?", []any{id, conflict}
	}
	err = tx.QueryRow(ctx, "SELECT id, hash, bundle_id, member, idx, file_id, pdf_id, body FROM document_conflicts WHERE "+where, args...).
		Scan(&s.conflict, &s.newHash, &s.fresh.bundle, &s.fresh.member, &s.fresh.index, &s.fresh.file, &s.fresh.pdf, &s.newBody)
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Fail(drive.WrongState, "state", "settled")
	}
	return s, err
}

// swap exchanges the contents of the document and of the conflict's row. It fails if the new
// content cannot be decoded, or with an error of the database. The caller must hold the locks of
// lockSides.
func (s sides) swap(ctx context.Context, tx *sqldb.Tx, now drive.Time) error {
	doc, err := unpackDocument(s.newBody)
	if err != nil {
		return err
	}
	d, err := newDocument(s.source, doc)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE document_conflicts SET hash = ?, bundle_id = ?, member = ?, idx = ?, file_id = ?, pdf_id = ?, body = ? WHERE id = ?`,
		s.oldHash, s.old.bundle, s.old.member, s.old.index, s.old.file, s.old.pdf, s.oldBody, s.conflict)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE documents SET hash = ?, bundle_id = ?, member = ?, idx = ?, type = ?, number = ?, seller_id = ?, seller_name = ?,
		buyer_id = ?, buyer_name = ?, currency = ?, total = ?, payable = ?, total_e4 = ?, file_id = ?, pdf_id = ?, search = ?, body = ?,
		updated_at = ? WHERE id = ?`, s.newHash, s.fresh.bundle, s.fresh.member, s.fresh.index, d.typ, d.number, d.sellerID, d.sellerName,
		d.buyerID, d.buyerName, d.currency, d.total, d.payable, d.totalE4, s.fresh.file, s.fresh.pdf, d.search, s.newBody, now, s.document)
	return err
}
