package export

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
	"example.org/smartdrive/internal/export/zipline"
)

// sender lays out zips, caches the layouts of sealed batches and sends the bytes.
type sender struct {
	*core
	budget     *zipline.Budget // memory of the zips being sent
	turns      *turn.Limiter   // limits concurrent layouts; see acquireTurn
	cache      layoutCache
	directMost int // overrides directMost; set by tests
}

// Download is a zip that is laid out and ready to be sent. The caller must call Close.
type Download struct {
	View
	Account  drive.AccountID
	Selected []drive.NodeID // selected files and folders of a zip from OpenDirect; nil for a zip of a batch
	archive  *zipline.Archive
	sender   *sender
	grant    *zipline.Grant // memory of a zip from OpenDirect or OpenSoFar, which is not cached; else nil
	soFar    bool
}

// Filename returns the name under which a browser saves the zip: with part and revision, and
// "-so-far" for an unfinished batch.
func (d Download) Filename() string {
	name := zipName(d.Name, part{d.Set, d.Part, d.Parts}, d.Revision)
	if d.soFar {
		name = strings.TrimSuffix(name, ".zip") + "-so-far.zip"
	}
	return name
}

// zipName returns the file name of a zip, with the part of its set and its revision if there are
// several.
func zipName(name string, p part, revision int64) string {
	name += p.suffix()
	if revision > 1 {
		return fmt.Sprintf("%s-%d.zip", name, revision)
	}
	return name + ".zip"
}

// Serve answers a GET or HEAD request with the zip or ranges of it; see zipline.Archive.Serve. The
// memory is accounted to client, a user or an address. For an error before the first byte it calls
// refuse, which must answer; after an error later the connection breaks off. Headers that the
// caller has set are kept.
func (d Download) Serve(w http.ResponseWriter, r *http.Request, client string, refuse func(error)) {
	ended := drive.Time(0)
	if d.EndedAt != nil {
		ended = *d.EndedAt
	}
	o := zipline.Options{OnBroken: func(err *zipline.EntryError) { d.sender.reportBroken(context.WithoutCancel(r.Context()), d.ID, err) }}
	if d.grant != nil {
		o.Window, o.Parallel = directWindow, directParallel
	}
	d.archive.Serve(countingWriter{w, &d.sender.counters.Sent}, r, d.sender.source(d.archive), zipline.ServeOptions{
		Options: o, Modified: ended, Refuse: refuse, Budget: d.sender.budget, Client: client, Grant: d.grant,
	})
}

// Open returns the zip of a sealed batch of the caller's account. A batch that is not sealed yet,
// or failed, is WrongState; an expired or cancelled one is Gone.
func (e *Exports) Open(ctx context.Context, who drive.Who, id drive.ExportID) (Download, error) {
	return e.sender.open(ctx, who, id)
}

// open returns the zip of a sealed batch of the account, laid out or from the cache. Errors:
// NotFound, the error of View.notSealed in any other state, and those of the layout. The Download
// holds no memory grant.
func (s *sender) open(ctx context.Context, who drive.Who, id drive.ExportID) (Download, error) {
	b, err := s.find(ctx, s.opt.DB, "WHERE id = ? AND account_id = ?", id, who.Account)
	if err != nil {
		return Download{}, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return Download{}, err
	}
	v := b.view(now)
	if v.State != Sealed {
		return Download{}, v.notSealed()
	}
	archive, err := s.cache.get(ctx, id, func() (*zipline.Archive, error) { return s.layout(ctx, b) })
	return Download{View: v, Account: b.Account, archive: archive, sender: s}, err
}

// notSealed returns the error for a batch without a zip: Gone if it has expired or was cancelled,
// else WrongState with the state.
func (v View) notSealed() error {
	switch v.State {
	case Expired:
		return drive.Fail(drive.Gone, "reason", "expired")
	case Cancelled:
		return drive.Fail(drive.Gone, "reason", "withdrawn")
	case Pending, Running, Sealed, Aborted, Failed:
	}
	return drive.Fail(drive.WrongState, "state", string(v.State))
}

