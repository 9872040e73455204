package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/export/zipline"
)

// errName is the base name of the list of failures beside the directory of the documents; for part
// 2 of 3 the file is err-2of3.txt.
const errName = "err"

// listPiece is the number of bytes of the frozen list per row.
const listPiece = 256 << 10

// seal stores the frozen list of the zip, which determines every byte of the zip, and makes the
// batch sealed in a final transaction. That transaction verifies that each entry has arrived or
// failed (X2), writes the event, and inserts the job for the bucket if the schedule asks for it.
// Rows written before it are valid only under this epoch. It returns errFenced if the worker has
// lost the batch.
func (c *collector) seal(ctx context.Context, b *batch) error {
	end, err := acquireTurn(ctx, c.lists.turns, b.Account)
	if err != nil {
		return err
	}
	defer end()
	a, err := b.storedRequest()
	if err != nil {
		return err
	}
	entries, err := c.zipEntries(ctx, b, a.Index, nil)
	if err != nil {
		return err
	}
	archive, err := zipline.Layout(entries)
	if err != nil {
		return fmt.Errorf("lay out the zip of batch %s: %w", b.ID, err)
	}
	if err := c.writeFrozen(ctx, b, zipline.Encode(entries)); err != nil {
		return err
	}
	c.testHook("sealing")
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	done := *b
	done.Size, done.ETag, done.Expires = archive.Size(), archive.ETag(), now.Add(c.opt.Lifetime)
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if a.Mark != nil { // lock order: ledger before batch
			if err := c.opt.Ledger.Lock(ctx, tx, b.Account); err != nil {
				return err
			}
		}
		err := b.update(ctx, tx, `state = 'sealed', size = ?, etag = ?, list_epoch = epoch, ended_at = ?, expires_at = ?, error = '', due_at = ?,
			yield_at = 0`, done.Size, done.ETag, now, done.Expires, c.endingAt(done.Expires))
		if err == nil {
			err = c.checkCounts(ctx, tx, b)
		}
		if err == nil && a.Mark != nil {
			err = b.advanceMark(ctx, tx, *a.Mark)
		}
		if err == nil && a.Bucket {
			err = c.publisher.addJobForSealed(ctx, tx, b, archive.Size(), now)
		}
		if err != nil {
			return err
		}
		return c.publish(ctx, tx, stream.ExportSealed, done)
	})
	if err != nil {
		return fmt.Errorf("seal batch %s: %w", b.ID, err)
	}
	c.counters.Sealed.Add(1)
	c.testHook("sealed")
	return nil
}

// checkCounts returns an error if the counts of a batch do not match its rows (X1, X2): the batch
// must not be sealed. It reads within tx.
func (c *collector) checkCounts(ctx context.Context, tx *sqldb.Tx, b *batch) error {
	var total, collected, failed, pins, errs int64
	err := tx.QueryRow(ctx, `SELECT total, collected, failed, (SELECT COUNT(*) FROM export_pins WHERE export_id = exports.id),
		(SELECT COUNT(*) FROM export_errors WHERE export_id = exports.id) FROM exports WHERE id = ?`, b.ID).
		Scan(&total, &collected, &failed, &pins, &errs)
	if err == nil && (collected != pins || failed != errs || pins+errs != total) {
		err = fmt.Errorf("of %d entries %d have arrived and %d failed, by their rows %d and %d", total, collected, failed, pins, errs)
	}
	return err
}

// sealRow is an entry with its outcome, as read for sealing.
type sealRow struct {
	n      int64
	name   string
	pinned bool         // the entry has arrived
	blob   drive.BlobID // content of an arrived entry; zero: a folder
	size   drive.ByteSize
	crc32  uint32
	mtime  drive.Time
	doc    string
	path   string
	reason string
	detail string
}

// zipBuilder builds the entries of a batch's zip.
type zipBuilder struct {
	entries []zipline.Entry
	wanted  []string // desired names of entries
	report  bytes.Buffer
	indexed bool
	lines   []indexLine // lines of the index
}

// zipEntries returns the entries of the zip: the arrived ones in list order in a directory named
// after the batch, then err.txt and the index if needed. An entry without an outcome is an error.
// If soFar is not nil, such an entry is reported as pending in err.txt instead, and soFar is called
// with the memory that each page needs.
func (c *core) zipEntries(ctx context.Context, b *batch, indexed bool, soFar func(drive.ByteSize) error) ([]zipline.Entry, error) {
	s := zipBuilder{indexed: indexed}
	after := int64(0)
	for {
		page, err := c.sealPage(ctx, b, after)
		if err != nil {
			return nil, err
		}
		if soFar != nil {
			if err := soFar(memoryOfRows(page, b.Name)); err != nil {
				return nil, err
			}
		}
		for _, r := range page {
			after = r.n
			if soFar != nil && !r.pinned && r.reason == "" {
				r.reason = string(Pending)
			}
			if r.pinned == (r.reason != "") {
				return nil, fmt.Errorf("batch %s: entry %d is not dealt with, or twice", b.ID, r.n)
			}
			s.add(r, b.Name)
		}
		if len(page) < sealRows {
			break
		}
	}
	return s.finish(b.part, b.Begun)
}

