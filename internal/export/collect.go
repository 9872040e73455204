package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/export/fetch"
)

// deferredError ends a try of a batch: some of its entries failed in a way that a later try or
// another machine may avoid.
type deferredError struct {
	entries   int64  // number of deferred entries
	reason    string // of the last one
	elsewhere bool   // another machine may reach the entries
	unread    bool   // the content of an entry could not be read from the store
}

// Error returns the number of deferred entries and the reason of the retry, for the log and the
// batch.
func (s *deferredError) Error() string {
	return fmt.Sprintf("%d entries are set aside: %s", s.entries, s.reason)
}

// collector collects the entries of batches and seals the batches.
type collector struct {
	*core
	lists     *listStore
	releaser  *releaser
	publisher *publisher

	fetch   *fetch.Fetcher
	writing sync.Map      // set of file names that this process is writing to the store
	slowAge time.Duration // overrides slowAge; set by tests
}

// run is one try of a worker to collect a batch: the cached look-ups, running fetches and deferred
// entries of the try.
type run struct {
	*collector
	b       *batch
	last    bool // last try: entries that would be deferred fail instead
	visible visibility
	paths   map[string]drive.NodeID // folder ids by path: cache of resolvePath

	mu       sync.Mutex // guards deferred, reserved, fetches and the counts of b
	deferred deferredError

	fetches map[*activeFetch]struct{}

	reserved drive.ByteSize // bytes reserved for documents that are being fetched
	budget   budget
}

// collect collects all entries of the batch and seals it. If entries below the save point are left,
// because an earlier try deferred them, it makes a second pass. It returns a *deferredError if only
// entries are left that were deferred in this try, and errYield if yield asked it to stop. What has
// arrived is committed in any case.
func (c *collector) collect(ctx context.Context, b *batch, yield func() bool) error {
	if err := c.checkActive(ctx, b.User); err != nil {
		return err
	}
	r := &run{collector: c, b: b, last: b.Tries >= maxTries, visible: visibility{}, paths: map[string]drive.NodeID{}}
	for pass := 0; ; pass++ {
		if err := r.collectPages(ctx, yield); err != nil {
			return err
		}
		switch left := b.Total - b.Collected - b.Failed; {
		case left == 0:
			return c.seal(ctx, b)
		case left == r.deferred.entries:
			return &r.deferred
		case pass > 0:
			return fmt.Errorf("batch %s: %d entries are left, and %d were set aside", b.ID, left, r.deferred.entries)
		}
		b.SavePoint, r.deferred = 0, deferredError{}
	}
}

// collectPages collects the entries above the save point, page by page, and returns nil after the
// last page. It returns errYield if yield returns true after a page. After errStale it reads the
// same entries again. It returns other errors; the pages before are committed.
func (r *run) collectPages(ctx context.Context, yield func() bool) error {
	for {
		list, err := r.nextPage(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		r.testHook("page")
		if err := r.collectPage(ctx, list, yield); err != nil && !errors.Is(err, errStale) {
			return err
		}
		if yield() {
			return errYield
		}
	}
}

// nextPage reads the next pageSize entries above the save point that have neither arrived nor
// failed.
func (r *run) nextPage(ctx context.Context) ([]listEntry, error) {
	// Joins instead of NOT EXISTS, which MariaDB materializes over all batches.
	rows, err := r.opt.DB.Query(ctx, `SELECT w.n, w.doc, w.node_id, w.url, w.path, w.name, w.mtime, w.from_id, w.from_n FROM export_wants w
		LEFT JOIN export_pins p ON p.export_id = w.export_id AND p.n = w.n
		LEFT JOIN export_errors x ON x.export_id = w.export_id AND x.n = w.n
		WHERE w.export_id = ? AND w.n > ? AND p.n IS NULL AND x.n IS NULL ORDER BY w.n LIMIT ?`, r.b.ID, r.b.SavePoint, pageSize)
	list, err := sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read the list of batch %s: %w", r.b.ID, err)
	}
	return list, nil
}

