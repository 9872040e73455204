package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
)

// storedDocument is the stored document of a key, reduced to the columns that decide the outcome of
// another document with this key.
type storedDocument struct {
	id            drive.DocumentID
	key, hash     string
	bundle        drive.BundleID
	member, index int64
	pdf           drive.NodeID
}

// side is a row of document_conflicts: a version of a document that contradicts the stored one, or
// that was replaced by it.
type side struct {
	document      drive.DocumentID
	hash          string
	bundle        drive.BundleID
	member, index int64
	pdf           drive.NodeID
	settled       drive.Time // time when this side, once the stored document, was replaced; zero: it never was the document
}

// store writes a batch in one transaction: the documents, their records, the counts and the save
// point at. The transaction also renews the lease. If another bundle inserts the same document
// concurrently, the transaction runs again and sees the other document (K3). lease.ErrFenced: this
// worker has lost the bundle, and nothing is stored.
func (r *run) store(ctx context.Context, batch []item, at pos) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	var sum counts
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// Update the bundle's row first: that locks out other workers, and fails at once if
		// this one is fenced.
		if err := r.b.update(ctx, tx, "due_at = ?", now.Add(lease.TTL)); err != nil {
			return err
		}
		p := plan{items: slices.Clone(batch)}
		if err := r.settleKeys(ctx, tx, &p); err != nil {
			return err
		}
		if err := r.write(ctx, tx, &p, now); err != nil {
			return err
		}
		sum = p.count()
		return r.b.update(ctx, tx, `accepted = accepted + ?, rejected = rejected + ?, duplicates = duplicates + ?, conflicts = conflicts + ?,
			surplus = surplus + ?, save_member = ?, save_index = ?, tries = 0`,
			sum.accepted, sum.rejected, sum.duplicates, sum.conflicts, sum.surplus, at.member, at.index)
	})
	if err != nil {
		return fmt.Errorf("store %d documents: %w", len(batch), err)
	}
	r.b.accepted += sum.accepted
	r.b.rejected += sum.rejected
	r.b.duplicates += sum.duplicates
	r.b.conflicts += sum.conflicts
	r.b.surplus += sum.surplus
	r.b.Save = at
	r.stats.add(sum)
	return nil
}

// add adds the outcomes of a batch to the counters.
func (s *Stats) add(sum counts) {
	s.Accepted.Add(sum.accepted)
	s.Refused.Add(sum.rejected)
	s.Double.Add(sum.duplicates)
	s.Torn.Add(sum.conflicts)
}

// plan is the result of comparing a batch with the stored documents.
type plan struct {
	items    []item
	fresh    []item    // items to insert as documents
	sides    []item    // items to insert as other sides of conflicts
	pictures []picture // PDFs to set on stored documents and sides
}

// count returns the numbers of documents by outcome.
func (p *plan) count() (sum counts) {
	for _, one := range p.items {
		switch {
		case one.surplus:
			sum.surplus += one.counts
		case one.outcome == Accept:
			sum.accepted += one.counts
		case one.outcome == Duplicate:
			sum.duplicates += one.counts
		case one.outcome == Conflict:
			sum.conflicts += one.counts
		default:
			sum.rejected += one.counts
		}
	}
	return sum
}

