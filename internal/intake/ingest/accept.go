package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/syntax"
)

// appeals are for documents that were rejected and that a person wants all the same.
type appeals struct {
	*ground
	catalog *catalog
	workers *workers
}

// AcceptAnyway accepts a document that breaks rules, or that the source's rules do not want: at is
// its place in a bundle that is done, reason is why, in words. The record says who did it, and
// keeps what is wrong. The document becomes what it would have become: new, a duplicate, or a
// conflict.
//
// WrongState: the bundle is not done, the document is not rejected any more, or nobody can read it,
// so that there is nothing to accept.
func (in *Intake) AcceptAnyway(ctx context.Context, who drive.Who, id drive.BundleID, at, reason string) (BundleRecord, error) {
	return in.appeals.accept(ctx, who, id, at, reason)
}

func (in *appeals) accept(ctx context.Context, who drive.Who, id drive.BundleID, at, reason string) (BundleRecord, error) {
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

// parsePlace is the inverse of place.
func parsePlace(s string) (at pos, ok bool) {
	_, err := fmt.Sscanf(s, "%d.%d", &at.member, &at.index)
	return at, err == nil && place(at) == s
}

// record returns one of a bundle.
func (in *appeals) record(ctx context.Context, who drive.Who, id drive.BundleID, at pos) (r BundleRecord, err error) {
	err = scanRecord(&r, in.opt.DB.For(who.Account).QueryRow(ctx, `SELECT COALESCE(m.name, ''), r.member, r.idx, r.outcome, r.reason, r.counts, r.document_id, r.number,
		r.findings, r.decided_by, r.decided_at, r.decision FROM bundle_records r
		LEFT JOIN bundle_members m ON m.bundle_id = r.bundle_id AND m.n = r.member WHERE r.bundle_id = ? AND r.member = ? AND r.idx = ?`, id, at.member, at.index).Scan)
	return r, err
}

// readAgain reads a rejected document from its member.
func (in *appeals) readAgain(ctx context.Context, b *row, at pos) (one item, err error) {
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

// nth reads a document of a member, and all before it.
func (in *appeals) nth(ctx context.Context, m member, index int64) (*invoice.Document, error) {
	end, err := in.workers.alone(ctx, m)
	if err != nil {
		return nil, err
	}
	defer end()
	object, err := in.openSound(ctx, m.Blob)
	if errors.Is(err, errDamaged) {
		return nil, drive.Fail(drive.WrongState, "state", reasonDamaged)
	}
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // it was only read
	documents, err := decode(ctx, object)
	if fault, bad := errors.AsType[*syntax.Error](err); bad {
		return nil, drive.Fail(drive.WrongState, "state", fault.Kind.String())
	}
	if err != nil {
		return nil, err
	}
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

// acceptOne stores the document and says so in its record, if that still says that it is rejected.
func (in *appeals) acceptOne(ctx context.Context, who drive.Who, b *row, one item, reason string) error {
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

// noteAccepted notes who has accepted a document that was rejected, which the transaction is for,
// and why.
func (in *appeals) noteAccepted(tx *sqldb.Tx, b *row, one item, reason string) error {
	const most = 1000 // bytes of the activity log's 2 KiB; the record of the document has all of it
	return in.opt.Activity.Record(tx, activity.Entry{Account: b.Account, Verb: activity.DocumentAllowed, Name: one.number}, map[string]any{
		"bundle": b.ID, "document": one.document, "place": place(pos{one.member, one.index}), "reason": clip(reason, most),
	})
}
