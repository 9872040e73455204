package fsck

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Finding is a violation of an invariant, as recorded in the table findings and shown in reports.
type Finding struct {
	ID        int64          `json:"id"`
	FoundAt   drive.Time     `json:"found_at"`
	SeenAt    drive.Time     `json:"seen_at"` // last time
	Invariant string         `json:"invariant"`
	Subject   string         `json:"subject"`
	Expected  string         `json:"expected"`
	Found     string         `json:"found"`
	Nodes     []drive.NodeID `json:"nodes,omitempty"` // affected files, at most 100
	Repaired  bool           `json:"repaired"`
}

// Report is the result of a pass.
type Report struct {
	Scope    Scope      `json:"scope"`
	Restored bool       `json:"restored"` // a restored backup awaits its check
	Started  drive.Time `json:"started_at"`
	Ended    drive.Time `json:"ended_at"`
	Complete bool       `json:"complete"`
	// DatabaseDamaged reports damaged pages of the SQLite file. In that case nothing else was
	// checked.
	DatabaseDamaged bool      `json:"database_damaged"`
	Total           int       `json:"total"`    // number of findings
	Repaired        int       `json:"repaired"` // repaired findings
	Findings        []Finding `json:"findings"` // the first 1,000
	Checked         Checked   `json:"checked"`
	// Leftovers are remains of crashed processes that rows or names explain. Repairing and
	// background passes delete them. They are not findings.
	Leftovers Tally `json:"leftovers"`
	// Quarantine is the content of the quarantine, which only PurgeQuarantine deletes.
	Quarantine Tally `json:"quarantine"`
}

// Checked counts what a pass has checked.
type Checked struct {
	Accounts int64          `json:"accounts"`
	Nodes    int64          `json:"nodes"`
	Versions int64          `json:"versions"`
	Blobs    int64          `json:"blobs"`
	Uploads  int64          `json:"uploads"` // open uploads
	Staged   int64          `json:"staged"`  // staged directories
	Files    int64          `json:"files"`
	Read     drive.ByteSize `json:"read"` // bytes read to verify digests
}

// Tally is a number of items and their total bytes.
type Tally struct {
	Count int64          `json:"count"`
	Bytes drive.ByteSize `json:"bytes"`
}

// Clean reports whether the pass is complete and as many defects were repaired as found. A pass
// without findings is clean.
func (r Report) Clean() bool { return r.Complete && r.Total == r.Repaired }

const (
	maxFindings  = 1000                // per report
	keepFindings = 90 * 24 * time.Hour // retention in the table
)

// found repairs a defect if the scope allows it, and records it as a finding. A repair of rows and
// its record are one transaction, which records nothing if the defect no longer exists. For a
// repair of files the record is written first, so that no change is without a trace. A leftover is
// deleted and only counted.
func (p *pass) found(ctx context.Context, d defect) error {
	if d.leftover {
		if done, err := (leftovers{p}).handle(ctx, d); done || err != nil {
			return err
		}
		d.fix = nil // already tried
	}
	f := d.Finding
	still := true
	err := p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if d.fixTx != nil && (p.scope.Repair || d.onlyMarks) {
			if still, err = d.fixTx(ctx, tx, &f); err != nil || !still {
				return err
			}
		}
		return p.record(ctx, tx, &f)
	})
	if err != nil {
		return fmt.Errorf("record %s of %s: %w", f.Invariant, f.Subject, err)
	}
	if !still {
		return nil
	}
	if p.scope.Repair && d.fix != nil {
		if err := p.repair(ctx, d, &f); err != nil {
			return err
		}
	}
	p.add(ctx, f)
	return nil
}

