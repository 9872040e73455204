package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Request selects the content of a zip. Exactly one of Nodes, Folder and Manifest is set.
type Request struct {
	Name     string         `json:"name,omitempty"`
	Nodes    []drive.NodeID `json:"nodes,omitempty"`
	Folder   drive.NodeID   `json:"folder,omitzero"`
	Filter   Filter         `json:"filter,omitzero"` // applies to files below Folder and below folders in Nodes
	Manifest []Item         `json:"-"`
	Names    string         `json:"names,omitempty"` // pattern for the paths in the zip of files below folders; see naming
	Index    bool           `json:"index,omitempty"` // adds a CSV list of all entries to the zip
	Priority int64          `json:"-"`               // MinPriority to MaxPriority; higher is claimed first
	Force    bool           `json:"-"`               // creates a new batch even if one exists for the same folder and month
}

// storedRequest is the request as stored in the database and shown to the owner.
type storedRequest struct {
	Request
	Entries    int             `json:"entries,omitempty"` // number of entries of the manifest
	Supplement *drive.ExportID `json:"supplement,omitempty"`
	Mode       Mode            `json:"mode,omitempty"`
	Month      string          `json:"month,omitempty"`
	Bucket     bool            `json:"bucket,omitempty"` // write the zip to the bucket after sealing
	Mark       *mark           `json:"mark,omitempty"`   // mark to advance when the batch is sealed; nil: none
}

// storedRequest decodes the column request of the batch. It fails only if the JSON is damaged.
func (b batch) storedRequest() (a storedRequest, err error) {
	if err := json.Unmarshal([]byte(b.Request), &a); err != nil {
		return storedRequest{}, fmt.Errorf("read what was asked of batch %s: %w", b.ID, err)
	}
	return a, nil
}

// MinPriority and MaxPriority bound Request.Priority. Only administrators can set a priority above
// 0.
const (
	MinPriority = -100
	MaxPriority = 10
)

// checkPriority returns OutOfRange for a priority outside of the bounds, and Forbidden above 0 for
// a caller who is no administrator.
func checkPriority(who drive.Who, priority int64) error {
	if priority < MinPriority || priority > MaxPriority {
		return drive.BadField("priority", drive.OutOfRange, "min", MinPriority, "max", MaxPriority, "sent", priority)
	}
	if priority > 0 && !who.Admin {
		return drive.Fail(drive.Forbidden, "scope", "admin")
	}
	return nil
}

// listEntry is an entry of the list of a batch, a row of export_wants.
type listEntry struct {
	N     int64  // number in the list, from 1; set by listStore.write
	Doc   string // id that the client or the intake gave
	Node  drive.NodeID
	URL   string
	Path  string
	Name  string // path in the zip; ends with '/' for an empty folder
	MTime drive.Time
	From  drive.ExportID // previous batch that has the entry's pin; zero: none
	FromN int64          // number of the entry in From

	size drive.ByteSize // size of the file when the list was made; 0: unknown
}

// isFolder reports whether the entry is an empty folder, which has no content.
func (e *listEntry) isFolder() bool { return strings.HasSuffix(e.Name, "/") && !e.Node.IsZero() }

// entryColumns are the columns that scanEntry reads.
const entryColumns = "n, doc, node_id, url, path, name, mtime, from_id, from_n"

// scanEntry reads a row of entryColumns into w by calling scan, and returns the error of scan.
func scanEntry(w *listEntry, scan func(...any) error) error {
	return scan(&w.N, &w.Doc, &w.Node, &w.URL, &w.Path, &w.Name, &w.MTime, &w.From, &w.FromN)
}

// creator creates batches from requests: it builds the list, freezes it in the database and inserts
// the batch rows.
type creator struct {
	*core
	lists *listStore
}

// Create creates a batch, or several if the list is too long for one zip, and returns the first.
// The list is frozen now; contents are looked up when the entries are collected. A request for a
// month of a folder returns an existing batch of the same request, unless that batch has ended or
// Force is set. Create returns WrongState for an empty list, TooLarge for a list that is too long,
// Forbidden for a priority above 0 without administrator rights, and TooManyOpen if the account has
// too many batches. hook runs in the transaction that inserts the batches.
func (e *Exports) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (View, error) {
	return e.creator.create(ctx, who, in, hook)
}

