package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/export/fetch"
)

// leftError says that entries are left which a later try, or another machine, may collect.
type leftError struct {
	entries   int64
	reason    string
	elsewhere bool
	unread    bool // some are in a content that cannot be read
}

func (s *leftError) Error() string {
	return fmt.Sprintf("%d entries are set aside: %s", s.entries, s.reason)
}

// collector finds, fetches and keeps what batches want, and seals them.
type collector struct {
	*ground
	lists     *lists
	releases  *releases
	publisher *publisher

	fetch   *fetch.Fetcher
	putting sync.Map      // names of files that are being written
	slowAge time.Duration // slowAge; of tests
}

// run is one worker's way through a batch.
type run struct {
	*collector
	b     *batch
	last  bool // the last try: what would be set aside counts as failed
	live  living
	paths map[string]drive.NodeID

	mu    sync.Mutex // of what several fetches change: the counts of b, aside
	aside leftError

	flights map[*flight]struct{}

	promised drive.ByteSize // declared by documents that are being fetched
	budget   budget
}

// collect goes through the list until all entries are dealt with, and seals. It starts again when
// some are left that it did not see: those that a worker before has set aside, below the save
// point.
func (c *collector) collect(ctx context.Context, b *batch, yield func() bool) error {
	if err := c.active(ctx, b.User); err != nil {
		return err
	}
	r := &run{collector: c, b: b, last: b.Tries >= maxTries, live: living{}, paths: map[string]drive.NodeID{}}
	for pass := 0; ; pass++ {
		if err := r.pages(ctx, yield); err != nil {
			return err
		}
		switch left := b.Total - b.Collected - b.Failed; {
		case left == 0:
			return c.seal(ctx, b)
		case left == r.aside.entries:
			return &r.aside
		case pass > 0:
			return fmt.Errorf("batch %s: %d entries are left, and %d were set aside", b.ID, left, r.aside.entries)
		}
		b.SavePoint, r.aside = 0, leftError{}
	}
}

