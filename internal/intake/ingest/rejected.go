package ingest

import (
	"context"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Rejection is the record of one or more documents that a bundle declared and that were rejected.
type Rejection struct {
	Bundle drive.BundleID `json:"bundle"`
	Source string         `json:"source"`
	Ended  drive.Time     `json:"ended_at" doc:"when the bundle ended; 0: not ended"`
	BundleRecord
}

// RejectedFilter selects the rejections to list. Empty fields match all.
type RejectedFilter struct {
	Source string
	Reason string // a reason code, such as "invalid"
}

// Cursor returns the position of the rejection in the list, for Rejections.
func (r Rejection) Cursor() string { return r.Bundle.String() + "." + r.Place }

// Rejections returns up to limit rejections of all bundles of the caller's account, those of the
// newest bundle first. after is the Cursor of the last rejection of the previous page; empty: the
// first page. CursorInvalid: after is malformed.
func (in *Intake) Rejections(ctx context.Context, who drive.Who, f RejectedFilter, after string, limit int) ([]Rejection, error) {
	return in.catalog.rejections(ctx, who, f, after, limit)
}

// rejections returns up to limit rejected records of all bundles after the cursor, newest bundle
// first. It fails with drive.CursorInvalid for a malformed cursor.
func (in *catalog) rejections(ctx context.Context, who drive.Who, f RejectedFilter, after string, limit int) ([]Rejection, error) {
	where, args := "b.account_id = ? AND (b.rejected > 0 OR b.surplus > 0)", []any{who.Account}
	if f.Source != "" {
		where, args = where+" AND b.source = ?", append(args, f.Source)
	}
	if f.Reason != "" {
		where, args = where+" AND r.reason = ?", append(args, f.Reason)
	}
	if after != "" {
		bundle, rest, _ := strings.Cut(after, ".")
		id, err := drive.ParseID[drive.BundleID](bundle)
		var at pos
		if _, bad := fmt.Sscanf(rest, "%d.%d", &at.member, &at.index); err != nil || bad != nil || place(at) != rest {
			return nil, drive.Fail(drive.CursorInvalid)
		}
		where += " AND b.id <= ? AND (b.id < ? OR (r.member, r.idx) > (?, ?))"
		args = append(args, id, id, at.member, at.index)
	}
	rows, err := in.opt.DB.Query(ctx, `SELECT b.id, b.source, b.ended_at, COALESCE(m.name, ''), r.member, r.idx, r.outcome, r.reason, r.counts, r.document_id,
		r.number, r.findings, r.decided_by, r.decided_at, r.decision FROM bundles b JOIN bundle_records r ON r.bundle_id = b.id AND r.outcome = 'rejected'
		LEFT JOIN bundle_members m ON m.bundle_id = r.bundle_id AND m.n = r.member
		WHERE `+where+" ORDER BY b.id DESC, r.member, r.idx LIMIT ?", append(args, limit)...)
	all, err := sqldb.Scan(rows, err, func(r *Rejection, scan func(...any) error) error {
		return scanRecord(&r.BundleRecord, func(into ...any) error {
			return scan(append([]any{&r.Bundle, &r.Source, &r.Ended}, into...)...)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list rejections: %w", err)
	}
	return all, nil
}