// create implements Exports.Create. It waits for one of the account's turns first, so that one
// account cannot make many lists at once.
func (c *creator) create(ctx context.Context, who drive.Who, in Request, hook Hook) (View, error) {
	if err := checkPriority(who, in.Priority); err != nil {
		return View{}, err
	}
	end, err := acquireTurn(ctx, c.lists.turns, who.Account)
	if err != nil {
		return View{}, err
	}
	defer end()
	w, err := c.buildList(ctx, who, &in)
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
	a := storedRequest{Request: in, Entries: len(in.Manifest), Mark: w.nextMark}
	d := draft{who: who, name: in.Name, origin: Manual, request: a, list: w.list, priority: in.Priority, hook: hook}
	if !in.Force && !in.Folder.IsZero() && in.Filter.Month != "" {
		return c.join(ctx, d)
	}
	return c.createSet(ctx, d)
}

// draft describes a batch, or a set of batches, to be inserted.
type draft struct {
	who      drive.Who
	name     string
	origin   Origin
	request  storedRequest
	list     []listEntry
	priority int64
	slot     string // unique key of the first batch; empty: its id
	parent   *batch // the batch that a supplement continues; else nil
	hook     Hook
	// also, if not nil, runs in the transaction before the rows are inserted.
	beforeInsert func(ctx context.Context, tx *sqldb.Tx) error
}

// createSet writes the lists of a draft, and then inserts its batches in one transaction, in which
// the hook runs. It returns the first batch of the set. On an error it deletes the lists. A crash
// in between leaves lists without a batch, which Purge deletes.
func (c *creator) createSet(ctx context.Context, d draft) (v View, err error) {
	name, err := drive.ParseName(d.name)
	if err != nil {
		return View{}, err
	}
	d.name = string(name)
	now, err := c.now(ctx)
	if err != nil {
		return View{}, err
	}
	pieces, err := c.lists.split(d.list)
	if err != nil {
		return View{}, err
	}
	set, err := d.batches(pieces, now)
	if err != nil {
		return View{}, err
	}
	if d.ofListSchedule() { // before its rows are written; insert checks again
		err := c.lists.makeRoom(ctx, d.who.Account, func() error { return c.checkListSchedule(ctx, c.opt.DB, d, set) })
		if err != nil {
			return View{}, err
		}
	}
	for i, b := range set {
		if err = c.lists.charge(ctx, b, textBytes(pieces[i])); err == nil {
			err = c.lists.write(ctx, b.ID, pieces[i])
		}
		if err != nil {
			return View{}, c.lists.discardAll(ctx, set[:i+1], err)
		}
	}
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := c.insert(ctx, tx, set, d); err != nil || d.hook == nil {
			return err
		}
		return d.hook(ctx, tx, set[0].view(now))
	})
	if err != nil {
		return View{}, c.lists.discardAll(ctx, set, err)
	}
	c.Wake()
	return set[0].view(now), nil
}

