package fsck

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// maxEmptyStaging is more bytes than the journal of a staging without parts needs.
const maxEmptyStaging = 4 << 10

// checkStaged compares staged directories with their rows, which are read after the listing. Only
// the begin of an upload creates a staging, before its row:
//
//	row open or reclaiming    in use
//	row gone, and joined      a final upload copies from it and deletes it
//	row done or gone          left by a crash: deleted
//	no row, of this process   a begin in progress: skipped, and checked after the next start
//	no row, older, empty      a begin whose process died: deleted
//	no row, with bytes        unexplained: quarantine (B3)
//
// The second look lists again, because nothing else shows whether a directory still exists.
func (p *pass) checkStaged(ctx context.Context) error {
	suspects := map[string]bool{} // by place
	err := p.Staging.ListStaged(ctx, func(s blob.Entry) error {
		p.report.Checked.Staged++
		d, err := p.lookStaged(ctx, s)
		if d != nil && len(suspects) < maxStrays {
			suspects[s.Path] = true
		}
		return errors.Join(err, p.rest(ctx))
	})
	if err == nil && len(suspects) > 0 {
		err = p.listAgain(ctx, suspects)
	}
	if err != nil {
		return fmt.Errorf("check staged directories: %w", err)
	}
	return nil
}

// maxStrays limits the memory of a pass; further strays are found by the next pass.
const maxStrays = 100_000

// listAgain lists the stagings again after a delay and records the suspects, by path, that are
// still defective.
func (p *pass) listAgain(ctx context.Context, suspects map[string]bool) error {
	if err := p.opt.Sleep(ctx, p.opt.RecheckDelay); err != nil {
		return err
	}
	return p.Staging.ListStaged(ctx, func(s blob.Entry) error {
		if !suspects[s.Path] {
			return nil
		}
		d, err := p.lookStaged(ctx, s)
		if err == nil && d != nil {
			err = p.found(ctx, *d)
		}
		return errors.Join(err, p.rest(ctx))
	})
}

// lookStaged returns the defect of a staged directory, or nil if an upload needs it or may just
// begin. Leftovers of ended uploads may be deleted by the repair; other strays move to the
// quarantine. It fails if the row or the bytes cannot be read.
func (p *pass) lookStaged(ctx context.Context, s blob.Entry) (*defect, error) {
	if s.Name == "" {
		return p.strayStaged(s, "a staging of an upload", "something else"), nil
	}
	id, err := drive.ParseID[drive.UploadID](s.Name)
	if err != nil {
		return nil, fmt.Errorf("the staging calls %s an upload: %w", s.Path, err)
	}
	// Read bytes first: a begin in progress has none, so if there are bytes and then no row, the
	// row is missing.
	bytes, err := p.stagedBytes(ctx, id, s)
	if err != nil {
		return nil, err
	}
	switch r, found, err := p.findRow(ctx, id); {
	case err != nil:
		return nil, err
	case found && r.state == "gone" && p.joined(ctx, id):
		return nil, nil
	case found && (r.state == "done" || r.state == "gone"):
		return p.leftoverStaged(s, r.ref(), "nothing left of an upload that is "+r.state), nil
	case found:
		return nil, nil
	case bytes:
		return p.strayStaged(s, "the row of upload "+s.Name, fmt.Sprintf("no row, and %d bytes", s.Size)), nil
	case id.String() > p.oldestID.String():
		return nil, nil
	}
	begun, _ := stagedDay(s.Path)
	return p.leftoverStaged(s, blob.Ref{ID: id, Begun: begun}, "nothing left of a begin that did not come to its end"), nil
}

// joined reports whether a concatenation still uses the bytes of a gone upload. On an error it
// reports true, so that the bytes stay.
func (p *pass) joined(ctx context.Context, id drive.UploadID) (yes bool) {
	err := p.DB.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM upload_joins WHERE partial_id = ?)`, id).Scan(&yes)
	return yes || err != nil
}

// stagedBytes reports whether a staged directory holds more than what a begin creates, so that it
// may have bytes of a client. If it cannot tell, it returns true.
func (p *pass) stagedBytes(ctx context.Context, id drive.UploadID, s blob.Entry) (bool, error) {
	if p.Staging.Caps().Shared { // its size counts no bookkeeping files
		return s.Size > 0, nil
	}
	begun, ok := stagedDay(s.Path)
	if !ok || s.Size > maxEmptyStaging {
		return true, nil
	}
	data, err := p.Staging.OpenStaged(ctx, blob.Ref{ID: id, Begun: begun})
	switch {
	case drive.IsKind(err, drive.NotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("open %s: %w", s.Path, err)
	}
	return data.Size() > 0, data.Close()
}

// stagedDay returns the day that the path of a staged directory names, .../2026/11/20/<id>, and
// false if it names none.
func stagedDay(place string) (drive.Time, bool) {
	day := path.Dir(place)
	month := path.Dir(day)
	t, err := time.Parse("2006/01/02", path.Join(path.Base(path.Dir(month)), path.Base(month), path.Base(day)))
	return drive.TimeOf(t), err == nil
}

// strayStaged returns the defect of a directory to be moved to the quarantine.
func (p *pass) strayStaged(s blob.Entry, expected, found string) *defect {
	return &defect{
		Finding: Finding{Invariant: "B3", Subject: s.Path, Expected: expected, Found: found},
		fix: func(ctx context.Context) error {
			p.Counters.Quarantined.Add(1)
			return p.Staging.QuarantineStaged(ctx, s)
		},
	}
}

// leftoverStaged returns the defect of a staged directory that rows explain, such as that of an
// ended upload. Its repair removes the staging of ref and quarantines what is then left at the path
// of s. If a backup was restored, or the path does not match the row's date, the defect is a
// finding instead of a leftover.
func (p *pass) leftoverStaged(s blob.Entry, ref blob.Ref, expected string) *defect {
	begun, dated := stagedDay(s.Path)
	elsewhere := dated && !begun.Std().UTC().Truncate(24*time.Hour).Equal(ref.Begun.Std().UTC().Truncate(24*time.Hour))
	return &defect{
		leftover: !p.deleteNothing && !elsewhere, bytes: s.Size,
		Finding: Finding{Invariant: "P4", Subject: s.Path, Expected: expected, Found: fmt.Sprintf("%d bytes", s.Size)},
		fix: func(ctx context.Context) error {
			if p.deleteNothing {
				p.Counters.Quarantined.Add(1)
				return p.Staging.QuarantineStaged(ctx, s)
			}
			p.Counters.Removed.Add(1)
			return errors.Join(p.Staging.Remove(ctx, ref), p.Staging.QuarantineStaged(ctx, s))
		},
	}
}