// collectPage collects one page. It first commits the entries of the drive in one transaction, then
// fetches remote entries and commits each as it arrives. Last it advances the save point.
func (r *run) collectPage(ctx context.Context, list []listEntry, yield func() bool) error {
	var page outcomes
	var away []listEntry
	for _, w := range list {
		if w.URL != "" && w.From.IsZero() {
			away = append(away, w)
		}
	}
	if err := r.resolve(ctx, list, &page, &away); err != nil {
		return err
	}
	if err := r.limitPinned(ctx, &page); err != nil {
		return err
	}
	if len(away) > 0 {
		if len(page.pins)+len(page.errors) > 0 { // entries of the drive do not wait for remote ones
			if err := r.save(ctx, page, 0); err != nil {
				return err
			}
			page = outcomes{}
		}
		if err := r.ensureSpace(ctx); err != nil {
			return err
		}
		if err := r.fetchAll(ctx, away, yield); err != nil {
			return err
		}
	}
	r.testHook("fetched")
	return r.save(ctx, page, list[len(list)-1].N)
}

// outcomes are the results of entries, committed together: arrived (pins) or failed (errors).
type outcomes struct {
	pins   []pin
	errors []failure
}

// pin is an arrived entry and the reference to its content.
type pin struct {
	w       listEntry
	blob    drive.BlobID // zero: a folder
	size    drive.ByteSize
	crc32   uint32
	mtime   drive.Time
	charged drive.ByteSize // bytes charged to the account; 0 for a file of the drive
}

// failure is an entry that cannot be collected, for a row of export_errors.
type failure struct {
	w      listEntry
	reason string
	detail string
}

// Failure reasons of entries of the drive. Package fetch has the reasons of remote documents.
const (
	reasonMissing = "missing" // no such file, or in the trash
	reasonFolder  = "folder"  // a folder where a file was expected
	reasonDamaged = "damaged" // the stored bytes are marked as damaged
	reasonQuota   = "quota"   // the account has no quota for the fetched bytes

	reasonUnreadable = "unreadable" // the store cannot read this content, but serves others
)

// resolve adds to page the outcomes of the entries of the drive, and of entries whose content a
// supplement reuses from the previous batch. Entries with a URL that cannot be reused are appended
// to away, to be fetched again.
func (r *run) resolve(ctx context.Context, list []listEntry, page *outcomes, away *[]listEntry) error {
	var here []listEntry
	taken, err := r.reusePins(ctx, list)
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
	return r.resolveDrive(ctx, here, page)
}

// resolveDrive looks up entries of the drive and adds to page, for each entry, a pin or a failure.
// It writes nothing; an error is a failed query, and page is incomplete then.
func (r *run) resolveDrive(ctx context.Context, here []listEntry, page *outcomes) error {
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
	if err := r.visible.load(ctx, r.core, slices.Collect(maps.Values(nodes))); err != nil {
		return err
	}
	for _, w := range here {
		r.resolveOne(w, nodes, found, page)
	}
	return nil
}

// resolveOne adds a pin or a failure for one entry of the drive to page: a failure if the node is
// missing, hidden, damaged or a folder instead of a file. nodes is keyed by entry number, found by
// content.
func (r *run) resolveOne(w listEntry, nodes map[int64]tree.Node, found map[drive.BlobID]content.Blob, page *outcomes) {
	n, there := nodes[w.N]
	fail := func(reason string) { page.errors = append(page.errors, failure{w: w, reason: reason}) }
	b, stored := found[n.Blob]
	switch {
	case !there || !r.visible.visible(n):
		fail(reasonMissing)
	case n.IsFolder() && w.isFolder():
		page.pins = append(page.pins, pin{w: w, mtime: firstNonZero(w.MTime, n.MTime)})
	case n.IsFolder():
		fail(reasonFolder)
	case !stored: // replaced and purged between the two reads
		fail(reasonMissing)
	case b.Damaged != 0:
		fail(reasonDamaged)
	default:
		page.pins = append(page.pins, pin{w: w, blob: b.ID, size: b.Size, crc32: b.CRC32, mtime: firstNonZero(w.MTime, n.MTime)})
	}
}

// firstNonZero returns a, or b if a is zero.
func firstNonZero(a, b drive.Time) drive.Time {
	if a != 0 {
		return a
	}
	return b
}