// pages deals with everything behind the save point.
func (r *run) pages(ctx context.Context, yield func() bool) error {
	for {
		list, err := r.page(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		r.halt("page")
		if err := r.collectPage(ctx, list, yield); err != nil && !errors.Is(err, errStale) {
			return err
		}
		if yield() {
			return errYield
		}
	}
}

// page reads the next entries that are not dealt with, by key behind the save point.
func (r *run) page(ctx context.Context) ([]want, error) {
	// Joins, and not NOT EXISTS, of which MariaDB makes sets of all that every batch has.
	rows, err := r.opt.DB.Query(ctx, `SELECT w.n, w.doc, w.node_id, w.url, w.path, w.name, w.mtime, w.from_id, w.from_n FROM export_wants w
		LEFT JOIN export_pins p ON p.export_id = w.export_id AND p.n = w.n
		LEFT JOIN export_errors x ON x.export_id = w.export_id AND x.n = w.n
		WHERE w.export_id = ? AND w.n > ? AND p.n IS NULL AND x.n IS NULL ORDER BY w.n LIMIT ?`, r.b.ID, r.b.SavePoint, pageSize)
	list, err := sqldb.Scan(rows, err, scanWant)
	if err != nil {
		return nil, fmt.Errorf("read the list of batch %s: %w", r.b.ID, err)
	}
	return list, nil
}

// collectPage deals with a page: first what is in the drive, in one transaction, then what is
// elsewhere, as it arrives. Last it moves the save point.
func (r *run) collectPage(ctx context.Context, list []want, yield func() bool) error {
	var page dealt
	var away []want
	for _, w := range list {
		if w.URL != "" && w.From.IsZero() {
			away = append(away, w)
		}
	}
	if err := r.resolve(ctx, list, &page, &away); err != nil {
		return err
	}
	if err := r.within(ctx, &page); err != nil {
		return err
	}
	if len(away) > 0 {
		if len(page.pins)+len(page.errors) > 0 { // what is in the drive waits for nobody
			if err := r.save(ctx, page, 0); err != nil {
				return err
			}
			page = dealt{}
		}
		if err := r.room(ctx); err != nil {
			return err
		}
		if err := r.fetchAll(ctx, away, yield); err != nil {
			return err
		}
	}
	r.halt("fetched")
	return r.save(ctx, page, list[len(list)-1].N)
}

// dealt is what became of entries: some have arrived, some cannot be had.
type dealt struct {
	pins   []pin
	errors []failure
}

// pin is an entry that has arrived.
type pin struct {
	w       want
	blob    drive.BlobID // zero: a folder
	size    drive.ByteSize
	crc32   uint32
	mtime   drive.Time
	charged drive.ByteSize
}

// failure is an entry that cannot be collected.
type failure struct {
	w      want
	reason string
	detail string
}

// The reasons that the drive gives; package fetch has those of documents elsewhere.
const (
	reasonMissing = "missing" // no such file, or in the trash
	reasonFolder  = "folder"  // not a file
	reasonDamaged = "damaged" // its bytes were found changed
	reasonQuota   = "quota"   // the account has no room for what was fetched

	reasonUnreadable = "unreadable" // the store does not give its bytes, and gives others
)

// resolve looks up entries of the drive, and those that a supplement takes over. What can no longer
// be taken over is collected again.
func (r *run) resolve(ctx context.Context, list []want, page *dealt, away *[]want) error {
	var here []want
	taken, err := r.takeOver(ctx, list)
	if err != nil {
		return err
	}
	for _, w := range list {
		p, ok := taken[w.N]
		switch {
		case ok:
			page.pins = append(page.pins, p)
		case w.URL == "":
			here = append(here, w)
		case !w.From.IsZero():
			*away = append(*away, w)
		}
	}
	return r.resolveHere(ctx, here, page)
}

// resolveHere looks up entries of the drive.
func (r *run) resolveHere(ctx context.Context, here []want, page *dealt) error {
	nodes, err := r.findNodes(ctx, here)
	if err != nil {
		return err
	}
	var blobs []drive.BlobID
	for _, n := range nodes {
		if !n.IsFolder() && !slices.Contains(blobs, n.Blob) {
			blobs = append(blobs, n.Blob)
		}
	}
	found, err := r.opt.Content.FindMany(ctx, r.opt.DB, blobs...)
	if err != nil {
		return err
	}
	if err := r.live.learn(ctx, r.ground, slices.Collect(maps.Values(nodes))); err != nil {
		return err
	}
	for _, w := range here {
		r.one(w, nodes, found, page)
	}
	return nil
}

// one says what became of an entry of the drive.
func (r *run) one(w want, nodes map[int64]tree.Node, found map[drive.BlobID]content.Blob, page *dealt) {
	n, there := nodes[w.N]
	fail := func(reason string) { page.errors = append(page.errors, failure{w: w, reason: reason}) }
	b, stored := found[n.Blob]
	switch {
	case !there || !r.live.has(n):
		fail(reasonMissing)
	case n.IsFolder() && w.isFolder():
		page.pins = append(page.pins, pin{w: w, mtime: pick(w.MTime, n.MTime)})
	case n.IsFolder():
		fail(reasonFolder)
	case !stored: // replaced and purged between two reads
		fail(reasonMissing)
	case b.Damaged != 0:
		fail(reasonDamaged)
	default:
		page.pins = append(page.pins, pin{w: w, blob: b.ID, size: b.Size, crc32: b.CRC32, mtime: pick(w.MTime, n.MTime)})
	}
}

func pick(a, b drive.Time) drive.Time {
	if a != 0 {
		return a
	}
	return b
}

// findNodes reads the nodes that entries name by id or path.
func (r *run) findNodes(ctx context.Context, list []want) (map[int64]tree.Node, error) {
	var ids []drive.NodeID
	nodes := make(map[int64]tree.Node, len(list))
	for _, w := range list {
		if !w.Node.IsZero() {
			ids = append(ids, w.Node)
			continue
		}
		n, err := r.resolvePath(ctx, w.Path)
		if err == nil {
			nodes[w.N] = n
		} else if !drive.IsKind(err, drive.NotFound, drive.BadName, drive.ParentGone) {
			return nil, err
		}
	}
	byID, err := r.opt.Tree.FindMany(ctx, r.opt.DB, r.b.Account, ids...)
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		if n, ok := byID[w.Node]; ok {
			nodes[w.N] = n
		}
	}
	return nodes, nil
}

// resolvePath is Tree.Resolve that looks each folder up once.
func (r *run) resolvePath(ctx context.Context, text string) (tree.Node, error) {
	path, err := drive.ParsePath(text)
	if err != nil {
		return tree.Node{}, err
	}
	above, name, ok := path.Split()
	if !ok {
		return r.opt.Tree.Resolve(ctx, r.opt.DB, r.b.Account, path)
	}
	folder, known := r.paths[above.String()]
	if !known {
		n, err := r.opt.Tree.Resolve(ctx, r.opt.DB, r.b.Account, above)
		if err != nil {
			return tree.Node{}, err
		}
		folder, r.paths[above.String()] = n.ID, n.ID
	}
	n, there, err := r.opt.Tree.Child(ctx, r.opt.DB, r.b.Account, folder, name)
	if err == nil && !there {
		err = drive.Fail(drive.NotFound)
	}
	return n, err
}

