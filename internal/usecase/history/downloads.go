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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

const (
	tellEvery   = time.Minute     // between two looks at what was gathered
	gatherFor   = time.Hour       // what one user downloads of one file within it is one entry
	maxGathered = 10_000          // files of users that are known at a time, some 3 MB; half as many new ones wake the writer
	maxOthers   = 1000            // users whose further downloads are counted together, when there are more
	perEntries  = 200             // entries of one transaction: some 10 ms
	maxFrom     = 8               // addresses of an entry
	lastWords   = 5 * time.Second // to tell what is left when the process is being stopped
)

// Downloads gather downloads for the activity log: one entry for a file and a user within a minute,
// and then one an hour, written beside the requests. A process that dies tells nothing of the last
// minute, or of the last hour where something was downloaded again and again; what could not be
// told for certain is told once more. It is safe for concurrent use.
type Downloads struct {
	parts  Parts
	now    func() time.Time
	log    *slog.Logger
	ledger quota.Ledger
	half   chan struct{} // there is much that is new

	mu     sync.Mutex
	all    map[download]*times
	fresh  int // in all: those that have come since the last look
	others int // in all: those of many files together
	missed int
}

// download says what belongs to one entry.
type download struct {
	account drive.AccountID
	node    drive.NodeID // zero: of many files, or of a zip
	user    drive.UserID // zero: by a link
	head    string
	name    string // of a zip
}

// times are the downloads of one entry.
type times struct {
	by   drive.Who // the last one
	n    int
	from []string
	told time.Time // the entry before; zero: there was none
}

// NewDownloads returns a Downloads. Zero now: time.Now; nil log: nobody is told what was left out.
func NewDownloads(parts Parts, now func() time.Time, log *slog.Logger) *Downloads {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Downloads{parts: parts, now: now, log: log, half: make(chan struct{}, 1), all: map[download]*times{}}
}

// File notes a download of a file. It writes nothing and waits for nobody.
func (d *Downloads) File(who drive.Who, node drive.NodeID) { d.add(download{node: node}, who) }

// Zip notes a download of a zip: of its files and folders where they are few.
func (d *Downloads) Zip(who drive.Who, name string, picked []drive.NodeID) {
	if len(picked) == 0 || len(picked) > perEntries {
		d.add(download{name: name}, who)
		return
	}
	for _, id := range picked {
		d.File(who, id)
	}
}

func (d *Downloads) add(what download, who drive.Who) {
	if d == nil || who.Account.IsZero() {
		return
	}
	if who.Head == drive.LinkHead { // whoever made the link has not done it
		who.User, who.Session = drive.UserID{}, drive.SessionID{}
	}
	what.account, what.user, what.head = who.Account, who.User, who.Head
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.all[what]
	if t == nil {
		if len(d.all)-d.others >= maxGathered {
			d.forgetTold()
		}
		if len(d.all)-d.others >= maxGathered {
			what.node, what.name = drive.NodeID{}, ""
			if t = d.all[what]; t == nil && d.others >= maxOthers {
				d.missed++
				return
			}
		}
	}
	if t == nil {
		t = &times{}
		d.all[what] = t
		d.fresh++
		if what.isOthers() {
			d.others++
		}
	}
	t.by = who
	t.count(1, who.Address)
	if d.fresh >= maxGathered/2 { // not by all: what was told is known for an hour
		select {
		case d.half <- struct{}{}:
		default: // it is told already
		}
	}
}

func (what download) isOthers() bool { return what.node.IsZero() && what.name == "" }

func (t *times) count(n int, from ...string) {
	t.n += n
	for _, address := range from {
		if address != "" && len(t.from) < maxFrom && !slices.Contains(t.from, address) {
			t.from = append(t.from, address)
		}
	}
}

// forgetTold makes room: what was told and has not happened since is told at once when it does.
func (d *Downloads) forgetTold() {
	for what, t := range d.all {
		if t.n == 0 {
			d.forget(what)
		}
	}
}

func (d *Downloads) forget(what download) {
	delete(d.all, what)
	if what.isOthers() {
		d.others--
	}
}

// due is what is told in one entry.
type due struct {
	download
	times
}

// take returns what to tell now, in the order of accounts, and forgets it; last: also what would
// still be gathered.
func (d *Downloads) take(now time.Time, last bool) (all []due, missed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, t := range d.all {
		switch since := now.Sub(t.told); {
		case !last && !t.told.IsZero() && since >= 0 && since < gatherFor:
		case t.n == 0:
			d.forget(what)
		default:
			all = append(all, due{what, *t})
			*t = times{told: now}
		}
	}
	slices.SortFunc(all, func(a, b due) int { return bytes.Compare(a.account[:], b.account[:]) })
	missed, d.missed, d.fresh = d.missed, 0, 0
	return all, missed
}

// giveBack takes up again what could not be told.
func (d *Downloads) giveBack(all []due) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range all {
		t := d.all[one.download]
		if t == nil {
			if t = (&times{}); one.isOthers() {
				d.others++
			}
			d.all[one.download] = t
		}
		if t.n == 0 {
			t.by = one.by
		}
		t.told = time.Time{}
		t.count(one.n, one.from...)
	}
}

// Run tells of downloads until ctx ends, and then once more.
func (d *Downloads) Run(ctx context.Context) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			defer cancel()
			if err := d.tell(after, true); err != nil {
				d.log.WarnContext(ctx, "downloads could not be noted and are lost: the process ends", "error", err)
			}
			return nil
		case <-tick.C:
		case <-d.half:
		}
		outage.Note(ctx, d.log, "downloads could not be noted; they will be", d.Tell(ctx))
	}
}

// Tell writes entries of what was gathered. What cannot be written is kept.
func (d *Downloads) Tell(ctx context.Context) error { return d.tell(ctx, false) }

func (d *Downloads) tell(ctx context.Context, last bool) error {
	all, missed := d.take(d.now(), last)
	if missed > 0 {
		d.log.WarnContext(ctx, "there were downloads by more users than are noted", "not_noted", missed)
	}
	var failed []error
	for len(all) > 0 {
		n := 1
		for n < min(len(all), perEntries) && all[n].account == all[0].account {
			n++
		}
		if err := d.write(ctx, all[:n]); err != nil {
			d.giveBack(all[:n])
			failed = append(failed, err)
		}
		all = all[n:]
	}
	return errors.Join(failed...)
}

// write tells of downloads of one account, unless it was deleted since.
func (d *Downloads) write(ctx context.Context, some []due) error {
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
			if err := d.ledger.Lock(ctx, tx, account); err != nil { // the log asks for it (E2)
				return err
			}
			for _, one := range some {
				if err := d.parts.Log.Note(tx, one.entry(nodes[one.node]), one.data()); err != nil {
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
		return fmt.Errorf("note %d downloads of account %s: %w", len(some), account, err)
	}
	return nil
}

// entry is how it is told of a node as it is now; of one that was deleted since only its id.
func (one due) entry(n tree.Node) activity.Entry {
	by := drive.Who{User: one.by.User, Session: one.by.Session, Head: one.by.Head, Address: one.by.Address}
	e := activity.Entry{Account: one.account, Verb: activity.DownloadBegun, By: by, Node: one.node, Name: one.name}
	if !n.ID.IsZero() {
		e.Folder, e.Name = n.Parent, string(n.Name)
	}
	return e
}

func (one due) data() map[string]any {
	data := map[string]any{"times": one.n}
	if len(one.from) > 1 {
		data["from"] = one.from
	}
	if one.isOthers() {
		data["files"] = "many"
	}
	return data
}
