package fsck

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// The checks of the intake leave out accounts that are being purged: their tree goes first, and
// what they had taken in then goes in short transactions.

// endsWithin is how long after the wait for its members a bundle may go without an end. Taking it
// in is a matter of minutes; what takes a day is an outage that nobody has seen to, or no worker.
const endsWithin = 24 * time.Hour

// parcel is a bundle with what its rows come to.
type parcel struct {
	id            drive.BundleID
	state, reason string
	checked       bool
	waits         drive.Time
	has, sum      outcomes // what the bundle says, and what its records do; of surplus there is no record of its own
	members       int64
	save          int64 // members that are dealt with
	ofMembers     struct{ count, declared int64 }
	lost          int64 // records of documents that are not there
}

type outcomes struct{ declared, accepted, rejected, duplicates, conflicts int64 }

func (o outcomes) String() string {
	return fmt.Sprintf("%d = %d accepted + %d rejected + %d duplicates + %d conflicts", o.declared, o.accepted, o.rejected, o.duplicates, o.conflicts)
}

const (
	selectParcels = `SELECT b.id, b.state, b.reason, b.checked, b.waits_until, b.declared, b.accepted, b.rejected, b.duplicates, b.conflicts,
		b.members, b.save_member, ` + sumOf + `'accepted'), ` + sumOf + `'rejected') - b.surplus, ` + sumOf + `'duplicate'), ` + sumOf + `'conflict'),
		(SELECT COUNT(*) FROM bundle_members m WHERE m.bundle_id = b.id),
		(SELECT COALESCE(SUM(m.documents), 0) FROM bundle_members m WHERE m.bundle_id = b.id),
		(SELECT COUNT(*) FROM bundle_records r LEFT JOIN documents d ON d.id = r.document_id
			WHERE r.bundle_id = b.id AND r.document_id IS NOT NULL AND d.id IS NULL)
		FROM bundles b WHERE EXISTS (SELECT 1 FROM trees t WHERE t.account_id = b.account_id) AND b.id > ? ORDER BY b.id LIMIT ?`
	sumOf = `(SELECT COALESCE(SUM(r.counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = `
)

func scanParcel(p *parcel, scan func(...any) error) error {
	err := scan(&p.id, &p.state, &p.reason, &p.checked, &p.waits, &p.has.declared, &p.has.accepted, &p.has.rejected, &p.has.duplicates,
		&p.has.conflicts, &p.members, &p.save, &p.sum.accepted, &p.sum.rejected, &p.sum.duplicates, &p.sum.conflicts, &p.ofMembers.count,
		&p.ofMembers.declared, &p.lost)
	p.sum.declared = p.has.declared
	return err
}

