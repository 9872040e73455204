package fsck

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/timer"
)

// row is what an audit needs to know of an upload.
type row struct {
	id       drive.UploadID
	account  drive.AccountID
	state    string
	gen      int64
	size     *drive.ByteSize
	partSize drive.ByteSize
	created  drive.Time
}

func scanRow(r *row, scan func(...any) error) error {
	return scan(&r.id, &r.account, &r.state, &r.gen, &r.size, &r.partSize, &r.created)
}

const selectRows = `SELECT id, account_id, state, gen, size, part_size, created_at FROM uploads `

func (r row) open() bool { return r.state == "active" || r.state == "parked" || r.state == "sealing" }

func (r row) ref() blob.Ref {
	ref := blob.Ref{ID: r.id, Begun: r.created, PartSize: r.partSize, Size: blob.UnknownSize}
	if r.size != nil {
		ref.Size = *r.size
	}
	return ref
}

// timers returns the keys that an upload in this state has armed.
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

// checkOpen looks for the staging and the timers of every upload that has not ended.
func (p *pass) checkOpen(ctx context.Context) error {
	const query = selectRows + `WHERE state IN ('active', 'parked', 'sealing', 'reclaiming') AND id > ? ORDER BY id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanRow, func(r row) any { return r.id }, func(r row) error {
		p.report.Checked.Uploads++
		if r.open() {
			if err := p.suspect(ctx, func(ctx context.Context) (*defect, error) { return p.lookStaging(ctx, r.id) }); err != nil {
				return err
			}
		}
		if p.Timers == nil || p.Armed != nil && !p.Armed() {
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

func (p *pass) findRow(ctx context.Context, id drive.UploadID) (r row, found bool, err error) {
	err = scanRow(&r, p.DB.QueryRow(ctx, selectRows+`WHERE id = ?`, id).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

// lookStaging loads what is staged between two reads of the row: a staging is removed only after
// the transaction that ends its upload, so a row that is open afterwards had a right to it. Nothing
// repairs a loss; the upload is abandoned in time, or reset.
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
		p.opt.Log.ErrorContext(ctx, "a staging cannot be read", "upload", id, "error", loadErr)
	}
	return &defect{Finding: f}, nil
}

// load reports whether what is staged of an upload is there and can be read. In the middle of a
// seal its bytes are on their way from one place to the other, and Load may miss them.
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

// soon is when a timer that the audit arms fires. It need not be the right time: a fired timer is a
// suspicion, its handler reads the row and comes back later if it must.
const soon = 30 * time.Second

// lookTimer misses a timer of a row that has stayed as it is. Between a transaction and its Arm
// there is a moment without one: hence the second look.
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
		return p.Timers.Arm(ctx, timer.Entry{Key: key, Account: r.account, Gen: r.gen, Idle: soon})
	}}, nil
}
