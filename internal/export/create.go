package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Request says what a zip shall hold: exactly one of Nodes, Folder and Manifest.
type Request struct {
	Name     string         `json:"name,omitempty"`
	Nodes    []drive.NodeID `json:"nodes,omitempty"`
	Folder   drive.NodeID   `json:"folder,omitzero"`
	Filter   Filter         `json:"filter,omitzero"` // of what lies below Folder and below folders of Nodes
	Manifest []Item         `json:"-"`
	Names    string         `json:"names,omitempty"` // a pattern of the paths in the zip, of what lies in folders; see naming
	Index    bool           `json:"index,omitempty"` // a list of all entries is in the zip, as CSV
	Priority int64          `json:"-"`               // MinPriority to MaxPriority; higher goes first
	Again    bool           `json:"-"`               // a folder's month is exported although there is an export of it
}

// asked is what is kept of a request for people to see.
type asked struct {
	Request
	Entries    int             `json:"entries,omitempty"` // of a manifest
	Supplement *drive.ExportID `json:"supplement,omitempty"`
	Mode       Mode            `json:"mode,omitempty"`
	Month      string          `json:"month,omitempty"`
	Bucket     bool            `json:"bucket,omitempty"` // the zip goes there when it is sealed
	Mark       *mark           `json:"mark,omitempty"`   // that is moved when it is sealed
}

func (b batch) asked() (a asked, err error) {
	if err := json.Unmarshal([]byte(b.Request), &a); err != nil {
		return asked{}, fmt.Errorf("read what was asked of batch %s: %w", b.ID, err)
	}
	return a, nil
}

// MinPriority and MaxPriority bound what may be said of a batch; above 0 it is an administrator's
// word.
const (
	MinPriority = -100
	MaxPriority = 10
)

func checkPriority(who drive.Who, priority int64) error {
	if priority < MinPriority || priority > MaxPriority {
		return drive.Bad("priority", drive.OutOfRange, "min", MinPriority, "max", MaxPriority, "sent", priority)
	}
	if priority > 0 && !who.Admin {
		return drive.Fail(drive.Forbidden, "scope", "admin")
	}
	return nil
}

// want is an entry of a list.
type want struct {
	N     int64
	Doc   string
	Node  drive.NodeID
	URL   string
	Path  string
	Name  string // in the zip; that of an empty folder ends with '/'
	MTime drive.Time
	From  drive.ExportID
	FromN int64

	size drive.ByteSize // of the file when the list is made; 0: it is not known
}

// isFolder reports whether the entry is a folder with nothing in it: it has no content.
func (w *want) isFolder() bool { return strings.HasSuffix(w.Name, "/") && !w.Node.IsZero() }

const wantColumns = "n, doc, node_id, url, path, name, mtime, from_id, from_n"

func scanWant(w *want, scan func(...any) error) error {
	return scan(&w.N, &w.Doc, &w.Node, &w.URL, &w.Path, &w.Name, &w.MTime, &w.From, &w.FromN)
}

// orders make batches of what is asked for.
type orders struct {
	*ground
	lists *lists
}

// Create asks for a zip, or for several where the list is too long for one; it returns the first.
// A request for a folder's month joins the export that was made for the same request before, unless
// that has ended or the request says Again.
// The list is frozen now; what the entries hold is looked up when they are collected. An empty one
// is BadRequest, one that is too long TooLarge, a priority above 0 of somebody who is no
// administrator Forbidden, and a batch more than an account may have TooManyOpen.
func (e *Exports) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (View, error) {
	return e.orders.create(ctx, who, in, hook)
}

func (o *orders) create(ctx context.Context, who drive.Who, in Request, hook Hook) (View, error) {
	if err := checkPriority(who, in.Priority); err != nil {
		return View{}, err
	}
	end, err := enter(ctx, o.lists.making, who.Account)
	if err != nil {
		return View{}, err
	}
	defer end()
	w, err := o.list(ctx, who, &in)
	if err != nil {
		return View{}, err
	}
	switch {
	case len(w.list) > 0:
	case in.Filter.SinceLast:
		return View{}, drive.Fail(drive.WrongState, "state", "unchanged")
	default:
		return View{}, drive.Fail(drive.WrongState, "state", "empty")
	}
	a := asked{Request: in, Entries: len(in.Manifest), Mark: w.end}
	d := draft{who: who, name: in.Name, origin: Manual, asked: a, list: w.list, priority: in.Priority, hook: hook}
	if !in.Again && !in.Folder.IsZero() && in.Filter.Month != "" {
		return o.join(ctx, d)
	}
	return o.make(ctx, d)
}

// draft is a batch that shall be made.
type draft struct {
	who      drive.Who
	name     string
	origin   Origin
	asked    asked
	list     []want
	priority int64
	slot     string // empty: its id
	parent   *batch // of a supplement
	hook     Hook
	// also runs in the transaction, before the row is there.
	also func(ctx context.Context, tx *sqldb.Tx) error
}

// make writes the lists and then the rows, all of them or none. A crash in between leaves lists
// that no batch has, which Purge drops. It returns the first of a set.
func (o *orders) make(ctx context.Context, d draft) (v View, err error) {
	name, err := drive.ParseName(d.name)
	if err != nil {
		return View{}, err
	}
	d.name = string(name)
	now, err := o.now(ctx)
	if err != nil {
		return View{}, err
	}
	pieces, err := o.lists.split(d.list)
	if err != nil {
		return View{}, err
	}
	set, err := d.batches(pieces, now)
	if err != nil {
		return View{}, err
	}
	for i, b := range set {
		if err = o.lists.charge(ctx, b, textOf(pieces[i])); err == nil {
			err = o.lists.write(ctx, b.ID, pieces[i])
		}
		if err != nil {
			return View{}, o.lists.forgetAll(ctx, set[:i+1], err)
		}
	}
	err = o.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := o.insert(ctx, tx, set, d.also); err != nil || d.hook == nil {
			return err
		}
		return d.hook(ctx, tx, set[0].view(now))
	})
	if err != nil {
		return View{}, o.lists.forgetAll(ctx, set, err)
	}
	o.Wake()
	return set[0].view(now), nil
}

