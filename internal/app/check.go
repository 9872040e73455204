package app

import (
	"context"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/fsck"
)

// findings lists the findings of audits for the API, the newest first, before the finding that
// cursor names. It fails with CursorInvalid.
func (p *platform) findings(ctx context.Context, cursor string, limit int) (items []rest.Finding, next string, err error) {
	before := int64(0)
	if cursor != "" {
		if before, err = strconv.ParseInt(cursor, 10, 64); err != nil || before < 1 {
			return nil, "", drive.Wrap(err, drive.CursorInvalid)
		}
	}
	found, err := fsck.ListFindings(ctx, p.db, before, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		next = strconv.FormatInt(found[limit-1].ID, 10)
	}
	for _, f := range found {
		items = append(items, rest.Finding{
			ID: strconv.FormatInt(f.ID, 10), At: f.FoundAt, Invariant: f.Invariant, Subject: f.Subject, Expected: f.Expected,
			Found: f.Found, Repaired: f.Repaired,
		})
	}
	return items, next, nil
}

// FsckResult is the report of a check.
type FsckResult struct {
	fsck.Report
	EndedRestored bool `json:"ended_restored"` // the check ended the report-only mode after a restore; effective at the next start
}

// fsck runs all checks to the end. After a restore, the first clean check ends the report-only
// mode. Findings are in the result and no error.
func (c *console) fsck(ctx context.Context, scope fsck.Scope) (FsckResult, error) {
	report, err := c.auditor.Check(ctx, scope)
	if err != nil || !report.Restored || !report.Clean() {
		return FsckResult{Report: report}, err
	}
	err = fsck.EndRestored(ctx, c.platform.db, report)
	return FsckResult{Report: report, EndedRestored: err == nil}, err
}

// PurgeRequest is the empty request of RoutePurge.
type PurgeRequest struct{}

// purgeQuarantine permanently deletes all contents that are in the quarantine at the time of the
// call. It returns what was deleted, also beside an error.
func (c *console) purgeQuarantine(ctx context.Context, _ PurgeRequest) (fsck.Tally, error) {
	items, err := c.auditor.ListQuarantine(ctx)
	if err != nil {
		return fsck.Tally{}, err
	}
	return c.auditor.PurgeQuarantine(ctx, items)
}