// takeOver finds what a supplement's list names of another batch.
func (r *run) takeOver(ctx context.Context, list []want) (map[int64]pin, error) {
	from, numbers := drive.ExportID{}, map[int64]want{}
	var args []any
	for _, w := range list {
		if !w.From.IsZero() {
			from, numbers[w.FromN] = w.From, w
			args = append(args, w.FromN)
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	rows, err := r.opt.DB.Query(ctx, `SELECT n, NULLIF(blob_id, ''), size, crc32, mtime, charged FROM export_pins WHERE export_id = ? AND account_id = ?
		AND n IN (`+sqldb.Marks(len(args))+`)`, append([]any{from, r.b.Account}, args...)...)
	type row struct {
		n int64
		p pin
	}
	all, err := sqldb.Scan(rows, err, func(x *row, scan func(...any) error) error {
		return scan(&x.n, &x.p.blob, &x.p.size, &x.p.crc32, &x.p.mtime, &x.p.charged)
	})
	taken := map[int64]pin{}
	for _, x := range all {
		x.p.w = numbers[x.n]
		taken[x.p.w.N] = x.p
	}
	if err != nil {
		return nil, fmt.Errorf("read what batch %s has: %w", from, err)
	}
	return taken, nil
}

// errStale says that content has gone between the look and the transaction: the page must be looked
// up again.
var errStale = errors.New("content has gone since it was looked up")

// save records what became of entries, in one transaction with the save point (X1).
func (r *run) save(ctx context.Context, page dealt, upTo int64) error {
	err := r.record(ctx, page, upTo, nil)
	if drive.IsKind(err, drive.Quota) { // what is taken over is charged once more
		for _, p := range page.pins {
			page.errors = append(page.errors, failure{w: p.w, reason: reasonQuota})
		}
		page.pins = nil
		err = r.record(ctx, page, upTo, nil)
	}
	if err == nil {
		r.halt("saved")
	}
	return err
}

// record writes what became of entries, and moves the save point if upTo says so. store runs in the
// transaction and gives the content of the one pin that was fetched.
func (r *run) record(ctx context.Context, page dealt, upTo int64, store func(context.Context, *sqldb.Tx) (drive.BlobID, error)) error {
	var now drive.Time
	if len(page.errors) > 0 {
		var err error
		if now, err = r.now(ctx); err != nil {
			return err
		}
	}
	var bytes, charge drive.ByteSize
	for _, p := range page.pins {
		bytes += p.size
		charge += p.charged
	}
	err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if charge > 0 || store != nil {
			if err := r.opt.Ledger.Apply(ctx, tx, r.b.Account, quota.Move{Finished: charge}); err != nil {
				return err
			}
		}
		// The row before all that follows: it keeps others out, and says at once when they are in.
		err := r.b.update(ctx, tx, `collected = collected + ?, failed = failed + ?, bytes = bytes + ?,
			save_point = CASE WHEN save_point < ? THEN ? ELSE save_point END`,
			len(page.pins), len(page.errors), bytes, upTo, upTo)
		if err != nil {
			return err
		}
		if err := r.refer(ctx, tx, page.pins, store); err != nil {
			return err
		}
		if err := insertPins(ctx, tx, r.b, page.pins); err != nil {
			return err
		}
		return insertErrors(ctx, tx, r.b, page.errors, now)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counters.Collected.Add(int64(len(page.pins)))
	r.counters.Missing.Add(int64(len(page.errors)))
	r.b.Collected += int64(len(page.pins))
	r.b.Failed += int64(len(page.errors))
	r.b.Bytes += bytes
	r.b.SavePoint = max(r.b.SavePoint, upTo)
	return nil
}

// refer takes a reference for each pin (X4).
func (r *run) refer(ctx context.Context, tx *sqldb.Tx, pins []pin, store func(context.Context, *sqldb.Tx) (drive.BlobID, error)) (err error) {
	if store != nil {
		if err := r.opt.Hold(ctx, tx); err != nil {
			return err
		}
		pins[0].blob, err = store(ctx, tx)
		return err
	}
	gone, err := r.opt.Content.RefMany(ctx, tx, blobsOf(pins)...)
	if err == nil && len(gone) > 0 {
		err = errStale
	}
	return err
}

// blobsOf returns the contents of pins, once for each pin that has one.
func blobsOf(pins []pin) (ids []drive.BlobID) {
	for _, p := range pins {
		if !p.blob.IsZero() {
			ids = append(ids, p.blob)
		}
	}
	return ids
}

// blobColumn is the value of the column blob_id, which is not NULL: that of a folder is empty.
func (p *pin) blobColumn() string {
	if p.blob.IsZero() {
		return ""
	}
	return p.blob.String()
}

func insertPins(ctx context.Context, tx *sqldb.Tx, b *batch, pins []pin) error {
	if len(pins) == 0 {
		return nil
	}
	var args []any
	for _, p := range pins {
		args = append(args, b.ID, p.w.N, b.Account, p.blobColumn(), p.size, p.crc32, p.mtime, p.charged)
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_pins (export_id, n, account_id, blob_id, size, crc32, mtime, charged) VALUES "+
		rowMarks(len(pins), 8), args...)
	if err != nil {
		return fmt.Errorf("record what has arrived for batch %s: %w", b.ID, err)
	}
	return nil
}

func insertErrors(ctx context.Context, tx *sqldb.Tx, b *batch, failures []failure, now drive.Time) error {
	if len(failures) == 0 {
		return nil
	}
	var args []any
	for _, f := range failures {
		args = append(args, b.ID, f.w.N, f.w.Doc, f.w.Path, f.reason, clip(f.detail), now)
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_errors (export_id, n, doc, path, reason, detail, at) VALUES "+rowMarks(len(failures), 7), args...)
	if err != nil {
		return fmt.Errorf("record what failed of batch %s: %w", b.ID, err)
	}
	return nil
}
