package export

import (
	"context"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Mode says what a supplement's zip holds.
type Mode string

// The modes.
const (
	Alone    Mode = "alone"    // what was supplied
	Complete Mode = "complete" // that, and what the batch before has
)

// More says what is supplied for a batch: for each of its failures either another source, by the
// failure's id or place, or the same source once more.
type More struct {
	Mode  Mode
	Items []Supplied
}

// Supplied replaces the source of a failure.
type Supplied struct {
	N    int64 // its place in the list of the batch
	Item Item  // its ID and Name count only where they are given
}

// Supplement asks for the next revision of a batch that was sealed: its failures are tried again,
// from where More says or from where they were. With Complete everything that the batch has is in
// the zip, too, taken over without being fetched again. A batch without failures has nothing to
// supplement: WrongState.
func (e *Exports) Supplement(ctx context.Context, who drive.Who, id drive.ExportID, more More, hook Hook) (View, error) {
	return e.orders.supplement(ctx, who, id, more, hook)
}

func (o *orders) supplement(ctx context.Context, who drive.Who, id drive.ExportID, more More, hook Hook) (View, error) {
	if more.Mode == "" {
		more.Mode = Alone
	}
	if more.Mode != Alone && more.Mode != Complete {
		return View{}, drive.Bad("mode", drive.NotAllowed, "allowed", []Mode{Alone, Complete}, "sent", string(more.Mode))
	}
	b, err := o.find(ctx, o.opt.DB, "WHERE id = ? AND account_id = ?", id, who.Account)
	if err != nil {
		return View{}, err
	}
	if b.State != Sealed || b.Failed == 0 {
		return View{}, drive.Fail(drive.WrongState, "state", string(b.State), "failed", b.Failed)
	}
	list, err := o.supplementList(ctx, b, more)
	if err != nil {
		return View{}, err
	}
	before, err := b.asked()
	if err != nil {
		return View{}, err
	}
	priority := min(b.Priority, MaxPriority)
	if !who.Admin { // what an administrator set was for that batch
		priority = min(priority, 0)
	}
	return o.make(ctx, draft{
		who: who, name: b.Name, origin: Supplement, list: list, priority: priority, parent: &b, hook: hook,
		asked: asked{Request: Request{Index: before.Index}, Supplement: &b.ID, Mode: more.Mode, Entries: len(more.Items)},
	})
}

// listed is an entry of the batch that is supplemented.
type listed struct {
	w      want
	failed int
}

func (o *orders) supplementList(ctx context.Context, b batch, more More) (list []want, err error) {
	given := map[int64]Item{}
	for _, s := range more.Items {
		given[s.N] = s.Item
	}
	documents, err := o.ofDocuments(ctx, b)
	if err != nil {
		return nil, err
	}
	w := walk{orders: o, account: b.Account}
	for after := int64(0); ; {
		rows, err := o.opt.DB.Query(ctx, `SELECT n, doc, node_id, url, path, name, mtime,
			EXISTS (SELECT 1 FROM export_errors x WHERE x.export_id = w.export_id AND x.n = w.n)
			FROM export_wants w WHERE export_id = ? AND n > ? ORDER BY n LIMIT ?`, b.ID, after, sealRows)
		page, err := sqldb.Scan(rows, err, func(l *listed, scan func(...any) error) error {
			return scan(&l.w.N, &l.w.Doc, &l.w.Node, &l.w.URL, &l.w.Path, &l.w.Name, &l.w.MTime, &l.failed)
		})
		if err != nil {
			return nil, fmt.Errorf("read the list of batch %s: %w", b.ID, err)
		}
		if documents {
			if err := o.late(ctx, b, page); err != nil {
				return nil, err
			}
		}
		for _, l := range page {
			after = l.w.N
			if err := w.supplement(b, more.Mode, l, given); err != nil {
				return nil, err
			}
		}
		if len(page) < sealRows {
			break
		}
	}
	for n := range given {
		return nil, drive.Bad("items", drive.NotAllowed, "allowed", []string{"failures of the batch"}, "sent", n)
	}
	return w.list, nil
}

// supplement adds an entry of the batch before, if it belongs into the next one.
func (w *walk) supplement(b batch, mode Mode, l listed, given map[int64]Item) error {
	next := l.w
	if l.failed == 0 {
		if mode == Alone {
			return nil
		}
		next.From, next.FromN = b.ID, l.w.N
		return w.add(next)
	}
	if it, ok := given[l.w.N]; ok {
		delete(given, l.w.N)
		var err error
		if it.ID == "" {
			it.ID = l.w.Doc
		}
		if it.Name == "" {
			it.Name = strings.TrimSuffix(l.w.Name, "/") // of a folder that is gone
		}
		if next, err = it.want(); err != nil {
			return err
		}
	}
	return w.add(next)
}