// checkBundles compares what each bundle says with its members and its records, and looks for those
// that do not end. A statement is one moment of the database, and every transaction keeps them
// equal. Nothing of it is repaired: what a bundle came to is what its sender was told.
func (p *pass) checkBundles(ctx context.Context) error {
	const page = 10 // each row of it adds up tens of thousands of records
	err := each(ctx, p, selectParcels, page, scanParcel, func(b parcel) any { return b.id }, func(b parcel) error {
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

// findings are what is wrong with a bundle. One that started again has the rows of its earlier
// beginning until its members are checked.
func (b parcel) findings(now drive.Time) (all []Finding) {
	add := func(invariant, expected, found string) {
		all = append(all, Finding{Invariant: invariant, Subject: "bundle " + b.id.String(), Expected: expected, Found: found})
	}
	ended := b.state == "done" || b.state == "rejected"
	if ended || b.checked {
		if b.has != b.sum {
			add("K2", b.sum.String(), b.has.String())
		}
		if m := b.ofMembers; m.count != b.members || m.declared != b.has.declared {
			add("K2", fmt.Sprintf("%d members that declare %d", m.count, m.declared), fmt.Sprintf("%d members that declare %d", b.members, b.has.declared))
		}
	}
	if h := b.has; ended && h.declared != h.accepted+h.rejected+h.duplicates+h.conflicts {
		add("K2", "every declared document counted", h.String())
	}
	if b.state == "done" && b.save != b.members {
		add("K2", fmt.Sprintf("%d members dealt with", b.members), fmt.Sprintf("done with %d", b.save))
	}
	if !ended && b.waits.Add(endsWithin) < now {
		add("K5", "an end within a day", b.state+" "+b.reason)
	}
	if b.lost > 0 {
		add("K6", "a document for each record that names one", fmt.Sprintf("%d of them without", b.lost))
	}
	return all
}

// paper is a document with its neighbours; the pointers are nil where they are not there.
type paper struct {
	id       drive.DocumentID
	account  drive.AccountID
	state    string
	bundle   *string // account of the bundle that it came with
	open     bool    // a side of it is
	accepted int64   // records
	file     neighbour
	pdf      neighbour
	leaving  bool // its files are going to somebody else: at the end of that it names none
}

// neighbour is a node that a document names. Its owner may have purged it.
type neighbour struct{ account, kind *string }

func (n neighbour) wrong(account drive.AccountID) bool {
	return n.kind != nil && (*n.kind != "file" || *n.account != account.String())
}

const selectPapers = `SELECT d.id, d.account_id, d.state, b.account_id,
	EXISTS (SELECT 1 FROM document_conflicts c WHERE c.document_id = d.id AND c.state = 'open'),
	(SELECT COUNT(*) FROM bundle_records r WHERE r.document_id = d.id AND r.outcome = 'accepted'), f.account_id, f.type, g.account_id, g.type,
	EXISTS (SELECT 1 FROM operations o WHERE o.account_id = d.account_id AND o.state = 'running' AND o.kind = 'handover')
	FROM documents d LEFT JOIN bundles b ON b.id = d.bundle_id LEFT JOIN nodes f ON f.id = d.file_id LEFT JOIN nodes g ON g.id = d.pdf_id
	WHERE EXISTS (SELECT 1 FROM trees t WHERE t.account_id = d.account_id) AND d.id > ? ORDER BY d.id LIMIT ?`

func scanPaper(d *paper, scan func(...any) error) error {
	return scan(&d.id, &d.account, &d.state, &d.bundle, &d.open, &d.accepted, &d.file.account, &d.file.kind, &d.pdf.account, &d.pdf.kind, &d.leaving)
}

// checkDocuments compares every document with its bundle, its records, its files and its conflicts.
// A file that is not there was purged by its owner, and one without a record was accepted by a
// bundle that started again with other members.
func (p *pass) checkDocuments(ctx context.Context) error {
	err := each(ctx, p, selectPapers, pageSize, scanPaper, func(d paper) any { return d.id }, func(d paper) error {
		if (d.state == "conflict") != d.open {
			err := p.found(ctx, defect{Finding: d.unsettled(), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
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

func (d paper) finding(invariant, expected, found string) Finding {
	return Finding{Invariant: invariant, Subject: "document " + d.id.String(), Expected: expected, Found: found}
}

func (d paper) unsettled() Finding {
	expected := "accepted"
	if d.open {
		expected = "conflict"
	}
	return d.finding("K6", expected+", as its conflicts say", d.state)
}

func (d paper) findings() (all []Finding) {
	switch {
	case d.bundle == nil:
		all = append(all, d.finding("K6", "a bundle that it came with", "none"))
	case *d.bundle != d.account.String():
		all = append(all, d.finding("K6", "a bundle of its account", "one of account "+*d.bundle))
	}
	if d.accepted > 1 {
		all = append(all, d.finding("K3", "accepted once", fmt.Sprintf("accepted %d times", d.accepted)))
	}
	for _, n := range []neighbour{d.file, d.pdf} {
		if n.wrong(d.account) && !d.leaving {
			all = append(all, d.finding("K6", "files of its account", "a "+*n.kind+" of account "+*n.account))
		}
	}
	return all
}

// fixDocument sets the state that the conflicts say within the transaction, under the lock that
// settling takes.
func fixDocument(ctx context.Context, tx *sqldb.Tx, id drive.DocumentID, f *Finding) (bool, error) {
	d := paper{id: id}
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
	again := d.unsettled()
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, n == 1
	return true, err
}

// dispute is a conflict with its document; the pointers are nil where they are not there.
type dispute struct {
	id       drive.ConflictID
	account  drive.AccountID
	document *string // its account
	bundle   *string // its account
}

const selectDisputes = `SELECT c.id, c.account_id, d.account_id, b.account_id FROM document_conflicts c
	LEFT JOIN documents d ON d.id = c.document_id LEFT JOIN bundles b ON b.id = c.bundle_id
	WHERE EXISTS (SELECT 1 FROM trees t WHERE t.account_id = c.account_id) AND c.id > ? ORDER BY c.id LIMIT ?`

func scanDispute(c *dispute, scan func(...any) error) error {
	return scan(&c.id, &c.account, &c.document, &c.bundle)
}

// checkConflicts looks for sides of conflicts that no document has, which nobody could settle.
func (p *pass) checkConflicts(ctx context.Context) error {
	err := each(ctx, p, selectDisputes, pageSize, scanDispute, func(c dispute) any { return c.id }, func(c dispute) error {
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
