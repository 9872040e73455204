package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Bounds of Downloads.
const (
	flushInterval     = time.Minute     // between two flushes
	entryInterval     = time.Hour       // downloads of one file by one user within it are one entry
	maxTracked        = 10_000          // tracked pairs of file and user, some 3 MB; half as many new ones trigger a flush
	maxOverflowUsers  = 1000            // users whose further downloads are counted together when maxTracked is reached
	entriesPerTx      = 200             // entries per transaction: some 10 ms
	maxAddresses      = 8               // addresses per entry
	finalFlushTimeout = 5 * time.Second // for the last flush while the process stops
)

// Downloads combines downloads for the activity log: one entry per file and user after a minute,
// then one per hour, written in the background. A crash loses the downloads of the last minute, or
// of the last hour for repeated ones. An entry whose commit is uncertain is written again. It is
// safe for concurrent use; a nil Downloads ignores calls.
type Downloads struct {
	parts  Parts
	now    func() time.Time
	log    *slog.Logger
	ledger quota.Ledger
	wake   chan struct{} // signals Run to flush early

	mu         sync.Mutex
	all        map[download]*downloadCount
	unreported int // entries of all added since the last flush
	overflow   int // entries of all that combine many files
	dropped    int // downloads that were not counted
}

// download is the key of one activity entry.
type download struct {
	account drive.AccountID
	node    drive.NodeID // zero: many files, or a zip
	user    drive.UserID // zero: by a signed link
	head    string
	name    string // of a zip
}

// downloadCount counts the unreported downloads of one key.
type downloadCount struct {
	by        drive.Who // actor of the last download
	n         int
	from      []string
	lastEntry time.Time // when the last entry was written; zero: never
}

// NewDownloads returns a Downloads. Nil now: time.Now; nil log: no logging.
func NewDownloads(parts Parts, now func() time.Time, log *slog.Logger) *Downloads {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Downloads{parts: parts, now: now, log: log, wake: make(chan struct{}, 1), all: map[download]*downloadCount{}}
}

// File records a download of a file. It never blocks on the database.
func (d *Downloads) File(who drive.Who, node drive.NodeID) { d.add(download{node: node}, who) }

// Zip records a download of a zip: as downloads of the picked nodes if they are few, else by its
// name.
func (d *Downloads) Zip(who drive.Who, name string, picked []drive.NodeID) {
	if len(picked) == 0 || len(picked) > entriesPerTx {
		d.add(download{name: name}, who)
		return
	}
	for _, id := range picked {
		d.File(who, id)
	}
}

// add counts one download by who in memory; Flush writes it. Above maxTracked files it counts per
// user only, and above maxOverflowUsers the download is dropped. A nil d and a caller without an
// account do nothing.
func (d *Downloads) add(what download, who drive.Who) {
	if d == nil || who.Account.IsZero() {
		return
	}
	if who.Head == drive.LinkHead { // the creator of the link is not the one who downloads
		who.User, who.Session = drive.UserID{}, drive.SessionID{}
	}
	what.account, what.user, what.head = who.Account, who.User, who.Head
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.all[what]
	if t == nil {
		if len(d.all)-d.overflow >= maxTracked {
			d.evictReported()
		}
		if len(d.all)-d.overflow >= maxTracked {
			what.node, what.name = drive.NodeID{}, ""
			if t = d.all[what]; t == nil && d.overflow >= maxOverflowUsers {
				d.dropped++
				return
			}
		}
	}
	if t == nil {
		t = &downloadCount{}
		d.all[what] = t
		d.unreported++
		if what.isOverflow() {
			d.overflow++
		}
	}
	t.by = who
	t.count(1, who.Address)
	if d.unreported >= maxTracked/2 { // not len(d.all), which includes reported keys for an hour
		select {
		case d.wake <- struct{}{}:
		default: // already signaled
		}
	}
}

// isOverflow reports whether the key combines many files, as it names none.
func (what download) isOverflow() bool { return what.node.IsZero() && what.name == "" }

// count adds n downloads, and their addresses up to maxAddresses different ones. The caller holds
// the mutex of the Downloads.
func (c *downloadCount) count(n int, from ...string) {
	c.n += n
	for _, address := range from {
		if address != "" && len(c.from) < maxAddresses && !slices.Contains(c.from, address) {
			c.from = append(c.from, address)
		}
	}
}

// evictReported evicts keys without unreported downloads; their next download is reported at the
// next flush. The caller holds mu.
func (d *Downloads) evictReported() {
	for what, t := range d.all {
		if t.n == 0 {
			d.evict(what)
		}
	}
}

// evict deletes a key and updates the number of overflow keys. The caller holds mu.
func (d *Downloads) evict(what download) {
	delete(d.all, what)
	if what.isOverflow() {
		d.overflow--
	}
}

