package fsck

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/sqldb"
)

// checkDeep is the step "deep": it reads each blob from p.after on and verifies its digest, and
// stores when the blob was read. Wrong bytes are findings; an error means that the step is
// incomplete.
func (p *pass) checkDeep(ctx context.Context) error {
	err := each(ctx, p, selectBlobRows+`WHERE id > ? ORDER BY id LIMIT ?`, pageSize, scanBlobRow, func(b blobRow) any { return b.id },
		func(b blobRow) error { return p.reread(ctx, b.id) })
	return errors.Join(err, p.scrubbed.flush(ctx, p))
}

// scrub reads overdue blobs, the longest unread first. Its progress is in the rows, so it resumes
// after a restart.
func (p *pass) scrub(ctx context.Context) error {
	for {
		rows, err := p.DB.Query(ctx, `SELECT id FROM blobs WHERE scrubbed_at < ? ORDER BY scrubbed_at LIMIT ?`, p.now().Add(-p.opt.Scrub), pageSize)
		due, err := sqldb.Scan(rows, err, func(id *drive.BlobID, scan func(...any) error) error { return scan(id) })
		if err != nil || len(due) == 0 {
			return err
		}
		for _, id := range due {
			if err := p.reread(ctx, id); err != nil {
				return errors.Join(err, p.scrubbed.flush(ctx, p))
			}
		}
		if err := p.scrubbed.flush(ctx, p); err != nil { // otherwise the next page would be the same
			return err
		}
	}
}

// fullBlobRow is a row of blobs with what it says about the bytes.
type fullBlobRow struct {
	blobRow
	sum      string
	partSize drive.ByteSize
	crc      uint32
	parts    []byte
}

// reread verifies the digest of one blob and records what is wrong. A blob that was released
// meanwhile is no error. The time of the read is stored later with others.
func (p *pass) reread(ctx context.Context, id drive.BlobID) error {
	if err := p.rest(ctx); err != nil {
		return err
	}
	var w fullBlobRow
	err := p.DB.QueryRow(ctx, `SELECT id, file, size, damaged_at, digest, part_size, crc32, parts FROM blobs WHERE id = ?`, id).
		Scan(&w.id, &w.file, &w.size, &w.damaged, &w.sum, &w.partSize, &w.crc, &w.parts)
	if drive.IsKind(err, drive.NotFound) {
		return nil // released since
	}
	if err != nil {
		return fmt.Errorf("read the row of blob %s: %w", id, err)
	}
	got, err := p.hash(ctx, w)
	switch {
	case err == nil:
		return p.compare(ctx, w, got)
	case errors.Is(err, errYielded), ctx.Err() != nil:
		return err
	case drive.IsKind(err, drive.NotFound), errors.Is(err, io.ErrUnexpectedEOF):
		if err = p.suspect(ctx, func(ctx context.Context) (*defect, error) { return p.lookBlob(ctx, id) }); err != nil {
			return err // not scrubbed
		}
	default: // without a disk error, such as an unavailable store, the next scrub checks again
		if away := p.checkMounted(ctx); away != nil {
			return away // the whole disk is gone
		}
		err = unreadable(ctx, p, w.blobRow, err, content.Unreadable(err))
	}
	return errors.Join(err, p.scrubbed.add(ctx, p, w.blobRow))
}

// unreadable reports a blob that cannot be read. mark also marks it as damaged: the disk reported a
// read error of these bytes.
func unreadable(ctx context.Context, p *pass, b blobRow, cause error, mark bool) error {
	p.opt.Log.ErrorContext(ctx, "a blob cannot be read; see the finding in the report", "blob", b.id, "error", cause)
	d, err := p.damage(ctx, b, "B1", "readable bytes", "an error of reading")
	if err != nil {
		return err
	}
	if !mark {
		d.fixTx = nil
	}
	return p.found(ctx, *d)
}

// hash reads the file of a blob and returns its size and digests. It fails if the file cannot be
// read, with errYielded if an administrator waits, and if ctx ends.
func (p *pass) hash(ctx context.Context, w fullBlobRow) (m content.Measured, err error) {
	file, err := p.Store.Open(ctx, w.file)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return content.Measure(ctx, readerAt(func(b []byte, off int64) (int, error) {
		if err := p.meter(ctx, len(b)); err != nil {
			return 0, err
		}
		return file.ReadAt(b, off)
	}), w.size, w.partSize)
}

// readerAt is a function that serves as the ReadAt of an io.ReaderAt.
type readerAt func(b []byte, off int64) (int, error)

// ReadAt calls f.
func (f readerAt) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

// meter counts read bytes. In the background it also limits the rate, and returns errYielded if an
// administrator waits.
func (p *pass) meter(ctx context.Context, n int) error {
	p.report.Checked.Read += drive.ByteSize(n)
	p.Counters.Scrubbed.Add(int64(n))
	if !p.background {
		return nil
	}
	if p.waiting.Load() > 0 {
		return errYielded
	}
	wait := p.limit.ReserveN(p.opt.Now(), n).DelayFrom(p.opt.Now())
	if wait == 0 {
		return nil
	}
	return p.opt.Sleep(ctx, wait)
}