// settleKeys compares the documents of a batch with the stored ones of the same document key. It
// sets their final outcomes, and adds to the plan the rows to write: new documents, the other
// contents of conflicting ones, and PDFs. Items without a document stay as they are. A bundle whose
// processing starts again gets the same outcomes as before. It locks the stored documents until tx
// ends and fails with an error of the database.
func (r *run) settleKeys(ctx context.Context, tx *sqldb.Tx, p *plan) error {
	there, err := r.knownOf(ctx, tx, p.items)
	if err != nil {
		return err
	}
	sides, err := sidesOf(ctx, tx, there)
	if err != nil {
		return err
	}
	first := firstOf(sides)
	for i := range p.items {
		one := &p.items[i]
		if one.doc == nil {
			continue
		}
		k, ok := there[one.doc.key]
		here := side{document: k.id, hash: one.doc.hash}
		switch {
		case !ok:
			p.fresh = append(p.fresh, *one)
			there[one.doc.key] = storedDocument{one.document, one.doc.key, one.doc.hash, r.b.ID, one.member, one.index, one.doc.pdf}
			continue
		case k.hash == one.doc.hash:
			if k.bundle != r.b.ID || k.member != one.member || k.index != one.index {
				one.outcome = Duplicate
			} else if _, ok := first[k.id]; ok { // the bundle restarted, and this document was the other side of a conflict before
				one.outcome = Conflict
			}
			k.pdf = p.offer(*one, k.id, k.pdf)
			there[one.doc.key] = k
		case sides[here.id()].document.IsZero():
			one.outcome = Conflict
			here.bundle, here.member, here.index, here.pdf = r.b.ID, one.member, one.index, one.doc.pdf
			sides[here.id()] = here
			side := *one
			side.document = k.id
			p.sides = append(p.sides, side)
		default:
			one.outcome, one.reason = Duplicate, reasonKnownSide
			s := sides[here.id()]
			if s.bundle == r.b.ID && s.member == one.member && s.index == one.index {
				if one.outcome, one.reason = Conflict, ""; first[k.id] == s.hash {
					one.outcome = Accept
				}
			}
			s.pdf = p.offer(*one, k.id, s.pdf)
			sides[here.id()] = s
		}
		one.document = k.id
	}
	return nil
}

// id identifies a side by document and content hash.
func (s side) id() string { return s.document.String() + s.hash }

// knownOf returns the stored documents that have the keys of the items, by key, and locks them.
// Items without a key are left out.
func (r *run) knownOf(ctx context.Context, tx *sqldb.Tx, items []item) (map[string]storedDocument, error) {
	there := map[string]storedDocument{}
	args := []any{r.b.Account}
	for _, one := range items {
		if one.doc != nil {
			args = append(args, one.doc.key)
		}
	}
	if len(args) == 1 {
		return there, nil
	}
	rows, err := tx.Query(ctx, `SELECT id, doc_key, hash, bundle_id, member, idx, pdf_id FROM documents WHERE account_id = ? AND doc_key IN (`+
		sqldb.Placeholders(len(args)-1)+") ORDER BY doc_key"+tx.ForUpdate(), args...)
	all, err := sqldb.Scan(rows, err, func(k *storedDocument, scan func(...any) error) error {
		return scan(&k.id, &k.key, &k.hash, &k.bundle, &k.member, &k.index, &k.pdf)
	})
	if err != nil {
		return nil, fmt.Errorf("look for documents of the same keys: %w", err)
	}
	for _, k := range all {
		there[k.key] = k
	}
	return there, nil
}

// sidesOf returns all rows of document_conflicts of the documents, whatever their state, by
// side.id. It issues no query for an empty map.
func sidesOf(ctx context.Context, tx *sqldb.Tx, there map[string]storedDocument) (map[string]side, error) {
	sides := map[string]side{}
	var args []any
	for _, k := range there {
		args = append(args, k.id)
	}
	if len(args) == 0 {
		return sides, nil
	}
	rows, err := tx.Query(ctx, `SELECT document_id, hash, bundle_id, member, idx, pdf_id,
		CASE state WHEN 'replaced' THEN settled_at ELSE 0 END FROM document_conflicts WHERE document_id IN (`+
		sqldb.Placeholders(len(args))+")", args...)
	all, err := sqldb.Scan(rows, err, func(s *side, scan func(...any) error) error {
		return scan(&s.document, &s.hash, &s.bundle, &s.member, &s.index, &s.pdf, &s.settled)
	})
	if err != nil {
		return nil, fmt.Errorf("look for sides of conflicts: %w", err)
	}
	for _, s := range all {
		sides[s.id()] = s
	}
	return sides, nil
}