// batches are the rows of a draft, one for each piece of its list.
func (d draft) batches(pieces [][]want, now drive.Time) ([]batch, error) {
	raw, err := json.Marshal(d.asked)
	if err != nil {
		return nil, err
	}
	set := make([]batch, len(pieces))
	for i := range set {
		b := batch{
			ID: drive.NewID[drive.ExportID](), Account: d.who.Account, User: d.who.User, Name: d.name, Origin: d.origin, Request: string(raw),
			Priority: d.priority, State: Pending, Total: int64(len(pieces[i])), Due: now, Created: now, Revision: 1,
		}
		b.Root, b.Slot, b.part = b.ID, b.ID.String(), part{b.ID, int64(i) + 1, int64(len(pieces))}
		if i > 0 {
			b.Set = set[0].ID
		}
		if d.parent != nil {
			b.Root, b.Parent, b.part = d.parent.Root, d.parent.ID, d.parent.part
		}
		if d.slot != "" && i == 0 {
			b.Slot = d.slot
		}
		set[i] = b
	}
	return set, nil
}

// insert writes the rows of a set, unless the account may not have so many.
func (o *orders) insert(ctx context.Context, tx *sqldb.Tx, set []batch, also func(context.Context, *sqldb.Tx) error) error {
	first := set[0]
	if err := o.opt.Ledger.Lock(ctx, tx, first.Account); err != nil {
		return err
	}
	if also != nil {
		if err := also(ctx, tx); err != nil {
			return err
		}
	}
	if err := o.mayHold(ctx, tx, first, len(set)); err != nil {
		return err
	}
	for i := range set {
		if err := set[i].insert(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// mayHold refuses more batches than an account may have. What a schedule makes is not refused.
func (o *orders) mayHold(ctx context.Context, tx *sqldb.Tx, b batch, more int) error {
	if b.Origin == Scheduled {
		return nil
	}
	var held int
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM exports WHERE account_id = ? AND released_at = 0`, b.Account).Scan(&held)
	if err != nil {
		return fmt.Errorf("count batches: %w", err)
	}
	if held+more > maxHeld {
		return drive.Fail(drive.TooManyOpen, "reason", "exports", "limit", maxHeld, "sent", held+more)
	}
	return o.roomForBatch(ctx, tx, b.Account)
}

func (b *batch) insert(ctx context.Context, tx *sqldb.Tx) error {
	if !b.Parent.IsZero() {
		if err := tx.QueryRow(ctx, `SELECT MAX(revision) + 1 FROM exports WHERE root_id = ?`, b.Root).Scan(&b.Revision); err != nil {
			return fmt.Errorf("find the next revision: %w", err)
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO exports ("+columns+") VALUES ("+sqldb.Marks(37)+")", b.ID, b.Account, b.User, b.Name, b.Origin,
		b.Request, b.Slot, b.Root, b.Revision, b.Parent, b.Priority, b.State, b.Total, 0, 0, 0, 0, 0, "", "", b.Due, 0, "", 0, 0, 0, 0, 0, "",
		0, "", 0, b.Created, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("insert batch %s: %w", b.ID, err)
	}
	return b.insertPart(ctx, tx)
}

// writeRows is how many rows one statement inserts, and writeBatch how many a transaction: some 20
// ms.
const (
	writeRows  = 100
	writeBatch = 1000
)

func (l *lists) write(ctx context.Context, id drive.ExportID, list []want) error {
	for i := range list {
		list[i].N = int64(i) + 1
	}
	for len(list) > 0 {
		piece := list[:min(writeBatch, len(list))]
		list = list[len(piece):]
		err := l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for at := 0; at < len(piece); at += writeRows {
				if err := insertWants(ctx, tx, id, piece[at:min(at+writeRows, len(piece))]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write the list of batch %s: %w", id, err)
		}
	}
	return nil
}

func insertWants(ctx context.Context, tx *sqldb.Tx, id drive.ExportID, list []want) error {
	var args []any
	for _, w := range list {
		args = append(args, id, w.N, w.Doc, w.Node, w.URL, w.Path, w.Name, w.MTime, w.From, w.FromN)
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_wants (export_id, "+wantColumns+") VALUES "+rowMarks(len(list), 10), args...)
	return err
}

// rowMarks returns the placeholders of several rows.
func rowMarks(rows, columns int) string {
	return strings.TrimSuffix(strings.Repeat("("+sqldb.Marks(columns)+"), ", rows), ", ")
}

// forget drops the list of a batch that was not made. When it is not known whether it was made,
// the list stays.
func (l *lists) forget(ctx context.Context, id drive.ExportID, cause error) error {
	if drive.IsKind(cause, drive.Unavailable, drive.Internal) && !errors.Is(cause, errMade) {
		return cause
	}
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(l.dropRows(ctx, "export_wants", "n", id), l.uncharge(ctx, id)); err != nil {
		l.log.WarnContext(ctx, "the list of a batch that was not made is left", "export", id, "error", err)
	}
	return cause
}
