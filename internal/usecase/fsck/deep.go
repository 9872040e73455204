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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/sqldb"
)

// checkDeep reads every blob and compares it with its digest.
func (p *pass) checkDeep(ctx context.Context) error {
	err := each(ctx, p, selectStored+`WHERE id > ? ORDER BY id LIMIT ?`, pageSize, scanStored, func(b stored) any { return b.id },
		func(b stored) error { return p.reread(ctx, b.id) })
	return errors.Join(err, p.unnoted.note(ctx, p))
}

// scrub reads the blobs that were not read for too long, the oldest first: its place is in the
// rows, so a restart loses nothing.
func (p *pass) scrub(ctx context.Context) error {
	for {
		rows, err := p.DB.Query(ctx, `SELECT id FROM blobs WHERE scrubbed_at < ? ORDER BY scrubbed_at LIMIT ?`, p.now().Add(-p.opt.Scrub), pageSize)
		due, err := sqldb.Scan(rows, err, func(id *drive.BlobID, scan func(...any) error) error { return scan(id) })
		if err != nil || len(due) == 0 {
			return err
		}
		for _, id := range due {
			if err := p.reread(ctx, id); err != nil {
				return errors.Join(err, p.unnoted.note(ctx, p))
			}
		}
		if err := p.unnoted.note(ctx, p); err != nil { // else the next page is this one
			return err
		}
	}
}

// whole is what the row of a blob says of its bytes.
type whole struct {
	stored
	sum      string
	partSize drive.ByteSize
	crc      uint32
	parts    []byte
}

// reread compares one blob with its digest. When that was is noted soon.
func (p *pass) reread(ctx context.Context, id drive.BlobID) error {
	if err := p.rest(ctx); err != nil {
		return err
	}
	var w whole
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
	case errors.Is(err, errAside), ctx.Err() != nil:
		return err
	case drive.IsKind(err, drive.NotFound), errors.Is(err, io.ErrUnexpectedEOF):
		if err = p.suspect(ctx, func(ctx context.Context) (*defect, error) { return p.lookBlob(ctx, id) }); err != nil {
			return err // it was not scrubbed
		}
	case content.Unreadable(err):
		if away := p.home(ctx); away != nil {
			return away // the disk as a whole
		}
		err = unreadable(ctx, p, w.stored, err, true)
	default: // such as a store that does not answer: the next scrub sees whether it stays
		err = unreadable(ctx, p, w.stored, err, false)
	}
	return errors.Join(err, p.unnoted.add(ctx, p, w.stored))
}

// unreadable reports a blob whose bytes cannot be read, and marks it if the disk has said so of the
// bytes themselves.
func unreadable(ctx context.Context, p *pass, b stored, cause error, mark bool) error {
	p.opt.Log.ErrorContext(ctx, "a blob cannot be read", "blob", b.id, "error", cause)
	d, err := p.damage(ctx, b, "B1", "readable bytes", "an error of reading")
	if err != nil {
		return err
	}
	if !mark {
		d.fixTx = nil
	}
	return p.found(ctx, *d)
}

// hash computes what the bytes of a blob say.
func (p *pass) hash(ctx context.Context, w whole) (m content.Measured, err error) {
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

type readerAt func(b []byte, off int64) (int, error)

func (f readerAt) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

// meter counts what is read; in the background it also waits for its turn, and steps aside.
func (p *pass) meter(ctx context.Context, n int) error {
	p.report.Checked.Read += drive.ByteSize(n)
	p.Counters.Scrubbed.Add(int64(n))
	if !p.background {
		return nil
	}
	if p.waiting.Load() > 0 {
		return errAside
	}
	wait := p.limit.ReserveN(p.opt.Now(), n).DelayFrom(p.opt.Now())
	if wait == 0 {
		return nil
	}
	return p.opt.Sleep(ctx, wait)
}

// compare judges the bytes of a blob.
func (p *pass) compare(ctx context.Context, w whole, m content.Measured) error {
	packed := content.PackParts(m.Parts)
	if hex.EncodeToString(m.Sum[:]) != w.sum {
		d, err := p.damage(ctx, w.stored, "B1", "blake3 "+w.sum, changed(w, packed))
		if err == nil {
			err = p.found(ctx, *d)
		}
		return errors.Join(err, p.unnoted.add(ctx, p, w.stored))
	}
	if w.damaged != 0 {
		if err := p.found(ctx, w.sound()); err != nil {
			return err
		}
	}
	// Of empty content some rows have one empty part and some have none.
	if w.crc != m.CRC32 || w.size > 0 && !bytes.Equal(w.parts, packed) {
		if err := p.found(ctx, w.partSums(packed, m.CRC32)); err != nil {
			return err
		}
	}
	return p.unnoted.add(ctx, p, w.stored)
}

// changed says which parts of damaged content are not what they were.
func changed(w whole, packed []byte) string {
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

// sound takes the mark off content whose bytes are right after all: they were put back.
func (w whole) sound() defect {
	f := Finding{Invariant: "B1", Subject: "blob " + w.id.String(), Expected: "no mark on sound bytes", Found: "marked as damaged"}
	return defect{Finding: f, fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
		n, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = 0 WHERE id = ? AND file = ? AND damaged_at = ?`, w.id, w.file, w.damaged)
		f.Repaired = true
		return n == 1, err
	}}
}

// partSums rewrites what is kept of the parts from bytes whose digest is right.
func (w whole) partSums(packed []byte, crc uint32) defect {
	f := Finding{Invariant: "B1", Subject: "blob " + w.id.String(), Expected: "the sums of its parts", Found: "others"}
	return defect{Finding: f, fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
		n, err := tx.Exec(ctx, `UPDATE blobs SET parts = ?, crc32 = ? WHERE id = ? AND file = ? AND digest = ?`, packed, crc, w.id, w.file, w.sum)
		f.Repaired = true
		return n == 1, err
	}}
}

// A note for each of many small blobs would cost more than to read them. What is not noted when a
// pass is cut off is read once more.
const (
	maxUnnoted      = 100 // blobs
	maxUnnotedBytes = 64 * drive.MiB
)

// unnoted are blobs that were read and are not noted yet.
type unnoted struct {
	blobs []stored
	bytes drive.ByteSize
}

// add has it noted, together with others, that a blob was read.
func (u *unnoted) add(ctx context.Context, p *pass, b stored) error {
	u.blobs, u.bytes = append(u.blobs, b), u.bytes+b.size
	if len(u.blobs) < maxUnnoted && u.bytes < maxUnnotedBytes {
		return nil
	}
	return u.note(ctx, p)
}

// note notes that blobs were read. Of one that lies in another file since then it says nothing.
func (u *unnoted) note(ctx context.Context, p *pass) error {
	read := u.blobs
	*u = unnoted{}
	if len(read) == 0 {
		return nil
	}
	args := []any{p.now()}
	for _, b := range read {
		args = append(args, b.id)
	}
	for _, b := range read {
		args = append(args, b.file)
	}
	marks := sqldb.Marks(len(read))
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET scrubbed_at = ? WHERE id IN (`+marks+`) AND file IN (`+marks+`)`, args...)
		return err
	})
}
