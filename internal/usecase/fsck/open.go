package fsck

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
)

// row is a row of uploads with the columns that a check needs.
type row struct {
	id       drive.UploadID
	account  drive.AccountID
	state    string
	gen      int64
	size     *drive.ByteSize
	partSize drive.ByteSize
	created  drive.Time
}

// scanRow reads a row of selectRows into r by calling scan, and returns the error of scan.
func scanRow(r *row, scan func(...any) error) error {
	return scan(&r.id, &r.account, &r.state, &r.gen, &r.size, &r.partSize, &r.created)
}

// selectRows selects uploads for scanRow.
const selectRows = `SELECT id, account_id, state, gen, size, part_size, created_at FROM uploads `

// open reports whether the upload can still become a file: it is active, parked or sealing.
func (r row) open() bool { return r.state == "active" || r.state == "parked" || r.state == "sealing" }

// ref returns the staging reference of the upload.
func (r row) ref() blob.Ref {
	ref := blob.Ref{ID: r.id, Begun: r.created, PartSize: r.partSize, Size: blob.UnknownSize}
	if r.size != nil {
		ref.Size = *r.size
	}
	return ref
}

// timers returns the keys of the timers that must be armed for an upload in this state; none for an
// ended one.
func (r row) timers() []timer.Key {
	park, abandon := timer.Key{Kind: timer.Park, ID: r.id}, timer.Key{Kind: timer.Abandon, ID: r.id}
	switch r.state {
	case "active", "sealing":
		return []timer.Key{park, abandon}
	case "parked", "reclaiming":
		return []timer.Key{abandon}
	}
	return nil
}

// checkOpen is the step "open": it suspects uploads that have not ended and lack their staging or a
// timer (P1, P4). Timers are not checked before they are armed.
func (p *pass) checkOpen(ctx context.Context) error {
	const query = selectRows + `WHERE state IN ('active', 'parked', 'sealing', 'reclaiming') AND id > ? ORDER BY id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanRow, func(r row) any { return r.id }, func(r row) error {
		p.report.Checked.Uploads++
		if r.open() {
			if err := p.suspect(ctx, func(ctx context.Context) (*defect, error) { return p.lookStaging(ctx, r.id) }); err != nil {
				return err
			}
		}
		if p.Timers == nil || p.TimersArmed != nil && !p.TimersArmed() {
			return nil
		}
		for _, key := range r.timers() {
			if err := p.suspect(ctx, func(ctx context.Context) (*defect, error) { return p.lookTimer(ctx, r, key) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check open uploads: %w", err)
	}
	return nil
}

// findRow reads the row of an upload. found is false, without an error, if there is none.
func (p *pass) findRow(ctx context.Context, id drive.UploadID) (r row, found bool, err error) {
	err = scanRow(&r, p.DB.QueryRow(ctx, selectRows+`WHERE id = ?`, id).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

// lookStaging returns a defect if an open upload has no readable staging, or else nil. It loads the
// staging between two reads of the row. A staging is deleted only after the transaction that ends
// its upload, so a row that is open at the second read must have one. A loss cannot be repaired;
// the upload is abandoned in time, or reset.
func (p *pass) lookStaging(ctx context.Context, id drive.UploadID) (*defect, error) {
	r, found, err := p.findRow(ctx, id)
	if err != nil || !found || !r.open() {
		return nil, err
	}
	loadErr := p.load(ctx, r)
	if loadErr == nil {
		return nil, nil
	}
	again, found, err := p.findRow(ctx, id)
	if err != nil || !found || again.gen != r.gen || !again.open() {
		return nil, err
	}
	f := Finding{Invariant: "P1", Subject: "upload " + id.String(), Expected: "a staging", Found: "none"}
	if !drive.IsKind(loadErr, drive.NotFound) {
		f.Invariant, f.Expected, f.Found = "P2", "a readable journal", drive.KindOf(loadErr).String()
		p.opt.Log.ErrorContext(ctx, "the staging of an upload cannot be read; the upload cannot continue", "upload", id, "error", loadErr)
	}
	return &defect{Finding: f}, nil
}

// load checks that the staging of an upload exists and can be read. During a seal, the bytes move
// to another place and Load may miss them.
func (p *pass) load(ctx context.Context, r row) error {
	_, err := p.Staging.Load(ctx, r.ref())
	if r.state != "sealing" || !drive.IsKind(err, drive.NotFound) {
		return err
	}
	o, err := p.Staging.OpenStaged(ctx, r.ref())
	if err != nil {
		return err
	}
	return o.Close()
}

// rearmDelay is the delay of a timer armed by the audit. It need not be exact: the handler reads
// the row and rearms if it is too early.
const rearmDelay = 30 * time.Second

// lookTimer finds a missing timer of an unchanged row. Between a transaction and its Arm the timer
// is briefly missing, so the second look is needed.
func (p *pass) lookTimer(ctx context.Context, seen row, key timer.Key) (*defect, error) {
	_, err := p.Timers.Show(ctx, key)
	if err == nil || !drive.IsKind(err, drive.NotFound) {
		return nil, err
	}
	r, found, err := p.findRow(ctx, seen.id)
	if err != nil || !found || r.gen != seen.gen || r.state != seen.state {
		return nil, err
	}
	f := Finding{Invariant: "P4", Subject: "upload " + r.id.String(), Expected: "timer " + key.String(), Found: "none"}
	return &defect{Finding: f, fix: func(ctx context.Context) error {
		return p.Timers.Arm(ctx, timer.Entry{Key: key, Account: r.account, Gen: r.gen, Idle: rearmDelay})
	}}, nil
}
