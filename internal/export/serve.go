package export

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
	"smartdrive/internal/export/zipline"
)

// sender lays zips out and sends them.
type sender struct {
	*ground
	windows    *zipline.Budget // of the zips that are being sent
	laying     *turn.Turns     // zips that are about to be sent: see enter
	cache      archives
	directMost int // directMost; of tests
}

// Download is a sealed zip, ready to be sent.
type Download struct {
	View
	Account drive.AccountID
	Picked  []drive.NodeID // the files and folders that were asked for at once; nil: it is that of a batch
	archive *zipline.Archive
	sender  *sender
	grant   *zipline.Grant // of one of Direct or OpenSoFar, of which nothing is kept
	soFar   bool
}

// Filename is what the zip is called where it is saved.
func (d Download) Filename() string {
	name := zipName(d.Name, part{d.Set, d.Part, d.Parts}, d.Revision)
	if d.soFar {
		name = strings.TrimSuffix(name, ".zip") + "-so-far.zip"
	}
	return name
}

func zipName(name string, p part, revision int64) string {
	name += p.suffix()
	if revision > 1 {
		return fmt.Sprintf("%s-%d.zip", name, revision)
	}
	return name + ".zip"
}

// Serve answers a GET or HEAD of a client, a user or an address, with the zip or ranges of it; see
// zipline.Archive.Serve. Headers that the caller has set stay.
func (d Download) Serve(w http.ResponseWriter, r *http.Request, client string, refuse func(error)) {
	ended := drive.Time(0)
	if d.EndedAt != nil {
		ended = *d.EndedAt
	}
	o := zipline.Options{Broken: func(err *zipline.EntryError) { d.sender.broken(context.WithoutCancel(r.Context()), d.ID, err) }}
	if d.grant != nil {
		o.Window, o.Parallel = directWindow, directParallel
	}
	d.archive.Serve(tally{w, &d.sender.counters.Sent}, r, d.sender.source(d.archive), zipline.ServeOptions{
		Options: o, Modified: ended, Refuse: refuse, Budget: d.sender.windows, Client: client, Grant: d.grant,
	})
}

// Open returns a sealed batch of the caller's account. One that is not sealed yet is WrongState,
// one that is over Gone.
func (e *Exports) Open(ctx context.Context, who drive.Who, id drive.ExportID) (Download, error) {
	return e.sender.open(ctx, who, id)
}

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

// notSealed says why a batch has no zip.
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

// layout computes the zip of a sealed batch, which is the same whoever computes it and whenever.
func (s *sender) layout(ctx context.Context, b batch) (*zipline.Archive, error) {
	end, err := enter(ctx, s.laying, b.Account)
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

// broken notes that a zip cannot be delivered whole, so that its owner sees why.
func (s *sender) broken(ctx context.Context, id drive.ExportID, why *zipline.EntryError) {
	s.counters.Broken.Add(1)
	s.log.ErrorContext(ctx, "an entry of a zip cannot be delivered", "export", id, "entry", why.Index, "error", why.Err)
	if !why.Damaged() || id.IsZero() {
		return
	}
	err := s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE exports SET error = 'damaged' WHERE id = ? AND state = 'sealed'", id)
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "a damaged zip could not be marked", "export", id, "error", err)
	}
}

// archives keeps the layouts of the last zips that were asked for: clients come again for each
// range. One that many ask for at once is laid out once.
type archives struct {
	mu     sync.Mutex
	kept   []kept // the last used one at the end
	laying map[drive.ExportID]chan struct{}
}

type kept struct {
	id   drive.ExportID
	a    *zipline.Archive
	size int // bytes of memory
}

// keepArchives is how many, and keepMemory how large they are together, in bytes; one of 10,000
// entries takes some 3 MiB, and with the longest names ten. The last one is kept in any case.
const (
	keepArchives = 8
	keepMemory   = 32 << 20
	entryMemory  = 200 // bytes of an entry beside its texts
)

func memoryOf(a *zipline.Archive) (n int) {
	for i := range a.Len() {
		e := a.Entry(i)
		n += entryMemory + len(e.Name) + len(e.Inline)
	}
	return n
}