// layout computes the zip of a sealed batch from its frozen list. It waits for one of the account's
// turns first. If size or ETag differ from the sealed ones, it returns Internal.
func (s *sender) layout(ctx context.Context, b batch) (*zipline.Archive, error) {
	end, err := acquireTurn(ctx, s.turns, b.Account)
	if err != nil {
		return nil, err
	}
	defer end()
	entries, err := s.frozen(ctx, b)
	if err != nil {
		return nil, err
	}
	archive, err := zipline.Layout(entries)
	if err != nil {
		return nil, fmt.Errorf("lay out batch %s: %w", b.ID, err)
	}
	if archive.Size() != b.Size || archive.ETag() != b.ETag {
		return nil, drive.Wrap(fmt.Errorf("batch %s was sealed with %d bytes as %s and has %d as %s now", b.ID, b.Size, b.ETag,
			archive.Size(), archive.ETag()), drive.Internal)
	}
	return archive, nil
}

// reportBroken logs and counts an entry that cannot be delivered. If its bytes are damaged, it
// marks the batch as damaged for the owner.
func (s *sender) reportBroken(ctx context.Context, id drive.ExportID, why *zipline.EntryError) {
	s.counters.BrokenEntries.Add(1)
	s.log.ErrorContext(ctx, "an entry of a zip cannot be delivered; the download breaks off", "export", id, "entry", why.Index, "error", why.Err)
	if !why.Damaged() || id.IsZero() {
		return
	}
	err := s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE exports SET error = 'damaged' WHERE id = ? AND state = 'sealed'", id)
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "a zip with a damaged entry could not be marked as damaged", "export", id, "error", err)
	}
}

// layoutCache caches the layouts of recently used zips, because clients send one request per range.
// Concurrent requests for one zip share one layout.
type layoutCache struct {
	mu      sync.Mutex
	layouts []cachedLayout                   // least recently used first
	loading map[drive.ExportID]chan struct{} // channels closed when a running layout ends
}

// cachedLayout is an entry of the layout cache.
type cachedLayout struct {
	id   drive.ExportID
	a    *zipline.Archive
	size int // bytes of memory
}

// Limits of the layout cache: maxCached layouts, maxCachedMemory bytes in total. A layout of 10,000
// entries takes some 3 MiB, with the longest names 10 MiB. The last used layout always stays.
const (
	maxCached       = 8
	maxCachedMemory = 32 << 20
	entryMemory     = 200 // bytes of an entry beside its names
)

// memoryOf returns the approximate memory of a layout in bytes.
func memoryOf(a *zipline.Archive) (n int) {
	for i := range a.Len() {
		e := a.Entry(i)
		n += entryMemory + len(e.Name) + len(e.Inline)
	}
	return n
}