// add appends the entry of row r in the directory in of the zip; "" is the top. An entry that has
// not arrived becomes a line of the report instead, one without content a folder.
func (b *zipBuilder) add(r sealRow, in string) {
	at := len(b.entries)
	name := strings.TrimRight(in+"/"+r.name, "/") // a file name does not end with "/"
	switch {
	case !r.pinned:
		at = -1
		writeError(&b.report, r)
	case r.blob.IsZero():
		b.wanted = append(b.wanted, name+"/")
		b.entries = append(b.entries, zipline.Folder("", r.mtime))
	default:
		b.wanted = append(b.wanted, name)
		b.entries = append(b.entries, zipline.Entry{Size: r.size, CRC32: r.crc32, Time: r.mtime, Blob: r.blob.String()})
	}
	if b.indexed {
		b.lines = append(b.lines, indexLine{r, at})
	}
}

// nameEntries sets unique, safe names for the entries, and appends err.txt with the modification
// time when if report is not empty.
func (p part) nameEntries(entries []zipline.Entry, wanted []string, report []byte, when drive.Time) []zipline.Entry {
	if len(report) > 0 {
		wanted = append(wanted, errName+p.suffix()+".txt")
		entries = append(entries, zipline.Text("", when, append([]byte(errHeader), report...)))
	}
	for i, name := range zipline.SafeNames(wanted) {
		entries[i].Name = name
	}
	return entries
}

// errHeader is the start of err.txt: a byte order mark for editors, and the column names.
const errHeader = "\ufeffid\tpath\treason\r\n"

// writeError appends the line of err.txt for an entry to to: id, path and reason, separated by
// tabs.
func writeError(to *bytes.Buffer, r sealRow) {
	reason := r.reason
	if r.detail != "" {
		reason += " (" + r.detail + ")"
	}
	fmt.Fprintf(to, "%s\t%s\t%s\r\n", r.doc, r.path, reason)
}

// sealRows is the number of entries read per statement.
const sealRows = 1000

// sealPage returns up to sealRows entries of the list of b with numbers above after, in order, with
// their outcomes. Fewer than sealRows are the last page.
func (c *core) sealPage(ctx context.Context, b *batch, after int64) ([]sealRow, error) {
	rows, err := c.opt.DB.Query(ctx, `SELECT w.n, w.name, p.n IS NOT NULL, NULLIF(p.blob_id, ''), COALESCE(p.size, 0), COALESCE(p.crc32, 0), COALESCE(p.mtime, 0), w.doc, w.path,
		COALESCE(x.reason, ''), COALESCE(x.detail, '') FROM export_wants w LEFT JOIN export_pins p ON p.export_id = w.export_id AND p.n = w.n
		LEFT JOIN export_errors x ON x.export_id = w.export_id AND x.n = w.n WHERE w.export_id = ? AND w.n > ? ORDER BY w.n LIMIT ?`,
		b.ID, after, sealRows)
	page, err := sqldb.Scan(rows, err, func(r *sealRow, scan func(...any) error) error {
		return scan(&r.n, &r.name, &r.pinned, &r.blob, &r.size, &r.crc32, &r.mtime, &r.doc, &r.path, &r.reason, &r.detail)
	})
	if err != nil {
		return nil, fmt.Errorf("read the entries of batch %s: %w", b.ID, err)
	}
	return page, nil
}

// writeFrozen stores the encoded list in rows under the epoch of this worker, and renews the lease
// with each. The list becomes valid only when the batch is sealed with this epoch. It returns
// errFenced if the worker has lost the batch.
func (c *collector) writeFrozen(ctx context.Context, b *batch, frozen []byte) error {
	for n := 0; len(frozen) > 0; n++ {
		piece := frozen[:min(listPiece, len(frozen))]
		frozen = frozen[len(piece):]
		now, err := c.now(ctx)
		if err != nil {
			return err
		}
		err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.update(ctx, tx, "due_at = ?", now.Add(lease.TTL)); err != nil {
				return err
			}
			if n == 0 { // an earlier commit whose reply was lost
				if _, err := tx.Exec(ctx, "DELETE FROM export_lists WHERE export_id = ? AND epoch <= ?", b.ID, b.Epoch); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, "INSERT INTO export_lists (export_id, epoch, n, body) VALUES (?, ?, ?, ?)", b.ID, b.Epoch, n, piece)
			return err
		})
		if err != nil {
			return fmt.Errorf("keep the list of batch %s: %w", b.ID, err)
		}
		c.testHook("frozen")
	}
	return nil
}

// frozen reads and decodes the list that was stored when the batch was sealed. An invalid list is
// Internal.
func (s *sender) frozen(ctx context.Context, b batch) ([]zipline.Entry, error) {
	rows, err := s.opt.DB.Query(ctx, "SELECT body FROM export_lists WHERE export_id = ? AND epoch = ? ORDER BY n", b.ID, b.ListEpoch)
	pieces, err := sqldb.Scan(rows, err, func(p *[]byte, scan func(...any) error) error { return scan(p) })
	if err != nil {
		return nil, fmt.Errorf("read the list of batch %s: %w", b.ID, err)
	}
	entries, err := zipline.Decode(bytes.Join(pieces, nil))
	if err != nil {
		return nil, fmt.Errorf("read the list of batch %s: %w", b.ID, errors.Join(err, drive.Fail(drive.Internal)))
	}
	return entries, nil
}
