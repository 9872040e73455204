package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// acceptor accepts rejected documents on the decision of a user.
type acceptor struct {
	*core
	catalog *catalog
	workers *workers
}

// AcceptAnyway accepts a rejected document that breaks validation rules or the source's rules. The
// argument at is the document's BundleRecord.Place in a bundle that is Done. The argument reason is
// the user's explanation, 1 to 500 bytes. The document becomes accepted, a duplicate or a conflict,
// as if it had passed the rules. The returned record names the user and keeps the findings.
//
// BadRequest: reason is empty or too long. WrongState: the bundle is not Done, the document is no
// longer rejected, or the document cannot be read. NotFound: the account has no such bundle, or the
// bundle no such document.
func (in *Intake) AcceptAnyway(ctx context.Context, who drive.Who, id drive.BundleID, at, reason string) (BundleRecord, error) {
	return in.appeals.accept(ctx, who, id, at, reason)
}

// accept implements Intake.AcceptAnyway. It reads the document again from the bundle's file.
func (in *acceptor) accept(ctx context.Context, who drive.Who, id drive.BundleID, at, reason string) (BundleRecord, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" {
		return BundleRecord{}, drive.BadField("reason", drive.Required)
	}
	if len(reason) > maxText {
		return BundleRecord{}, drive.BadField("reason", drive.TooLong, "limit", maxText, "sent", len(reason))
	}
	where, ok := parsePlace(at)
	if !ok {
		return BundleRecord{}, drive.Fail(drive.NotFound)
	}
	b, err := in.catalog.own(ctx, who, id)
	if err != nil {
		return BundleRecord{}, err
	}
	one, err := in.readAgain(ctx, &b, where)
	if err != nil {
		return BundleRecord{}, fmt.Errorf("read document %s of bundle %s again: %w", at, id, err)
	}
	if err := in.acceptOne(ctx, who, &b, one, reason); err != nil {
		return BundleRecord{}, fmt.Errorf("accept document %s of bundle %s: %w", at, id, err)
	}
	return in.record(ctx, who, id, where)
}

// parsePlace parses the output of place, "MEMBER.INDEX". If s is not exactly in that form, ok is
// false.
func parsePlace(s string) (at pos, ok bool) {
	_, err := fmt.Sscanf(s, "%d.%d", &at.member, &at.index)
	return at, err == nil && place(at) == s
}

// record returns the record at a position of a bundle. NotFound: there is none. It checks no owner:
// the caller must have checked that the bundle belongs to who.Account.
func (in *acceptor) record(ctx context.Context, who drive.Who, id drive.BundleID, at pos) (r BundleRecord, err error) {
	err = scanRecord(&r, in.opt.DB.For(who.Account).QueryRow(ctx, `SELECT COALESCE(m.name, ''), r.member, r.idx, r.outcome, r.reason, r.counts, r.document_id, r.number,
		r.findings, r.decided_by, r.decided_at, r.decision FROM bundle_records r
		LEFT JOIN bundle_members m ON m.bundle_id = r.bundle_id AND m.n = r.member WHERE r.bundle_id = ? AND r.member = ? AND r.idx = ?`, id, at.member, at.index).Scan)
	return r, err
}

// readAgain decodes the rejected document at a position again and returns it as an accepted item.
// WrongState: the bundle is not Done, the record is not rejected for its rules, or the document
// cannot be read or has no complete key.
func (in *acceptor) readAgain(ctx context.Context, b *row, at pos) (one item, err error) {
	r, err := in.record(ctx, drive.Who{Account: b.Account}, b.ID, at)
	if err != nil {
		return item{}, err
	}
	if b.State != Done {
		return item{}, drive.Fail(drive.WrongState, "state", string(b.State))
	}
	if r.Outcome != Reject || r.Count != 1 || r.Reason == nil {
		return item{}, drive.Fail(drive.WrongState, "state", string(r.Outcome))
	}
	if *r.Reason != reasonInvalid && !strings.HasPrefix(*r.Reason, reasonFiltered) {
		return item{}, drive.Fail(drive.WrongState, "state", *r.Reason)
	}
	rows, err := in.opt.DB.Query(ctx, "SELECT "+memberColumns+" FROM bundle_members WHERE bundle_id = ? ORDER BY n", b.ID)
	members, err := sqldb.Scan(rows, err, scanMember)
	if err != nil {
		return item{}, err
	}
	if at.member < 1 || int(at.member) > len(members) {
		return item{}, drive.Fail(drive.NotFound)
	}
	m := members[at.member-1]
	doc, err := in.nth(ctx, m, at.index)
	if err != nil {
		return item{}, err
	}
	if !doc.Key().Complete() || len(doc.Number) > maxID {
		return item{}, drive.Fail(drive.WrongState, "state", reasonNoKey)
	}
	run := &run{workers: in.workers, b: b, pdfs: pdfsOf(members)}
	one = item{member: at.member, index: at.index, counts: 1, number: clip(doc.Number, maxID)}
	return one, run.accepts(&one, doc, m)
}