// firstOf returns, by document, the hash of the content that was accepted first, for documents
// whose content was replaced since by that of another side. With it, a restarted bundle counts the
// same outcomes as before, whichever side was kept.
func firstOf(sides map[string]side) map[drive.DocumentID]string {
	first, when := map[drive.DocumentID]string{}, map[drive.DocumentID]drive.Time{}
	for _, s := range sides {
		if at, ok := when[s.document]; s.settled != 0 && (!ok || s.settled < at) {
			first[s.document], when[s.document] = s.hash, s.settled
		}
	}
	return first
}

// writeDocuments inserts the new documents and sides of the plan, and sets PDFs. It sorts p.fresh
// by key, so that concurrent transactions with the same keys wait for each other and do not
// deadlock. If another transaction inserted one of the keys, the returned error makes the
// transaction run again.
func (r *run) writeDocuments(ctx context.Context, tx *sqldb.Tx, p *plan, now drive.Time) error {
	slices.SortFunc(p.fresh, func(x, y item) int { return strings.Compare(x.doc.key, y.doc.key) })
	err := insertMany(ctx, tx, "documents ("+documentColumns+", search, body)", 26, p.fresh, func(one item) []any {
		d := one.doc
		return []any{
			one.document, r.b.Account, r.b.Source, d.key, d.hash, r.b.ID, one.member, one.index, d.typ, d.number, d.dated, d.sellerID,
			d.sellerName, d.buyerID, d.buyerName, d.currency, d.total, d.payable, d.totalE4, stateAccepted, d.file, d.pdf, now, now,
			d.search, d.body,
		}
	})
	if sqldb.IsDuplicate(err) {
		return sqldb.Rerun(err)
	}
	if err != nil {
		return err
	}
	err = insertMany(ctx, tx, `document_conflicts (id, account_id, document_id, hash, bundle_id, member, idx, file_id, pdf_id, body, state,
		created_at)`, 12, p.sides, func(one item) []any {
		return []any{
			drive.NewID[drive.ConflictID](), r.b.Account, one.document, one.doc.hash, r.b.ID, one.member, one.index, one.doc.file, one.doc.pdf,
			one.doc.body, sideOpen, now,
		}
	})
	if err != nil {
		return err
	}
	for _, one := range p.sides {
		if _, err := tx.Exec(ctx, "UPDATE documents SET state = ?, updated_at = ? WHERE id = ?", stateConflict, now, one.document); err != nil {
			return err
		}
	}
	return r.givePictures(ctx, tx, p.pictures, now)
}

// write inserts everything of the plan: documents, sides, PDFs, records and events. An error fails
// the transaction.
func (r *run) write(ctx context.Context, tx *sqldb.Tx, p *plan, now drive.Time) error {
	if err := r.writeDocuments(ctx, tx, p, now); err != nil {
		return err
	}
	if err := insertRecords(ctx, tx, r.b.ID, p.items); err != nil {
		return err
	}
	if err := r.markMembers(ctx, tx); err != nil {
		return err
	}
	return r.publish(ctx, tx, p)
}

// markMembers marks the members that could not be decoded as a whole as rejected. An error fails
// the transaction.
func (r *run) markMembers(ctx context.Context, tx *sqldb.Tx) error {
	for n, reason := range r.wrong {
		_, err := tx.Exec(ctx, "UPDATE bundle_members SET state = 'rejected', reason = ? WHERE bundle_id = ? AND n = ?", reason, r.b.ID, n)
		if err != nil {
			return err
		}
	}
	return nil
}

// insertRecords inserts the items as records of a bundle within tx. It fails if a record exists
// already.
func insertRecords(ctx context.Context, tx *sqldb.Tx, id drive.BundleID, all []item) error {
	return insertMany(ctx, tx, "bundle_records (bundle_id, member, idx, outcome, reason, counts, document_id, number, findings)", 9, all,
		func(one item) []any {
			return []any{id, one.member, one.index, one.outcome, one.reason, one.counts, one.document, one.number, one.findings}
		})
}

// States of a document, and of a conflict.
const (
	stateAccepted = "accepted"
	stateConflict = "conflict"

	sideOpen      = "open"
	sideDiscarded = "discarded" // the document was kept
	sideReplaced  = "replaced"  // the document was replaced by the other side; this row now holds its previous content
)
