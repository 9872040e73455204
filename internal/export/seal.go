package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance/lease"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/export/zipline"
)

// errName is what the list of failures is called, beside the directory of the documents; that of
// part 2 of 3 is err-2of3.txt.
const errName = "err"

// listPiece is how many bytes of the frozen list one row has.
const listPiece = 256 << 10

// seal freezes the list of the zip and with it every byte of it. What it writes before its last
// transaction counts only under this epoch; that transaction checks once more that every entry is
// accounted for (X2).
func (c *collector) seal(ctx context.Context, b *batch) error {
	end, err := enter(ctx, c.lists.making, b.Account)
	if err != nil {
		return err
	}
	defer end()
	a, err := b.asked()
	if err != nil {
		return err
	}
	entries, err := c.entries(ctx, b, a.Index, nil)
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
	c.halt("sealing")
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	done := *b
	done.Size, done.ETag, done.Expires = archive.Size(), archive.ETag(), now.Add(c.opt.Life)
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if a.Mark != nil { // the ledger comes before the batch
			if err := c.opt.Ledger.Lock(ctx, tx, b.Account); err != nil {
				return err
			}
		}
		err := b.update(ctx, tx, `state = 'sealed', size = ?, etag = ?, list_epoch = epoch, ended_at = ?, expires_at = ?, error = '', due_at = ?,
			yield_at = 0`, done.Size, done.ETag, now, done.Expires, c.endingAt(done.Expires))
		if err == nil {
			err = c.account(ctx, tx, b)
		}
		if err == nil && a.Mark != nil {
			err = b.reach(ctx, tx, *a.Mark)
		}
		if err == nil && a.Bucket {
			err = c.publisher.sendSealed(ctx, tx, b, archive.Size(), now)
		}
		if err != nil {
			return err
		}
		return c.tell(ctx, tx, stream.ExportSealed, done)
	})
	if err != nil {
		return fmt.Errorf("seal batch %s: %w", b.ID, err)
	}
	c.counters.Sealed.Add(1)
	c.halt("sealed")
	return nil
}

// account compares the counts of a batch with its rows.
func (c *collector) account(ctx context.Context, tx *sqldb.Tx, b *batch) error {
	var total, collected, failed, pins, errs int64
	err := tx.QueryRow(ctx, `SELECT total, collected, failed, (SELECT COUNT(*) FROM export_pins WHERE export_id = exports.id),
		(SELECT COUNT(*) FROM export_errors WHERE export_id = exports.id) FROM exports WHERE id = ?`, b.ID).
		Scan(&total, &collected, &failed, &pins, &errs)
	if err == nil && (collected != pins || failed != errs || pins+errs != total) {
		err = fmt.Errorf("of %d entries %d have arrived and %d failed, by their rows %d and %d", total, collected, failed, pins, errs)
	}
	return err
}

// sealRow is an entry as seal needs it.
type sealRow struct {
	n      int64
	name   string
	pinned bool         // it has arrived
	blob   drive.BlobID // of one that has arrived; zero: it is a folder
	size   drive.ByteSize
	crc32  uint32
	mtime  drive.Time
	doc    string
	path   string
	reason string
	detail string
}

// sealing is the list of a zip while it is made.
type sealing struct {
	entries []zipline.Entry
	wanted  []string // their names
	report  bytes.Buffer
	indexed bool
	lines   []line // of the index
}

// entries are those of the zip: what has arrived, in the order of the list, in a directory of the
// batch's name, and beside it a list of what has failed, and an index if one was asked for. What is
// not dealt with yet is an error; or, in a zip so far, which takes its memory as it is read, it has
// failed as pending.
func (g *ground) entries(ctx context.Context, b *batch, indexed bool, soFar func(drive.ByteSize) error) ([]zipline.Entry, error) {
	s := sealing{indexed: indexed}
	after := int64(0)
	for {
		page, err := g.sealPage(ctx, b, after)
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

func (s *sealing) add(r sealRow, in string) {
	at := len(s.entries)
	name := strings.TrimRight(in+"/"+r.name, "/") // that of a file does not end with "/"
	switch {
	case !r.pinned:
		at = -1
		writeError(&s.report, r)
	case r.blob.IsZero():
		s.wanted = append(s.wanted, name+"/")
		s.entries = append(s.entries, zipline.Folder("", r.mtime))
	default:
		s.wanted = append(s.wanted, name)
		s.entries = append(s.entries, zipline.Entry{Size: r.size, CRC32: r.crc32, Time: r.mtime, Blob: r.blob.String()})
	}
	if s.indexed {
		s.lines = append(s.lines, line{r, at})
	}
}

// named gives the entries the names that they can have, and adds the list of failures where there
// are some.
func (p part) named(entries []zipline.Entry, wanted []string, report []byte, when drive.Time) []zipline.Entry {
	if len(report) > 0 {
		wanted = append(wanted, errName+p.suffix()+".txt")
		entries = append(entries, zipline.Text("", when, append([]byte(errHead), report...)))
	}
	for i, name := range zipline.SafeNames(wanted) {
		entries[i].Name = name
	}
	return entries
}

// errHead begins err.txt: a mark by which editors know UTF-8, and what the columns are.
const errHead = "\ufeffid\tpath\treason\r\n"

func writeError(to *bytes.Buffer, r sealRow) {
	reason := r.reason
	if r.detail != "" {
		reason += " (" + r.detail + ")"
	}
	fmt.Fprintf(to, "%s\t%s\t%s\r\n", r.doc, r.path, reason)
}

const sealRows = 1000

func (g *ground) sealPage(ctx context.Context, b *batch, after int64) ([]sealRow, error) {
	rows, err := g.opt.DB.Query(ctx, `SELECT w.n, w.name, p.n IS NOT NULL, NULLIF(p.blob_id, ''), COALESCE(p.size, 0), COALESCE(p.crc32, 0), COALESCE(p.mtime, 0), w.doc, w.path,
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

// writeFrozen keeps the frozen list under this epoch.
func (c *collector) writeFrozen(ctx context.Context, b *batch, frozen []byte) error {
	for n := 0; len(frozen) > 0; n++ {
		piece := frozen[:min(listPiece, len(frozen))]
		frozen = frozen[len(piece):]
		now, err := c.now(ctx)
		if err != nil {
			return err
		}
		err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.update(ctx, tx, "due_at = ?", now.Add(lease.Length)); err != nil {
				return err
			}
			if n == 0 { // what a commit whose reply was lost has left
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
		c.halt("frozen")
	}
	return nil
}

// frozen reads the list of a sealed batch.
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