// compare compares the measured bytes m with the row w and records the differences as findings: a
// wrong digest, a damage mark that is no longer true, wrong part sums. It then queues the read time
// of the blob.
func (p *pass) compare(ctx context.Context, w fullBlobRow, m content.Measured) error {
	packed := content.PackParts(m.Parts)
	if hex.EncodeToString(m.Sum[:]) != w.sum {
		d, err := p.damage(ctx, w.blobRow, "B1", "blake3 "+w.sum, describeParts(w, packed))
		if err == nil {
			err = p.found(ctx, *d)
		}
		return errors.Join(err, p.scrubbed.add(ctx, p, w.blobRow))
	}
	if w.damaged != 0 {
		if err := p.found(ctx, w.unmarkDefect()); err != nil {
			return err
		}
	}
	// Rows of empty contents have either one empty part or none.
	if w.crc != m.CRC32 || w.size > 0 && !bytes.Equal(w.parts, packed) {
		if err := p.found(ctx, w.partSumsDefect(packed, m.CRC32)); err != nil {
			return err
		}
	}
	return p.scrubbed.add(ctx, p, w.blobRow)
}

// describeParts says for a finding which parts of a damaged content differ from the row, 20 at
// most.
func describeParts(w fullBlobRow, packed []byte) string {
	if len(packed) != len(w.parts) || len(packed) == 0 {
		return "other bytes"
	}
	const most = 20
	size := len(content.PackParts(make([]content.PartSum, 1)))
	var parts []string
	for i := 0; i*size < len(packed) && len(parts) < most; i++ {
		if !bytes.Equal(packed[i*size:][:size], w.parts[i*size:][:size]) {
			parts = append(parts, strconv.Itoa(i))
		}
	}
	return fmt.Sprintf("other bytes in part %s of %d", strings.Join(parts, ", "), len(packed)/size)
}

// unmarkDefect returns the defect of a content with correct bytes that is marked as damaged. Its
// repair removes the mark.
func (w fullBlobRow) unmarkDefect() defect {
	f := Finding{Invariant: "B1", Subject: "blob " + w.id.String(), Expected: "no mark on sound bytes", Found: "marked as damaged"}
	return defect{Finding: f, fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
		n, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = 0 WHERE id = ? AND file = ? AND damaged_at = ?`, w.id, w.file, w.damaged)
		f.Repaired = true
		return n == 1, err
	}}
}

// partSumsDefect returns the defect of a content whose digest is correct and whose part checksums
// are not. Its repair stores packed and crc.
func (w fullBlobRow) partSumsDefect(packed []byte, crc uint32) defect {
	f := Finding{Invariant: "B1", Subject: "blob " + w.id.String(), Expected: "the sums of its parts", Found: "others"}
	return defect{Finding: f, fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
		n, err := tx.Exec(ctx, `UPDATE blobs SET parts = ?, crc32 = ? WHERE id = ? AND file = ? AND digest = ?`, packed, crc, w.id, w.file, w.sum)
		f.Repaired = true
		return n == 1, err
	}}
}

// Read times are stored in batches, because a write per small blob would cost more than reading it.
// Blobs whose read time was not stored are read again.
const (
	maxScrubBatch = 100 // blobs
	maxScrubBytes = 64 * drive.MiB
)

// markedInterval is the time between two scrubs of a blob that is marked as damaged: its disk may
// be readable again after a repair.
const markedInterval = 24 * time.Hour

// scrubBatch are blobs that were read but whose read time is not stored.
type scrubBatch struct {
	blobs []blobRow // read, with the time not stored yet
	bytes drive.ByteSize
}

// add queues a blob whose read time is to be stored. A full batch is flushed, with its error. The
// caller must flush at the end.
func (u *scrubBatch) add(ctx context.Context, p *pass, b blobRow) error {
	u.blobs, u.bytes = append(u.blobs, b), u.bytes+b.size
	if len(u.blobs) < maxScrubBatch && u.bytes < maxScrubBytes {
		return nil
	}
	return u.flush(ctx, p)
}

// flush stores the read times and empties the batch, also on an error. The read time of a marked
// blob is stored as an earlier one, so that the scrub reads it again after markedInterval. A blob
// that has moved to another file is skipped.
func (u *scrubBatch) flush(ctx context.Context, p *pass) error {
	read := u.blobs
	*u = scrubBatch{}
	if len(read) == 0 {
		return nil
	}
	args := []any{p.now(), p.now().Add(-max(0, p.opt.Scrub-markedInterval))}
	for _, b := range read {
		args = append(args, b.id)
	}
	for _, b := range read {
		args = append(args, b.file)
	}
	marks := sqldb.Placeholders(len(read))
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET scrubbed_at = CASE WHEN damaged_at = 0 THEN ? ELSE ? END WHERE id IN (`+marks+`) AND file IN (`+marks+`)`, args...)
		return err
	})
}
