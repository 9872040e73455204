package fsck

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The checks of the intake skip accounts that are being purged: their tree is deleted first, then
// their intake in short transactions.

// endsWithin is the time after waits_until in which a bundle must end. Processing takes minutes; a
// day means an outage or no worker.
const endsWithin = 24 * time.Hour

// bundleRow is a bundle with the counts of its rows.
type bundleRow struct {
	id             drive.BundleID
	state, reason  string
	checked        bool
	waitsUntil     drive.Time
	stored, actual outcomes // counts in the bundle, and counts of its records; surplus has no record
	members        int64
	processed      int64 // processed members
	ofMembers      struct{ count, declared int64 }
	orphanRecords  int64 // records whose document is missing
}

// outcomes counts a bundle's documents: those declared, and those by outcome.
type outcomes struct{ declared, accepted, rejected, duplicates, conflicts int64 }

// String returns the counts as an equation, for a finding.
func (o outcomes) String() string {
	return fmt.Sprintf("%d = %d accepted + %d rejected + %d duplicates + %d conflicts", o.declared, o.accepted, o.rejected, o.duplicates, o.conflicts)
}

const (
	// selectBundleRows selects bundles after an id, with their stored counts and those of their
	// records and members. Bundles of accounts without a tree are left out.
	selectBundleRows = `SELECT b.id, b.state, b.reason, b.checked, b.waits_until, b.declared, b.accepted, b.rejected, b.duplicates, b.conflicts,
		b.members, b.save_member, ` + sumOf + `'accepted'), ` + sumOf + `'rejected') - b.surplus, ` + sumOf + `'duplicate'), ` + sumOf + `'conflict'),
		(SELECT COUNT(*) FROM bundle_members m WHERE m.bundle_id = b.id),
		(SELECT COALESCE(SUM(m.documents), 0) FROM bundle_members m WHERE m.bundle_id = b.id),
		(SELECT COUNT(*) FROM bundle_records r LEFT JOIN documents d ON d.id = r.document_id
			WHERE r.bundle_id = b.id AND r.document_id IS NOT NULL AND d.id IS NULL)
		FROM bundles b WHERE EXISTS (SELECT 1 FROM trees t WHERE t.account_id = b.account_id) AND b.id > ? ORDER BY b.id LIMIT ?`
	// sumOf begins the subquery that adds up a bundle's records of one outcome; the outcome and a
	// closing bracket follow.
	sumOf = `(SELECT COALESCE(SUM(r.counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = `
)

// scanBundleRow reads a row of selectBundleRows into p by calling scan, and returns the error of
// scan.
func scanBundleRow(p *bundleRow, scan func(...any) error) error {
	err := scan(&p.id, &p.state, &p.reason, &p.checked, &p.waitsUntil, &p.stored.declared, &p.stored.accepted, &p.stored.rejected, &p.stored.duplicates,
		&p.stored.conflicts, &p.members, &p.processed, &p.actual.accepted, &p.actual.rejected, &p.actual.duplicates, &p.actual.conflicts, &p.ofMembers.count,
		&p.ofMembers.declared, &p.orphanRecords)
	p.actual.declared = p.stored.declared
	return err
}