// dueEntry is a key with the downloads to report.
type dueEntry struct {
	download
	downloadCount
}

// takeDue returns the entries that are due, ordered by account, and the number of dropped
// downloads, and resets their counts. With last it returns all unreported ones. It evicts keys
// without downloads within entryInterval.
func (d *Downloads) takeDue(now time.Time, last bool) (all []dueEntry, dropped int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, t := range d.all {
		switch since := now.Sub(t.lastEntry); {
		case !last && !t.lastEntry.IsZero() && since >= 0 && since < entryInterval:
		case t.n == 0:
			d.evict(what)
		default:
			all = append(all, dueEntry{what, *t})
			*t = downloadCount{lastEntry: now}
		}
	}
	slices.SortFunc(all, func(a, b dueEntry) int { return bytes.Compare(a.account[:], b.account[:]) })
	dropped, d.dropped, d.unreported = d.dropped, 0, 0
	return all, dropped
}

// restore adds entries that could not be written to the counts again, so that the next flush writes
// them at once.
func (d *Downloads) restore(all []dueEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range all {
		t := d.all[one.download]
		if t == nil {
			if t = (&downloadCount{}); one.isOverflow() {
				d.overflow++
			}
			d.all[one.download] = t
		}
		if t.n == 0 {
			t.by = one.by
		}
		t.lastEntry = time.Time{}
		t.count(one.n, one.from...)
	}
}

// Run writes entries every minute, or earlier if many wait, until ctx ends, and then once more. It
// returns nil; failures are logged and the entries are kept, except at the end.
func (d *Downloads) Run(ctx context.Context) error {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalFlushTimeout)
			defer cancel()
			if err := d.flush(after, true); err != nil {
				d.log.WarnContext(ctx, "downloads could not be recorded as activity and are lost: the process is stopping", "error", err)
			}
			return nil
		case <-tick.C:
		case <-d.wake:
		}
		outage.Record(ctx, d.log, "downloads could not be recorded as activity; retrying in a minute", d.Flush(ctx))
	}
}

// Flush writes the entries that are due. Entries that cannot be written are kept for the next call,
// and the errors joined.
func (d *Downloads) Flush(ctx context.Context) error { return d.flush(ctx, false) }

// flush is Flush; with last it writes all unreported downloads, not only those that are due.
// Entries that could not be written are restored, and the errors joined.
func (d *Downloads) flush(ctx context.Context, last bool) error {
	all, dropped := d.takeDue(d.now(), last)
	if dropped > 0 {
		d.log.WarnContext(ctx, "too many users are downloading; some downloads are not recorded as activity", "not_recorded", dropped)
	}
	var failed []error
	for len(all) > 0 {
		n := 1
		for n < min(len(all), entriesPerTx) && all[n].account == all[0].account {
			n++
		}
		if err := d.write(ctx, all[:n]); err != nil {
			d.restore(all[:n])
			failed = append(failed, err)
		}
		all = all[n:]
	}
	return errors.Join(failed...)
}

// write records some, entries of one account of which there is at least one, as activity in one
// transaction. If the account was deleted it returns nil and records nothing.
func (d *Downloads) write(ctx context.Context, some []dueEntry) error {
	account := some[0].account
	ids := make([]drive.NodeID, 0, len(some))
	for _, one := range some {
		if !one.node.IsZero() {
			ids = append(ids, one.node)
		}
	}
	nodes, err := tree.ByID(ctx, d.parts.Tree, d.parts.DB.For(account), ids...)
	if err == nil {
		err = d.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := d.ledger.Lock(ctx, tx, account); err != nil { // required by the log (E2)
				return err
			}
			for _, one := range some {
				if err := d.parts.Log.Record(tx, one.entry(nodes[one.node]), one.data()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record %d downloads of account %s: %w", len(some), account, err)
	}
	return nil
}

// entry returns the activity entry, with the current folder and name of node n; zero n: the node
// was deleted.
func (e dueEntry) entry(n tree.Node) activity.Entry {
	by := drive.Who{User: e.by.User, Session: e.by.Session, Head: e.by.Head, Address: e.by.Address}
	out := activity.Entry{Account: e.account, Verb: activity.DownloadBegun, By: by, Node: e.node, Name: e.name}
	if !n.ID.IsZero() {
		out.Folder, out.Name = n.Parent, string(n.Name)
	}
	return out
}

// data returns the data of the entry.
func (e dueEntry) data() map[string]any {
	data := map[string]any{"times": e.n}
	if len(e.from) > 1 {
		data["from"] = e.from
	}
	if e.isOverflow() {
		data["files"] = "many"
	}
	return data
}
