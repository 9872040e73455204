package fsck

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// lookFile checks whether a file in the store is explained by a blob, a released row, or an open or
// joined upload. One statement reads them after the file was listed, and a seal moves a file from
// one to the other in one transaction. A file without explanation can never get one: ended uploads
// do not open again.
//
//	put-<generation>-<id>     written before its row: skipped while this process writes it, which is asked before the rows are read;
//	                          deleted if its instance has ended and can no longer write the row. The first look ends a dead
//	                          instance, and the second look reads the rows again
//	anything else             quarantine (B3)
func (p *pass) lookFile(ctx context.Context, s blob.Entry) (*defect, error) {
	if s.Name == "" {
		return p.strayFile(s, "content", "something else"), nil
	}
	generation, small := generationOf(s.Name)
	if small && generation == p.Generation && (p.IsWriting == nil || p.IsWriting(s.Name)) {
		return nil, nil
	}
	explained, err := p.explained(ctx, s.Name)
	if err != nil || explained {
		return nil, err
	}
	_, err = p.Store.Stat(ctx, s.Name)
	if drive.IsKind(err, drive.NotFound) {
		return nil, nil // released and deleted since
	}
	if drive.IsKind(err, drive.Unavailable) {
		return nil, err
	}
	found := fmt.Sprintf("no row, and %d bytes", s.Size)
	ended := false
	if small {
		if ended, err = p.ended(ctx, generation); err != nil {
			return nil, err
		}
		if !ended && p.Ended != nil {
			return nil, nil // its instance may still write the row; this process, too, by a pending commit whose reply was lost
		}
	}
	if ended && !p.deleteNothing {
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

// ended reports whether the process of a generation will write nothing more. Without Ended, all
// earlier generations have ended.
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

// generationOf parses the file name of a whole-file upload, "put-<generation>-<id>". It returns
// false for other names.
func generationOf(name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, "put-")
	number, _, more := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	return n, ok && more && err == nil
}

// explained reports whether a row explains the content file of that name: a blob, a released file,
// an open upload or a joined partial upload.
func (p *pass) explained(ctx context.Context, name string) (yes bool, err error) {
	err = p.DB.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM blobs WHERE file = ?) OR EXISTS (SELECT 1 FROM released WHERE file = ?)
		OR EXISTS (SELECT 1 FROM uploads WHERE id = ? AND state IN ('active', 'parked', 'sealing'))
		OR EXISTS (SELECT 1 FROM upload_joins WHERE partial_id = ?)`, name, name, name, name).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("look for the row of file %s: %w", name, err)
	}
	return yes, nil
}

// strayFile returns the defect of a file to be moved to the quarantine.
func (p *pass) strayFile(s blob.Entry, expected, found string) *defect {
	return &defect{
		Finding: Finding{Invariant: "B3", Subject: s.Path, Expected: expected, Found: found},
		fix: func(ctx context.Context) error {
			p.Counters.Quarantined.Add(1)
			return p.Store.Quarantine(ctx, s)
		},
	}
}
