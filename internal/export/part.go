package export

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/export/zipline"
)

// A list that is too long for one zip becomes a **set** of batches, its parts. One transaction
// creates all of them. Their directories have the same name and their paths are distinct, so that
// all parts can be unpacked to one place.

// maxParts limits the batches of one request: 100,000 entries in batches of 10,000.
const maxParts = 10

// part is the position of a batch in its set, the batches that one request was split into. A batch
// without a set is part 1 of 1.
type part struct {
	Set   drive.ExportID // id of the first part
	Part  int64
	Parts int64
}

// suffix returns the file name suffix of a part, such as "-2of3"; empty for a batch without a set.
func (p part) suffix() string {
	if p.Parts <= 1 {
		return ""
	}
	return fmt.Sprintf("-%dof%d", p.Part, p.Parts)
}

// split splits a list into the lists of zips, by number of entries, bytes of names, and current
// size of files. A file larger than Options.MaxSize gets its own zip. It sets the names of unnamed
// entries, and with several zips makes all names unique, in place. It returns TooLarge if the size
// requires more than maxParts zips.
func (l *listStore) split(list []listEntry) (pieces [][]listEntry, err error) {
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
		makeUnique(list)
	}
	return pieces, nil
}

// makeUnique replaces the names of the entries, in place, by safe names that are unique within
// list.
func makeUnique(list []listEntry) {
	wanted := make([]string, len(list))
	for i, w := range list {
		wanted[i] = w.Name
	}
	for i, name := range zipline.SafeNames(wanted) {
		list[i].Name = name
	}
}

// insertPart inserts the batch's row of export_parts within tx. It does nothing if the batch is the
// only one of its request.
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

// discardAll calls discard for each batch of a set whose insert failed with cause, and returns
// cause.
func (l *listStore) discardAll(ctx context.Context, set []batch, cause error) error {
	for _, b := range set {
		cause = l.discard(ctx, b.ID, cause)
	}
	return cause
}