func (c *archives) get(ctx context.Context, id drive.ExportID, load func() (*zipline.Archive, error)) (*zipline.Archive, error) {
	for {
		a, busy, done := c.use(id)
		switch {
		case a != nil:
			return a, nil
		case done != nil:
			a, err := load()
			c.keep(id, a)
			close(done)
			return a, err
		}
		select { // when that fails it is this one's turn
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// use returns the archive of a batch; or, while somebody lays it out, what is closed after that; or
// what the caller closes who is to do so.
func (c *archives) use(id drive.ExportID) (a *zipline.Archive, busy <-chan struct{}, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.kept {
		if k.id == id {
			c.kept = append(append(c.kept[:i:i], c.kept[i+1:]...), k)
			return k.a, nil, nil
		}
	}
	if busy, is := c.laying[id]; is {
		return nil, busy, nil
	}
	if c.laying == nil {
		c.laying = map[drive.ExportID]chan struct{}{}
	}
	done = make(chan struct{})
	c.laying[id] = done
	return nil, nil, done
}

// keep keeps what was laid out; nil: that failed.
func (c *archives) keep(id drive.ExportID, a *zipline.Archive) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.laying, id)
	if a == nil {
		return
	}
	c.kept = append(slices.Clone(c.kept[max(0, len(c.kept)-keepArchives+1):]), kept{id, a, memoryOf(a)})
	sum := 0
	for i, k := range slices.Backward(c.kept) {
		if sum += k.size; sum > keepMemory && i < len(c.kept)-1 {
			c.kept = slices.Clone(c.kept[i+1:]) // what it held is gone with the slice
			return
		}
	}
}

func (c *archives) drop(id drive.ExportID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.kept {
		if k.id == id {
			c.kept = append(c.kept[:i:i], c.kept[i+1:]...)
			return
		}
	}
}

// source finds the files of a zip's blobs. A list names blobs, not files: a damaged one may have
// been healed since. The names of what comes next are read together.
func (s *sender) source(a *zipline.Archive) zipline.Source {
	return &source{sender: s, archive: a, files: map[string]string{}}
}

type source struct {
	sender  *sender
	archive *zipline.Archive

	mu    sync.Mutex
	files map[string]string
	at    int // entries before it were looked up, in the order of the zip
}

const (
	ahead     = 200       // names that one statement reads
	keepNames = 5 * ahead // names that are kept, at most once more: of those that are read just now, and before
)

// Open implements zipline.Source.
func (s *source) Open(ctx context.Context, name string) (blob.Object, error) {
	file, err := s.file(ctx, name)
	if err != nil {
		return nil, err
	}
	obj, err := s.sender.opt.Store.Open(ctx, file)
	if !drive.IsKind(err, drive.NotFound) {
		return obj, err
	}
	id, parseErr := drive.ParseID[drive.BlobID](name) // perhaps it was healed since its name was read
	if parseErr != nil {
		return nil, err
	}
	b, findErr := s.sender.opt.Content.Find(ctx, s.sender.opt.DB, id)
	if findErr != nil || b.File == file {
		return nil, err
	}
	return s.sender.opt.Store.Open(ctx, b.File)
}

// file returns the file of a blob, and reads those of the entries that follow it.
func (s *source) file(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if file, ok := s.files[name]; ok {
		return file, nil
	}
	ids, err := s.following(name)
	if err != nil {
		return "", err
	}
	found, err := s.sender.opt.Content.FindMany(ctx, s.sender.opt.DB, ids...)
	if err != nil {
		return "", err
	}
	if len(s.files) > keepNames {
		clear(s.files) // readers go forward; one that goes back reads them again
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

// following are the blobs of an entry and of those behind it.
func (s *source) following(name string) (ids []drive.BlobID, err error) {
	start := s.at
	for start < s.archive.Len() && s.archive.Entry(start).Blob != name {
		start++
	}
	if start == s.archive.Len() { // behind what was read: a range that was begun in the middle, or a reader that went back
		for start = 0; start < s.archive.Len() && s.archive.Entry(start).Blob != name; start++ {
		}
	}
	for s.at = start; s.at < s.archive.Len() && len(ids) < ahead; s.at++ {
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
