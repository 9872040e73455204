package export

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/export/zipline"
)

// A list that is too long for one zip becomes a **set** of batches, its parts: all of them are made
// by one transaction, or none. Their documents lie in directories of the same name, and no two of
// them have the same path there, so that all can be unpacked at one place.

// maxParts bounds what one request makes: 100,000 entries of batches of 10,000.
const maxParts = 10

// part says which one of a set a batch is. One that is alone is the first of one.
type part struct {
	Set   drive.ExportID // the first of them
	Part  int64
	Parts int64
}

// suffix tells the files of parts apart.
func (p part) suffix() string {
	if p.Parts <= 1 {
		return ""
	}
	return fmt.Sprintf("-%dof%d", p.Part, p.Parts)
}

// split cuts a list into those of zips, by their entries, the bytes of their names, and the sizes
// that their files have now. A file that is larger than MaxSize has a zip to itself. A list that
// takes more than maxParts because of its size is TooLarge.
func (l *lists) split(list []want) (pieces [][]want, err error) {
	for i := range list {
		if list[i].Name == "" {
			list[i].Name = fmt.Sprintf("document-%05d", i+1)
		}
	}
	begin, names, size, total := 0, int64(0), drive.ByteSize(0), drive.ByteSize(0)
	for i := range list {
		n, bytes := int64(len(list[i].Name)), list[i].size
		if i-begin == l.opt.MaxEntries || i > begin && (names+n > maxListNames || bytes > l.opt.MaxSize-size) {
			pieces, begin, names, size = append(pieces, list[begin:i]), i, 0, 0
		}
		names, size, total = names+n, size+bytes, total+bytes
	}
	pieces = append(pieces, list[begin:])
	if limit := maxParts * l.opt.MaxSize; len(pieces) > maxParts && total > l.opt.MaxSize {
		return nil, drive.Fail(drive.TooLarge, "reason", "size", "limit", int64(limit), "sent", int64(total))
	}
	if len(pieces) > 1 {
		tellApart(list)
	}
	return pieces, nil
}

// tellApart gives the entries names that no two of them share.
func tellApart(list []want) {
	wanted := make([]string, len(list))
	for i, w := range list {
		wanted[i] = w.Name
	}
	for i, name := range zipline.SafeNames(wanted) {
		list[i].Name = name
	}
}

// insertPart writes down which part a batch is, if it is not alone.
func (b *batch) insertPart(ctx context.Context, tx *sqldb.Tx) error {
	if b.Parts == 1 {
		return nil
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_parts (export_id, set_id, part, parts) VALUES (?, ?, ?, ?)", b.ID, b.Set, b.Part, b.Parts)
	if err != nil {
		return fmt.Errorf("insert part %d of set %s: %w", b.Part, b.Set, err)
	}
	return nil
}

// forgetAll is forget for a set.
func (l *lists) forgetAll(ctx context.Context, set []batch, cause error) error {
	for _, b := range set {
		cause = l.forget(ctx, b.ID, cause)
	}
	return cause
}