// findNodes returns the nodes of entries by entry number, found by id or by path. Entries without a
// node are absent; an error is a failed query.
func (r *run) findNodes(ctx context.Context, list []listEntry) (map[int64]tree.Node, error) {
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

// resolvePath returns the node at a path of the account and caches the id of its folder in r.paths.
// It fails with the error of drive.ParsePath for an invalid path, and with NotFound, also if the
// cached folder has been deleted since.
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

// reusePins returns the references to contents that the entries of a supplement reuse from the
// previous batch, by entry number. Entries that do not name a previous batch, or whose reference is
// gone, are absent.
func (r *run) reusePins(ctx context.Context, list []listEntry) (map[int64]pin, error) {
	from, numbers := drive.ExportID{}, map[int64]listEntry{}
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
		AND n IN (`+sqldb.Placeholders(len(args))+`)`, append([]any{from, r.b.Account}, args...)...)
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

// errStale reports that a content was deleted between lookup and transaction. The caller looks the
// page up again.
var errStale = errors.New("content has gone since it was looked up")

// save commits the outcomes of a page and the save point upTo in one transaction (X1). If the
// reused contents exceed the quota, all pins of the page fail instead. It returns errStale if a
// content was deleted meanwhile, and errFenced if the worker has lost the batch.
func (r *run) save(ctx context.Context, page outcomes, upTo int64) error {
	err := r.record(ctx, page, upTo, nil)
	if drive.IsKind(err, drive.Quota) { // reused pins are charged a second time
		for _, p := range page.pins {
			page.errors = append(page.errors, failure{w: p.w, reason: reasonQuota})
		}
		page.pins = nil
		err = r.record(ctx, page, upTo, nil)
	}
	if err == nil {
		r.testHook("saved")
	}
	return err
}

// record commits outcomes in one transaction, charges the pins to the account, and advances the
// save point to upTo if that is higher. store, if not nil, attaches the fetched content within the
// transaction and returns its blob; page then has exactly one pin. After the commit it updates the
// counts of r.b. It returns errFenced if the worker has lost the batch, and Quota.
func (r *run) record(ctx context.Context, page outcomes, upTo int64, store func(context.Context, *sqldb.Tx) (drive.BlobID, error)) error {
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
		// Update the batch row first: it fences out other workers and fails early for a stale
		// worker.
		err := r.b.update(ctx, tx, `collected = collected + ?, failed = failed + ?, bytes = bytes + ?,
			save_point = CASE WHEN save_point < ? THEN ? ELSE save_point END`,
			len(page.pins), len(page.errors), bytes, upTo, upTo)
		if err != nil {
			return err
		}
		if err := r.addRefs(ctx, tx, page.pins, store); err != nil {
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
	r.counters.FailedEntries.Add(int64(len(page.errors)))
	r.b.Collected += int64(len(page.pins))
	r.b.Failed += int64(len(page.errors))
	r.b.Bytes += bytes
	r.b.SavePoint = max(r.b.SavePoint, upTo)
	return nil
}

// addRefs adds a reference to the content of each pin within tx (X4). With store, the only pin gets
// the blob that store returns. It returns errStale if a content has been deleted.
func (r *run) addRefs(ctx context.Context, tx *sqldb.Tx, pins []pin, store func(context.Context, *sqldb.Tx) (drive.BlobID, error)) (err error) {
	if store != nil {
		if err := r.opt.CheckInstance(ctx, tx); err != nil {
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

// blobsOf returns the contents of pins, one per pin; folders have none.
func blobsOf(pins []pin) (ids []drive.BlobID) {
	for _, p := range pins {
		if !p.blob.IsZero() {
			ids = append(ids, p.blob)
		}
	}
	return ids
}

// blobColumn returns the value of the NOT NULL column blob_id; for a folder it is empty.
func (p *pin) blobColumn() string {
	if p.blob.IsZero() {
		return ""
	}
	return p.blob.String()
}

// insertPins inserts a row of export_pins per pin with one statement; none does nothing. It changes
// neither the counts of the batch nor references: the caller does so in the same transaction, which
// it rolls back on an error.
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

// insertErrors inserts a row of export_errors per failure with one statement; none does nothing.
// Details are shortened. It does not change the counts of the batch: the caller does so in the same
// transaction.
func insertErrors(ctx context.Context, tx *sqldb.Tx, b *batch, failures []failure, now drive.Time) error {
	if len(failures) == 0 {
		return nil
	}
	var args []any
	for _, f := range failures {
		args = append(args, b.ID, f.w.N, f.w.Doc, f.w.Path, f.reason, truncate(f.detail), now)
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_errors (export_id, n, doc, path, reason, detail, at) VALUES "+rowMarks(len(failures), 7), args...)
	if err != nil {
		return fmt.Errorf("record what failed of batch %s: %w", b.ID, err)
	}
	return nil
}