// get returns the cached layout of a batch, or calls load and caches its result. While another
// caller loads the same layout, it waits for that. A failed load is not cached; the next waiter
// loads again. If ctx ends while it waits, it returns the cause of ctx.
func (c *layoutCache) get(ctx context.Context, id drive.ExportID, load func() (*zipline.Archive, error)) (*zipline.Archive, error) {
	for {
		a, busy, done := c.lookup(id)
		switch {
		case a != nil:
			return a, nil
		case done != nil:
			a, err := load()
			c.put(id, a)
			close(done)
			return a, err
		}
		select { // if the load failed, this caller loads
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lookup returns exactly one of: the cached layout a; busy, if another caller is loading it, which
// is closed when that load ends; or done, if the caller must load the layout, call put, and close
// done.
func (c *layoutCache) lookup(id drive.ExportID) (a *zipline.Archive, busy <-chan struct{}, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.layouts {
		if k.id == id {
			c.layouts = append(append(c.layouts[:i:i], c.layouts[i+1:]...), k)
			return k.a, nil, nil
		}
	}
	if busy, is := c.loading[id]; is {
		return nil, busy, nil
	}
	if c.loading == nil {
		c.loading = map[drive.ExportID]chan struct{}{}
	}
	done = make(chan struct{})
	c.loading[id] = done
	return nil, nil, done
}

// put ends a load and caches its layout; nil: the load failed. It evicts the least recently used
// layouts above the limits.
func (c *layoutCache) put(id drive.ExportID, a *zipline.Archive) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loading, id)
	if a == nil {
		return
	}
	c.layouts = append(slices.Clone(c.layouts[max(0, len(c.layouts)-maxCached+1):]), cachedLayout{id, a, memoryOf(a)})
	sum := 0
	for i, k := range slices.Backward(c.layouts) {
		if sum += k.size; sum > maxCachedMemory && i < len(c.layouts)-1 {
			c.layouts = slices.Clone(c.layouts[i+1:]) // the clone frees the evicted layouts
			return
		}
	}
}

// evict removes the layout of a batch from the cache, if it is there. Downloads that use it
// continue.
func (c *layoutCache) evict(id drive.ExportID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.layouts {
		if k.id == id {
			c.layouts = append(c.layouts[:i:i], c.layouts[i+1:]...)
			return
		}
	}
}

// source returns the Source from which the contents of a zip are opened. The frozen list names
// blobs, not files, because a damaged blob may have been repaired with another file. The names of
// files are read ahead in the order of the zip.
func (s *sender) source(a *zipline.Archive) zipline.Source {
	return &source{sender: s, archive: a, files: map[string]string{}}
}

// source finds the files of a zip's blobs in the store.
type source struct {
	sender  *sender
	archive *zipline.Archive

	mu    sync.Mutex
	files map[string]string // names in the store by blob id; a cache
	at    int               // next entry to look up, in the order of the zip
}

const (
	prefetchNames = 200               // names read per statement
	maxNames      = 5 * prefetchNames // names cached before the cache is cleared
)

// Open opens the content named name, the text of a blob id, which the caller must close. If the
// file was replaced since its name was read, it opens the new file. It returns NotFound if the
// content is missing.
func (s *source) Open(ctx context.Context, name string) (blob.Object, error) {
	file, err := s.file(ctx, name)
	if err != nil {
		return nil, err
	}
	obj, err := s.sender.opt.Store.Open(ctx, file)
	if !drive.IsKind(err, drive.NotFound) {
		return obj, err
	}
	id, parseErr := drive.ParseID[drive.BlobID](name) // the blob may have been repaired since
	if parseErr != nil {
		return nil, err
	}
	b, findErr := s.sender.opt.Content.Find(ctx, s.sender.opt.DB, id)
	if findErr != nil || b.File == file {
		return nil, err
	}
	return s.sender.opt.Store.Open(ctx, b.File)
}

// file returns the name in the store of a blob. It caches the names of the next entries with the
// same query. It returns NotFound if there is no such blob.
func (s *source) file(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if file, ok := s.files[name]; ok {
		return file, nil
	}
	ids, err := s.nextBlobs(name)
	if err != nil {
		return "", err
	}
	found, err := s.sender.opt.Content.FindMany(ctx, s.sender.opt.DB, ids...)
	if err != nil {
		return "", err
	}
	if len(s.files) > maxNames {
		clear(s.files) // readers move forward; others query again
	}
	for id, b := range found {
		s.files[id.String()] = b.File
	}
	file, ok := s.files[name]
	if !ok {
		err = drive.Fail(drive.NotFound)
	}
	return file, err
}

// nextBlobs returns the blob of the named entry and those of the next entries whose names are not
// cached, prefetchNames at most. It advances s.at; the caller holds s.mu.
func (s *source) nextBlobs(name string) (ids []drive.BlobID, err error) {
	start := s.at
	for start < s.archive.Len() && s.archive.Entry(start).Blob != name {
		start++
	}
	if start == s.archive.Len() { // not ahead: a range request, or a reader that went back
		for start = 0; start < s.archive.Len() && s.archive.Entry(start).Blob != name; start++ {
		}
	}
	for s.at = start; s.at < s.archive.Len() && len(ids) < prefetchNames; s.at++ {
		text := s.archive.Entry(s.at).Blob
		if _, known := s.files[text]; known || text == "" {
			continue
		}
		id, err := drive.ParseID[drive.BlobID](text)
		if err != nil {
			return nil, drive.Wrap(err, drive.Internal)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