// repair runs the fix of a recorded finding. If the fix fails, the finding stays unrepaired and the
// pass continues.
func (p *pass) repair(ctx context.Context, d defect, f *Finding) error {
	if err := d.fix(ctx); err != nil {
		p.opt.Log.ErrorContext(ctx, "a finding could not be repaired; the next pass tries again", "invariant", f.Invariant, "subject", f.Subject, "error", err)
		return ctx.Err()
	}
	f.Repaired = true
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE findings SET repaired = 1 WHERE id = ?`, f.ID)
		return err
	})
}

// add counts a finding, logs it, and adds it to the report, which has maxFindings at most. It does
// not store it.
func (p *pass) add(ctx context.Context, f Finding) {
	p.Counters.Findings.Add(1)
	p.report.Total++
	if f.Repaired {
		p.Counters.Repaired.Add(1)
		p.report.Repaired++
	}
	if len(p.report.Findings) < maxFindings {
		p.report.Findings = append(p.report.Findings, f)
	}
	p.opt.Log.WarnContext(ctx, "the check found a violation; see the report of fsck", "invariant", f.Invariant, "subject", f.Subject, "expected", f.Expected, "found", f.Found,
		"repaired", f.Repaired)
}

// record inserts a finding within tx, or updates the time of an equal unrepaired one. It sets ID
// and times of f.
func (c *Checker) record(ctx context.Context, tx *sqldb.Tx, f *Finding) error {
	f.SeenAt = max(c.now(), c.retentionNow()) // a clock that is behind must not make it look old
	err := tx.QueryRow(ctx, `SELECT id, found_at FROM findings WHERE subject = ? AND invariant = ? AND expected = ? AND found = ?
		AND repaired = 0 LIMIT 1`, f.Subject, f.Invariant, f.Expected, f.Found).Scan(&f.ID, &f.FoundAt)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE findings SET seen_at = ?, repaired = ? WHERE id = ?`, f.SeenAt, f.Repaired, f.ID)
		return err
	}
	if !drive.IsKind(err, drive.NotFound) {
		return err
	}
	nodes := ""
	if len(f.Nodes) > 0 {
		text, err := json.Marshal(f.Nodes)
		if err != nil {
			return err
		}
		nodes = string(text)
	}
	f.FoundAt = f.SeenAt
	f.ID, err = tx.Insert(ctx, `INSERT INTO findings (found_at, seen_at, invariant, subject, expected, found, nodes, repaired)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, f.FoundAt, f.SeenAt, f.Invariant, f.Subject, f.Expected, f.Found, nodes, f.Repaired)
	return err
}

// ListFindings returns up to limit findings with an id less than before, newest first. Zero starts
// with the newest.
func ListFindings(ctx context.Context, q sqldb.Querier, before int64, limit int) ([]Finding, error) {
	rows, err := q.Query(ctx, `SELECT id, found_at, seen_at, invariant, subject, expected, found, nodes, repaired FROM findings
		WHERE ? = 0 OR id < ? ORDER BY id DESC LIMIT ?`, before, before, limit)
	all, err := sqldb.Scan(rows, err, scanFinding)
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", err)
	}
	return all, nil
}

// scanFinding reads a row of findings into f by calling scan. It returns the error of scan, or that
// of damaged JSON in the nodes.
func scanFinding(f *Finding, scan func(...any) error) error {
	var nodes string
	if err := scan(&f.ID, &f.FoundAt, &f.SeenAt, &f.Invariant, &f.Subject, &f.Expected, &f.Found, &nodes, &f.Repaired); err != nil {
		return err
	}
	if nodes == "" {
		return nil
	}
	return json.Unmarshal([]byte(nodes), &f.Nodes)
}

// trim deletes up to pageSize findings last seen more than keepFindings ago, by the retention clock
// (B4).
func (c *Checker) trim(ctx context.Context) error {
	return c.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.DeleteBatch(ctx, sqldb.Batch{
			Table: "findings", Key: "id", Where: "seen_at < ?", Args: []any{c.retentionNow().Add(-keepFindings)}, Order: "seen_at", Limit: pageSize,
		})
		return err
	})
}
