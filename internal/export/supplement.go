package export

import (
	"context"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Mode selects the content of a supplement's zip.
type Mode string

// Modes of a supplement.
const (
	OnlyMissing  Mode = "alone"    // only the entries that were missing
	WithPrevious Mode = "complete" // also the entries of the previous batch
)

// SupplementRequest describes a supplement. Items replace the sources of failed entries; all other
// failed entries are tried again with the same source.
type SupplementRequest struct {
	Mode  Mode
	Items []ReplacedSource
}

// ReplacedSource replaces the source of a failed entry.
type ReplacedSource struct {
	N    int64 // entry number in the previous batch
	Item Item  // empty ID and Name keep the previous values
}

// Supplement creates the next revision of a sealed batch, which collects its failed entries again:
// with the sources in more.Items, or else the previous ones. With WithPrevious, the new zip also
// has all other entries of the previous batch, without fetching them again. It returns NotFound,
// WrongState for a batch that is not sealed or has no failures, and BadRequest for an unknown mode
// or an item that replaces no failure.
func (e *Exports) Supplement(ctx context.Context, who drive.Who, id drive.ExportID, more SupplementRequest, hook Hook) (View, error) {
	return e.creator.supplement(ctx, who, id, more, hook)
}

// supplement implements Exports.Supplement. An empty mode is OnlyMissing. Only an administrator's
// supplement inherits a priority above 0.
func (c *creator) supplement(ctx context.Context, who drive.Who, id drive.ExportID, more SupplementRequest, hook Hook) (View, error) {
	if more.Mode == "" {
		more.Mode = OnlyMissing
	}
	if more.Mode != OnlyMissing && more.Mode != WithPrevious {
		return View{}, drive.BadField("mode", drive.NotAllowed, "allowed", []Mode{OnlyMissing, WithPrevious}, "sent", string(more.Mode))
	}
	b, err := c.find(ctx, c.opt.DB, "WHERE id = ? AND account_id = ?", id, who.Account)
	if err != nil {
		return View{}, err
	}
	if b.State != Sealed || b.Failed == 0 {
		return View{}, drive.Fail(drive.WrongState, "state", string(b.State), "failed", b.Failed)
	}
	list, err := c.supplementList(ctx, b, more)
	if err != nil {
		return View{}, err
	}
	before, err := b.storedRequest()
	if err != nil {
		return View{}, err
	}
	priority := min(b.Priority, MaxPriority)
	if !who.Admin { // a raised priority is not inherited
		priority = min(priority, 0)
	}
	return c.createSet(ctx, draft{
		who: who, name: b.Name, origin: Supplement, list: list, priority: priority, parent: &b, hook: hook,
		request: storedRequest{Request: Request{Index: before.Index}, Supplement: &b.ID, Mode: more.Mode, Entries: len(more.Items)},
	})
}

// previousEntry is an entry of the previous batch. failed is 1 if the entry failed.
type previousEntry struct {
	w      listEntry
	failed int
}

// supplementList builds the list of the supplement of b from the list of b and the replacements in
// more. It returns BadRequest if an item replaces an entry that has not failed.
func (c *creator) supplementList(ctx context.Context, b batch, more SupplementRequest) (list []listEntry, err error) {
	given := map[int64]Item{}
	for _, s := range more.Items {
		given[s.N] = s.Item
	}
	documents, err := c.isOfDocuments(ctx, b)
	if err != nil {
		return nil, err
	}
	w := listBuilder{creator: c, account: b.Account}
	for after := int64(0); ; {
		rows, err := c.opt.DB.Query(ctx, `SELECT n, doc, node_id, url, path, name, mtime,
			EXISTS (SELECT 1 FROM export_errors x WHERE x.export_id = w.export_id AND x.n = w.n)
			FROM export_wants w WHERE export_id = ? AND n > ? ORDER BY n LIMIT ?`, b.ID, after, sealRows)
		page, err := sqldb.Scan(rows, err, func(l *previousEntry, scan func(...any) error) error {
			return scan(&l.w.N, &l.w.Doc, &l.w.Node, &l.w.URL, &l.w.Path, &l.w.Name, &l.w.MTime, &l.failed)
		})
		if err != nil {
			return nil, fmt.Errorf("read the list of batch %s: %w", b.ID, err)
		}
		if documents {
			if err := c.fillLatePDFs(ctx, b, page); err != nil {
				return nil, err
			}
		}
		for _, l := range page {
			after = l.w.N
			if err := w.addPrevious(b, more.Mode, l, given); err != nil {
				return nil, err
			}
		}
		if len(page) < sealRows {
			break
		}
	}
	for n := range given {
		return nil, drive.BadField("items", drive.NotAllowed, "allowed", []string{"failures of the batch"}, "sent", n)
	}
	return w.list, nil
}

// addPrevious adds an entry of the previous batch to the list: a failed one with the replacement in
// given, which it removes from there, or the same source; another one only unless mode is
// OnlyMissing.
func (lb *listBuilder) addPrevious(b batch, mode Mode, l previousEntry, given map[int64]Item) error {
	next := l.w
	if l.failed == 0 {
		if mode == OnlyMissing {
			return nil
		}
		next.From, next.FromN = b.ID, l.w.N
		return lb.add(next)
	}
	if it, ok := given[l.w.N]; ok {
		delete(given, l.w.N)
		var err error
		if it.ID == "" {
			it.ID = l.w.Doc
		}
		if it.Name == "" {
			it.Name = strings.TrimSuffix(l.w.Name, "/") // the entry may have been a folder
		}
		if next, err = it.listEntry(); err != nil {
			return err
		}
	}
	return lb.add(next)
}