// batches returns one pending batch per piece, each with a new id and due at now; with several,
// each is a part of a set. It writes nothing. It fails only if the request cannot be encoded.
func (d draft) batches(pieces [][]listEntry, now drive.Time) ([]batch, error) {
	raw, err := json.Marshal(d.request)
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

// ofListSchedule reports whether a schedule with a list of entries, not of a folder, made the
// draft. Such a draft has the same limits as a request by a client; a schedule of a folder has
// none.
func (d draft) ofListSchedule() bool { return d.origin == Scheduled && d.request.Entries > 0 }

// insert locks the ledger and inserts the rows of a set of d. It returns the error of
// d.beforeInsert, or that of checkLimit or checkListSchedule if the account has too many batches.
func (c *creator) insert(ctx context.Context, tx *sqldb.Tx, set []batch, d draft) (err error) {
	first := set[0]
	if err := c.opt.Ledger.Lock(ctx, tx, first.Account); err != nil {
		return err
	}
	if d.beforeInsert != nil {
		if err := d.beforeInsert(ctx, tx); err != nil {
			return err
		}
	}
	switch {
	case d.ofListSchedule():
		err = c.checkListSchedule(ctx, tx, d, set)
	case d.origin != Scheduled:
		err = c.checkLimit(ctx, tx, first.Account, len(set))
	}
	if err != nil {
		return err
	}
	for i := range set {
		if err := set[i].insert(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// checkLimit returns TooManyOpen if more further batches would exceed the maxHeld batches with
// references that an account may have, or the error of checkPinnedQuota.
func (c *creator) checkLimit(ctx context.Context, q sqldb.Querier, account drive.AccountID, more int) error {
	var held int
	err := q.QueryRow(ctx, `SELECT COUNT(*) FROM exports WHERE account_id = ? AND released_at = 0`, account).Scan(&held)
	if err != nil {
		return fmt.Errorf("count batches: %w", err)
	}
	if held+more > maxHeld {
		return drive.Fail(drive.TooManyOpen, "reason", "exports", "limit", maxHeld, "sent", held+more)
	}
	return c.checkPinnedQuota(ctx, q, account)
}

// checkListSchedule returns the error of checkLimit, or that of checkTexts, for the set of a
// schedule over a list.
func (c *creator) checkListSchedule(ctx context.Context, q sqldb.Querier, d draft, set []batch) error {
	if err := c.checkLimit(ctx, q, d.who.Account, len(set)); err != nil {
		return err
	}
	return c.lists.checkTexts(ctx, q, d.who.Account, textBytes(d.list))
}

// insert inserts the row of the batch within tx, and its row of export_parts if it has a set. A
// supplement gets the next revision number of its root, which insert sets in b.
func (b *batch) insert(ctx context.Context, tx *sqldb.Tx) error {
	if !b.Parent.IsZero() {
		if err := tx.QueryRow(ctx, `SELECT MAX(revision) + 1 FROM exports WHERE root_id = ?`, b.Root).Scan(&b.Revision); err != nil {
			return fmt.Errorf("find the next revision: %w", err)
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO exports ("+columns+") VALUES ("+sqldb.Placeholders(37)+")", b.ID, b.Account, b.User, b.Name, b.Origin,
		b.Request, b.Slot, b.Root, b.Revision, b.Parent, b.Priority, b.State, b.Total, 0, 0, 0, 0, 0, "", "", b.Due, 0, "", 0, 0, 0, 0, 0, "",
		0, "", 0, b.Created, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("insert batch %s: %w", b.ID, err)
	}
	return b.insertPart(ctx, tx)
}

// writeRows is the number of rows per INSERT statement, writeBatch per transaction (about 20 ms).
const (
	writeRows  = 100
	writeBatch = 1000
)

// write sets N of the entries to their position from 1 and inserts them as the list of batch id, in
// several transactions. On an error some entries may be inserted; the caller discards the list.
func (l *listStore) write(ctx context.Context, id drive.ExportID, list []listEntry) error {
	for i := range list {
		list[i].N = int64(i) + 1
	}
	for len(list) > 0 {
		piece := list[:min(writeBatch, len(list))]
		list = list[len(piece):]
		err := l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for at := 0; at < len(piece); at += writeRows {
				if err := insertEntries(ctx, tx, id, piece[at:min(at+writeRows, len(piece))]); err != nil {
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

// insertEntries inserts up to writeRows numbered entries into the list of batch id with one
// statement. list must not be empty. It fails if an entry of that number exists.
func insertEntries(ctx context.Context, tx *sqldb.Tx, id drive.ExportID, list []listEntry) error {
	var args []any
	for _, w := range list {
		args = append(args, id, w.N, w.Doc, w.Node, w.URL, w.Path, w.Name, w.MTime, w.From, w.FromN)
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_wants (export_id, "+entryColumns+") VALUES "+rowMarks(len(list), 10), args...)
	return err
}

// rowMarks returns the SQL placeholders of several rows of a multi-row INSERT.
func rowMarks(rows, columns int) string {
	return strings.TrimSuffix(strings.Repeat("("+sqldb.Placeholders(columns)+"), ", rows), ", ")
}

// discard deletes the list of batch id, whose insert failed with cause, and returns cause. If the
// insert may have committed all the same, the list stays; if there is no batch, Purge deletes it.
func (l *listStore) discard(ctx context.Context, id drive.ExportID, cause error) error {
	if drive.IsKind(cause, drive.Unavailable, drive.Internal) && !errors.Is(cause, errExists) {
		return cause
	}
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(l.deleteRows(ctx, "export_wants", "n", id), l.uncharge(ctx, id)); err != nil {
		l.log.WarnContext(ctx, "the list of a batch that was not created could not be deleted; the purge deletes it later", "export", id, "error", err)
	}
	return cause
}
