package fsck

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// emptyStaging is more than the journal of a staging without parts takes, in bytes.
const emptyStaging = 4 << 10

// checkStaged walks the staging: the last resort that the dated directories are for. What is listed
// is compared with the row, which is read afterwards. Only begin makes a staging, and before the
// row:
//
//	row open or reclaiming    its own
//	row gone, and joined      a final upload copies from it, and removes it itself
//	row done or gone          left by a crash: removed
//	no row, made by this      a begin that is on its way: left alone, and looked at after the next start
//	no row, older, empty      a begin that died with its process: removed
//	no row, with bytes        nobody can explain them: quarantine (B3)
//
// The second look is a second list: nothing else tells whether a directory is still there.
func (p *pass) checkStaged(ctx context.Context) error {
	suspects := map[string]bool{} // places
	err := p.Staging.ListStaged(ctx, func(s blob.Stray) error {
		p.report.Checked.Staged++
		d, err := p.lookStaged(ctx, s)
		if d != nil && len(suspects) < maxStrays {
			suspects[s.Place] = true
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

// maxStrays bounds the memory of a pass; what is beyond it comes up in the next one.
const maxStrays = 100_000

func (p *pass) listAgain(ctx context.Context, suspects map[string]bool) error {
	if err := p.opt.Sleep(ctx, p.opt.Settle); err != nil {
		return err
	}
	return p.Staging.ListStaged(ctx, func(s blob.Stray) error {
		if !suspects[s.Place] {
			return nil
		}
		d, err := p.lookStaged(ctx, s)
		if err == nil && d != nil {
			err = p.found(ctx, *d)
		}
		return errors.Join(err, p.rest(ctx))
	})
}

func (p *pass) lookStaged(ctx context.Context, s blob.Stray) (*defect, error) {
	if s.Name == "" {
		return p.strayStaged(s, "a staging of an upload", "something else"), nil
	}
	id, err := drive.ParseID[drive.UploadID](s.Name)
	if err != nil {
		return nil, fmt.Errorf("the staging calls %s an upload: %w", s.Place, err)
	}
	// Bytes first: while a begin is on its way there are none, so a row that is missing after they
	// were seen is missing.
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
		return p.leftStaged(s, r.ref(), "nothing left of an upload that is "+r.state), nil
	case found:
		return nil, nil
	case bytes:
		return p.strayStaged(s, "the row of upload "+s.Name, fmt.Sprintf("no row, and %d bytes", s.Size)), nil
	case id.String() > p.born.String():
		return nil, nil
	}
	begun, _ := begunOf(s.Place)
	return p.leftStaged(s, blob.Ref{ID: id, Begun: begun}, "nothing left of a begin that did not come to its end"), nil
}

// joined reports whether a concatenation still owns the bytes of an upload that is gone. Who cannot
// tell leaves them alone.
func (p *pass) joined(ctx context.Context, id drive.UploadID) (yes bool) {
	err := p.DB.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM upload_joins WHERE partial_id = ?)`, id).Scan(&yes)
	return yes || err != nil
}

// stagedBytes reports whether a staged directory holds more than what begin makes.
func (p *pass) stagedBytes(ctx context.Context, id drive.UploadID, s blob.Stray) (bool, error) {
	if p.Staging.Caps().Shared { // no file of its own is in what it counts
		return s.Size > 0, nil
	}
	begun, ok := begunOf(s.Place)
	if !ok || s.Size > emptyStaging {
		return true, nil
	}
	data, err := p.Staging.OpenStaged(ctx, blob.Ref{ID: id, Begun: begun})
	switch {
	case drive.IsKind(err, drive.NotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("open %s: %w", s.Place, err)
	}
	return data.Size() > 0, data.Close()
}

// begunOf returns the day that a staged directory lies under: .../2026/11/20/<id>.
func begunOf(place string) (drive.Time, bool) {
	day := path.Dir(place)
	month := path.Dir(day)
	t, err := time.Parse("2006/01/02", path.Join(path.Base(path.Dir(month)), path.Base(month), path.Base(day)))
	return drive.TimeOf(t), err == nil
}

func (p *pass) strayStaged(s blob.Stray, expected, found string) *defect {
	return &defect{
		Finding: Finding{Invariant: "B3", Subject: s.Place, Expected: expected, Found: found},
		fix: func(ctx context.Context) error {
			p.Counters.Quarantined.Add(1)
			return p.Staging.QuarantineStaged(ctx, s)
		},
	}
}

// leftStaged is a directory that rows explain. What Remove leaves in spite of them lies in a place
// that they do not explain.
func (p *pass) leftStaged(s blob.Stray, ref blob.Ref, expected string) *defect {
	begun, dated := begunOf(s.Place)
	elsewhere := dated && !begun.Std().UTC().Truncate(24*time.Hour).Equal(ref.Begun.Std().UTC().Truncate(24*time.Hour))
	return &defect{
		leftover: !p.keep && !elsewhere, bytes: s.Size,
		Finding: Finding{Invariant: "P4", Subject: s.Place, Expected: expected, Found: fmt.Sprintf("%d bytes", s.Size)},
		fix: func(ctx context.Context) error {
			if p.keep {
				p.Counters.Quarantined.Add(1)
				return p.Staging.QuarantineStaged(ctx, s)
			}
			p.Counters.Removed.Add(1)
			return errors.Join(p.Staging.Remove(ctx, ref), p.Staging.QuarantineStaged(ctx, s))
		},
	}
}