// checkBundles compares the counts of each bundle with its members and records, and finds bundles
// that do not end. Every transaction keeps these counts equal. Nothing is repaired, because the
// sender has been told the counts.
func (p *pass) checkBundles(ctx context.Context) error {
	const page = 10 // each row adds up tens of thousands of records
	err := each(ctx, p, selectBundleRows, page, scanBundleRow, func(b bundleRow) any { return b.id }, func(b bundleRow) error {
		for _, f := range b.findings(p.now()) {
			if err := p.found(ctx, defect{Finding: f}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check bundles: %w", err)
	}
	return nil
}

// findings returns the violations of a bundle. A restarted bundle has rows of its first run until
// its members are checked.
func (b bundleRow) findings(now drive.Time) (all []Finding) {
	add := func(invariant, expected, found string) {
		all = append(all, Finding{Invariant: invariant, Subject: "bundle " + b.id.String(), Expected: expected, Found: found})
	}
	ended := b.state == "done" || b.state == "rejected"
	if ended || b.checked {
		if b.stored != b.actual {
			add("K2", b.actual.String(), b.stored.String())
		}
		if m := b.ofMembers; m.count != b.members || m.declared != b.stored.declared {
			add("K2", fmt.Sprintf("%d members that declare %d", m.count, m.declared), fmt.Sprintf("%d members that declare %d", b.members, b.stored.declared))
		}
	}
	if h := b.stored; ended && h.declared != h.accepted+h.rejected+h.duplicates+h.conflicts {
		add("K2", "every declared document counted", h.String())
	}
	if b.state == "done" && b.processed != b.members {
		add("K2", fmt.Sprintf("%d members dealt with", b.members), fmt.Sprintf("done with %d", b.processed))
	}
	if !ended && b.waitsUntil.Add(endsWithin) < now {
		add("K5", "an end within a day", b.state+" "+b.reason)
	}
	if b.orphanRecords > 0 {
		add("K6", "a document for each record that names one", fmt.Sprintf("%d of them without", b.orphanRecords))
	}
	return all
}

// documentRow is a document with related rows. Nil pointers are missing rows.
type documentRow struct {
	id          drive.DocumentID
	account     drive.AccountID
	state       string
	bundle      *string // account of its bundle
	open        bool    // an open conflict includes it
	accepted    int64   // number of accepted records
	file        fileRef
	pdf         fileRef
	handingOver bool // a handover of its files is running, which will remove the references
}

// fileRef is a file referenced by a document. Its owner may have purged it.
type fileRef struct{ account, kind *string }

// isMisplaced reports whether the node exists but is not a file of the account. A missing node is
// not wrong.
func (n fileRef) isMisplaced(account drive.AccountID) bool {
	return n.kind != nil && (*n.kind != "file" || *n.account != account.String())
}

// selectDocumentRows selects documents with their related rows.
const selectDocumentRows = `SELECT d.id, d.account_id, d.state, b.account_id,
	EXISTS (SELECT 1 FROM document_conflicts c WHERE c.document_id = d.id AND c.state = 'open'),
	(SELECT COUNT(*) FROM bundle_records r WHERE r.document_id = d.id AND r.outcome = 'accepted'), f.account_id, f.type, g.account_id, g.type,
	EXISTS (SELECT 1 FROM operations o WHERE o.account_id = d.account_id AND o.state = 'running' AND o.kind = 'handover')
	FROM documents d LEFT JOIN bundles b ON b.id = d.bundle_id LEFT JOIN nodes f ON f.id = d.file_id LEFT JOIN nodes g ON g.id = d.pdf_id
	WHERE EXISTS (SELECT 1 FROM trees t WHERE t.account_id = d.account_id) AND d.id > ? ORDER BY d.id LIMIT ?`

// scanDocumentRow reads a row of the query of documents into d by calling scan, and returns the
// error of scan.
func scanDocumentRow(d *documentRow, scan func(...any) error) error {
	return scan(&d.id, &d.account, &d.state, &d.bundle, &d.open, &d.accepted, &d.file.account, &d.file.kind, &d.pdf.account, &d.pdf.kind, &d.handingOver)
}

// checkDocuments compares each document with its bundle, records, files and conflicts. A missing
// file was purged by its owner, and a document without record was accepted by a bundle that
// restarted with other members.
func (p *pass) checkDocuments(ctx context.Context) error {
	err := each(ctx, p, selectDocumentRows, pageSize, scanDocumentRow, func(d documentRow) any { return d.id }, func(d documentRow) error {
		if (d.state == "conflict") != d.open {
			err := p.found(ctx, defect{Finding: d.stateFinding(), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
				return fixDocument(ctx, tx, d.id, f)
			}})
			if err != nil {
				return err
			}
		}
		for _, f := range d.findings() {
			if err := p.found(ctx, defect{Finding: f}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check documents: %w", err)
	}
	return nil
}

// finding returns a finding about the document.
func (d documentRow) finding(invariant, expected, found string) Finding {
	return Finding{Invariant: invariant, Subject: "document " + d.id.String(), Expected: expected, Found: found}
}

// stateFinding returns the finding of a state that contradicts the conflicts.
func (d documentRow) stateFinding() Finding {
	expected := "accepted"
	if d.open {
		expected = "conflict"
	}
	return d.finding("K6", expected+", as its conflicts say", d.state)
}

// findings returns the violations of a document that have no repair (K3, K6); none is an empty
// result.
func (d documentRow) findings() (all []Finding) {
	switch {
	case d.bundle == nil:
		all = append(all, d.finding("K6", "a bundle that it came with", "none"))
	case *d.bundle != d.account.String():
		all = append(all, d.finding("K6", "a bundle of its account", "one of account "+*d.bundle))
	}
	if d.accepted > 1 {
		all = append(all, d.finding("K3", "accepted once", fmt.Sprintf("accepted %d times", d.accepted)))
	}
	for _, n := range []fileRef{d.file, d.pdf} {
		if n.isMisplaced(d.account) && !d.handingOver {
			all = append(all, d.finding("K6", "files of its account", "a "+*n.kind+" of account "+*n.account))
		}
	}
	return all
}

// fixDocument sets the state according to the conflicts, under the lock that settling a conflict
// uses, and describes the repair in f. It reports whether the defect still existed.
func fixDocument(ctx context.Context, tx *sqldb.Tx, id drive.DocumentID, f *Finding) (bool, error) {
	d := documentRow{id: id}
	err := tx.QueryRow(ctx, "SELECT state FROM documents WHERE id = ?"+tx.ForUpdate(), id).Scan(&d.state)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM document_conflicts WHERE document_id = ? AND state = 'open')", id).Scan(&d.open)
	}
	if err != nil || (d.state == "conflict") == d.open {
		return false, err
	}
	state := "accepted"
	if d.open {
		state = "conflict"
	}
	n, err := tx.Exec(ctx, "UPDATE documents SET state = ? WHERE id = ?", state, id)
	again := d.stateFinding()
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, n == 1
	return true, err
}

// conflictRow is a conflict with related rows. Nil pointers are missing rows.
type conflictRow struct {
	id       drive.ConflictID
	account  drive.AccountID
	document *string // account of the document
	bundle   *string // account of the bundle
}

// selectConflictRows selects conflicts with their related rows.
const selectConflictRows = `SELECT c.id, c.account_id, d.account_id, b.account_id FROM document_conflicts c
	LEFT JOIN documents d ON d.id = c.document_id LEFT JOIN bundles b ON b.id = c.bundle_id
	WHERE EXISTS (SELECT 1 FROM trees t WHERE t.account_id = c.account_id) AND c.id > ? ORDER BY c.id LIMIT ?`

// scanConflictRow reads a row of selectConflictRows into c by calling scan, and returns the error
// of scan.
func scanConflictRow(c *conflictRow, scan func(...any) error) error {
	return scan(&c.id, &c.account, &c.document, &c.bundle)
}

// checkConflicts finds conflicts whose document or bundle is missing or of another account, so that
// nobody can resolve them (K6). There is no repair.
func (p *pass) checkConflicts(ctx context.Context) error {
	err := each(ctx, p, selectConflictRows, pageSize, scanConflictRow, func(c conflictRow) any { return c.id }, func(c conflictRow) error {
		for _, n := range []struct {
			what  string
			owner *string
		}{{"document", c.document}, {"bundle", c.bundle}} {
			found := "none"
			if n.owner != nil {
				found = "one of account " + *n.owner
			}
			if n.owner != nil && *n.owner == c.account.String() {
				continue
			}
			f := Finding{Invariant: "K6", Subject: "conflict " + c.id.String(), Expected: "a " + n.what + " of its account", Found: found}
			if err := p.found(ctx, defect{Finding: f}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check conflicts: %w", err)
	}
	return nil
}