// nth decodes the document with this index, from 0, in a member. It must decode all documents
// before that one, and waits while another worker decodes a large one. WrongState: the content is
// damaged, the document cannot be decoded, or the member has fewer documents.
func (in *acceptor) nth(ctx context.Context, m member, index int64) (*invoice.Document, error) {
	documents, end, err := in.workers.open(ctx, m)
	if errors.Is(err, errDamaged) {
		return nil, drive.Fail(drive.WrongState, "state", reasonDamaged)
	}
	if fault, bad := errors.AsType[*syntax.Error](err); bad {
		return nil, drive.Fail(drive.WrongState, "state", fault.Kind.String())
	}
	if err != nil {
		return nil, err
	}
	defer end()
	n := int64(0)
	for doc, err := range documents {
		if n++; n <= index {
			continue
		}
		if fault, bad := errors.AsType[*syntax.Error](err); bad {
			return nil, drive.Fail(drive.WrongState, "state", fault.Kind.String())
		}
		return doc, err
	}
	return nil, drive.Fail(drive.WrongState, "state", reasonAbsent)
}

// acceptOne stores the document and updates its record and the bundle's counts in one transaction.
// WrongState: the bundle is not Done, or the record is no longer rejected.
func (in *acceptor) acceptOne(ctx context.Context, who drive.Who, b *row, one item, reason string) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	run := &run{workers: in.workers, b: b}
	var sum counts
	err = in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := in.opt.Ledger.Lock(ctx, tx, b.Account); err != nil {
			return err
		}
		fresh, err := in.find(ctx, tx, "WHERE id = ? AND account_id = ?"+tx.ForUpdate(), b.ID, b.Account)
		if err != nil {
			return err
		}
		if fresh.State != Done {
			return drive.Fail(drive.WrongState, "state", string(fresh.State))
		}
		p := plan{items: []item{one}}
		if err := run.settleKeys(ctx, tx, &p); err != nil {
			return err
		}
		if err := run.writeDocuments(ctx, tx, &p, now); err != nil {
			return err
		}
		became := p.items[0]
		n, err := tx.Exec(ctx, `UPDATE bundle_records SET outcome = ?, reason = ?, document_id = ?, decided_by = ?, decided_at = ?, decision = ?
			WHERE bundle_id = ? AND member = ? AND idx = ? AND outcome = 'rejected' AND counts = 1`,
			became.outcome, became.reason, became.document, who.User, now, reason, b.ID, one.member, one.index)
		if err != nil {
			return err
		}
		if n == 0 {
			return drive.Fail(drive.WrongState, "state", string(Accept))
		}
		if err := in.noteAccepted(tx, b, became, reason); err != nil {
			return err
		}
		sum = p.count()
		_, err = tx.Exec(ctx, `UPDATE bundles SET rejected = rejected - 1, accepted = accepted + ?, duplicates = duplicates + ?, conflicts = conflicts + ?
			WHERE id = ?`, sum.accepted, sum.duplicates, sum.conflicts, b.ID)
		if err != nil {
			return err
		}
		return run.publish(ctx, tx, &p)
	})
	if err == nil {
		in.stats.add(sum)
	}
	return err
}

// noteAccepted adds to the activity log that the user of the transaction accepted a rejected
// document, and the reason.
func (in *acceptor) noteAccepted(tx *sqldb.Tx, b *row, one item, reason string) error {
	const most = 1000 // bytes of the reason, as an activity entry is at most 2 KiB; the document's record keeps all of it
	return in.opt.Activity.Record(tx, activity.Entry{Account: b.Account, Verb: activity.DocumentAllowed, Name: one.number}, map[string]any{
		"bundle": b.ID, "document": one.document, "place": place(pos{one.member, one.index}), "reason": clip(reason, most),
	})
}
