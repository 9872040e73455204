package fsck

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// lookFile asks what explains something at the store: a blob, a released row, or an open or joined
// upload of its name, which are read in one statement after it was listed: a seal moves it from one
// to the other in one transaction. A name that is explained by nothing then will never be: uploads
// that have ended do not open again.
//
//	put-<generation>-<id>     written before its row: left alone while this process writes it, which is asked before the rows are
//	                          read; one of an instance that has ended has nobody who could still write its row: deleted. An
//	                          instance is ended at the first look, and the rows are read again at the second
//	anything else             quarantine (B3)
func (p *pass) lookFile(ctx context.Context, s blob.Stray) (*defect, error) {
	if s.Name == "" {
		return p.strayFile(s, "content", "something else"), nil
	}
	generation, small := generationOf(s.Name)
	if small && generation == p.Generation && (p.Putting == nil || p.Putting(s.Name)) {
		return nil, nil
	}
	explained, err := p.explained(ctx, s.Name)
	if err != nil || explained {
		return nil, err
	}
	if _, err := p.Store.Stat(ctx, s.Name); drive.IsKind(err, drive.NotFound) {
		return nil, nil // it was released, and is deleted by now
	}
	found := fmt.Sprintf("no row, and %d bytes", s.Size)
	ended := false
	if small {
		if ended, err = p.ended(ctx, generation); err != nil {
			return nil, err
		}
		if !ended && p.Ended != nil {
			return nil, nil // its instance may be about to write the row: this one too, by a commit whose answer was lost and that hangs still
		}
	}
	if ended && !p.keep {
		d := p.strayFile(s, "the row of a file of start "+strconv.FormatInt(generation, 10), found)
		d.leftover, d.bytes, d.file = true, s.Size, s.Name
		d.fix = func(ctx context.Context) error {
			p.Counters.Removed.Add(1)
			return p.Store.Remove(ctx, s.Name)
		}
		return d, nil
	}
	return p.strayFile(s, "a row with file "+s.Name, found), nil
}

// ended reports whether the process of that start will write nothing more. One that is alone has
// none beside it.
func (p *pass) ended(ctx context.Context, generation int64) (bool, error) {
	if p.Ended == nil {
		return generation < p.Generation, nil
	}
	ended, err := p.Ended(ctx, generation)
	if err != nil {
		return false, fmt.Errorf("look for the instance of start %d: %w", generation, err)
	}
	return ended, nil
}

// generationOf reads the name of a whole-file request's file: "put-<generation>-<id>".
func generationOf(name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, "put-")
	number, _, more := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	return n, ok && more && err == nil
}

func (p *pass) explained(ctx context.Context, name string) (yes bool, err error) {
	err = p.DB.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM blobs WHERE file = ?) OR EXISTS (SELECT 1 FROM released WHERE file = ?)
		OR EXISTS (SELECT 1 FROM uploads WHERE id = ? AND state IN ('active', 'parked', 'sealing'))
		OR EXISTS (SELECT 1 FROM upload_joins WHERE partial_id = ?)`, name, name, name, name).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("look for the row of file %s: %w", name, err)
	}
	return yes, nil
}

func (p *pass) strayFile(s blob.Stray, expected, found string) *defect {
	return &defect{
		Finding: Finding{Invariant: "B3", Subject: s.Place, Expected: expected, Found: found},
		fix: func(ctx context.Context) error {
			p.Counters.Quarantined.Add(1)
			return p.Store.Quarantine(ctx, s)
		},
	}
}
