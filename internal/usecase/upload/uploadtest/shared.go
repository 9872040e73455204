package uploadtest

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer/memory"
)

// Shared is the state that instances of one installation share besides the database: an object
// store, a journal that may be lost at any moment, and a timer queue. It implements the contract of
// blob/caps.go in memory, in its strictest form: Fence makes running writes fail, nothing can be
// read before it is sealed, and a lost journal refuses every gen.
type Shared struct {
	Clock *Clock
	Queue *memory.Queue

	mu       sync.Mutex
	journals map[drive.UploadID]*sharedJournal
	removed  map[drive.UploadID]bool // contents of these uploads no longer belong to the staging
	uploads  map[drive.UploadID]*storedUpload
	objects  map[string][]byte
	kept     []blob.Entry // quarantined entries
	skew     time.Duration
}

// storedUpload is an upload in the object store; it outlives its journal.
type storedUpload struct {
	ref   blob.Ref
	parts map[int][]byte
	tails map[int][]byte
}

// newStoredUpload returns the stored bytes of upload ref with these parts, by number, and no tails.
func newStoredUpload(ref blob.Ref, parts map[int][]byte) *storedUpload {
	return &storedUpload{ref: ref, parts: parts, tails: map[int][]byte{}}
}

// sharedJournal is the journal of an upload: which parts and tails its bytes are, by number, and
// who may write.
type sharedJournal struct {
	fence  int64 // writes of this gen and below are refused
	closed bool  // rebuilt: refuses every gen until fenced
	sealed bool
	parts  map[int]blob.Part
	tails  map[int]blob.Part
	leases map[int]*lease
	last   drive.Time // time of the last write
}

// newSharedJournal returns an empty, open journal without a fence.
func newSharedJournal() *sharedJournal {
	return &sharedJournal{parts: map[int]blob.Part{}, tails: map[int]blob.Part{}, leases: map[int]*lease{}}
}

// lease marks a part as being written. It expires unless renewed.
type lease struct{ until time.Time }

// leaseTime is how long a lease on a part lasts unless it is renewed.
const leaseTime = 20 * time.Second

// NewShared returns an empty Shared.
func NewShared() *Shared {
	s := &Shared{
		Clock:    &Clock{now: epoch},
		journals: map[drive.UploadID]*sharedJournal{}, removed: map[drive.UploadID]bool{},
		uploads: map[drive.UploadID]*storedUpload{}, objects: map[string][]byte{},
	}
	s.Queue = memory.New(memory.Options{Now: s.Clock.Now})
	return s
}

// ForgetJournals deletes all journals, as the loss of the Redis server that stores them would.
func (s *Shared) ForgetJournals() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.journals)
	clear(s.removed)
}

// ForgetFence loses the last fence of an upload's journal, like a failover without the end of the
// log.
func (s *Shared) ForgetFence(id drive.UploadID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journals[id].fence = 0
}

// ForgetTimers deletes all timers, as the loss of the Redis server that stores them would. The test
// must then call Site.LoseTimers on every site.
func (s *Shared) ForgetTimers() { s.Queue.Forget() }

// SkewJournal sets the journals' clock ahead by the given time.
func (s *Shared) SkewJournal(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = by
}

// LeaveLease leaves part n leased, as an instance does that dies while it writes.
func (s *Shared) LeaveLease(id drive.UploadID, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journals[id].leases[n] = s.newLease()
}

// newLease returns a lease that ends leaseTime after now of the clock. It is not in a journal yet.
func (s *Shared) newLease() *lease { return &lease{until: s.Clock.Now().Add(leaseTime)} }

// now returns the time of the staging's clock, which is skewed against Clock.
func (s *Shared) now() drive.Time { return drive.TimeOf(s.Clock.Now().Add(s.skew)) }

var _ blob.Staging = (*Shared)(nil)

// Caps reports that several instances share the staging.
func (s *Shared) Caps() blob.Caps { return blob.Caps{Shared: true} }

// Adopt always returns false: this staging cannot take over another's parts.
func (s *Shared) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }

// Create creates an upload without parts. It does nothing if the upload has a journal, and never
// fails.
func (s *Shared) Create(_ context.Context, ref blob.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journalLocked(ref) == nil {
		s.uploads[ref.ID] = newStoredUpload(ref, map[int][]byte{})
		s.journals[ref.ID] = newSharedJournal()
	}
	return nil
}

// journalLocked returns the journal of an upload; if it was lost, one rebuilt from the store. nil:
// the upload does not exist.
func (s *Shared) journalLocked(ref blob.Ref) *sharedJournal {
	if j := s.journals[ref.ID]; j != nil {
		return j
	}
	if s.removed[ref.ID] {
		return nil
	}
	j := newSharedJournal()
	j.closed = true
	content, isSealed := s.objects[ref.ID.String()]
	switch up := s.uploads[ref.ID]; {
	case up != nil:
		for n, b := range up.parts {
			j.parts[n] = blob.Part{N: n, Size: drive.ByteSize(len(b)), Unread: true}
		}
		for n, b := range up.tails {
			j.tails[n] = blob.Part{N: n, Size: drive.ByteSize(len(b)), Unread: true}
		}
	case isSealed:
		j.sealed = true
		for n, b := range split(content, ref.PartSize) {
			j.parts[n] = blob.Part{N: n, Size: drive.ByteSize(len(b)), Unread: true}
		}
	default:
		return nil
	}
	s.journals[ref.ID] = j
	return j
}

// split cuts content into parts of partSize bytes, by number.
func split(content []byte, partSize drive.ByteSize) map[int][]byte {
	parts := map[int][]byte{}
	for n := 0; len(content) > 0; n++ {
		size := min(len(content), int(partSize))
		parts[n], content = content[:size:size], content[size:]
	}
	return parts
}

// Write stores a part while it holds a lease on the part, renewed by each read of body. Errors:
// PartExistsError if the part is stored, those of mayWrite and of body, and those of endWrite if
// the upload was fenced, closed, sealed or removed meanwhile.
func (s *Shared) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	if err := ctx.Err(); err != nil {
		return blob.Part{}, drive.Wrap(err, drive.Unavailable)
	}
	mine, err := s.beginWrite(ref, w)
	if err != nil {
		return blob.Part{}, err
	}
	data, err := io.ReadAll(&renewingReader{Reader: body, s: s, l: mine})
	var part blob.Part
	if err == nil {
		part, err = body.Finish()
	}
	return part, errors.Join(err, s.endWrite(ref, w, mine, part, data, err == nil))
}

// renewingReader renews the lease l at each Read of the Reader.
type renewingReader struct {
	io.Reader
	s *Shared
	l *lease
}

// Read renews the lease and then reads from the Reader, whose results it returns.
func (r *renewingReader) Read(p []byte) (int, error) {
	r.s.mu.Lock()
	r.l.until = r.s.newLease().until
	r.s.mu.Unlock()
	return r.Reader.Read(p)
}

// beginWrite leases the part for one writer, replacing another's lease. The caller must pass the
// lease to endWrite. Errors: those of mayWrite, and PartExistsError unless the content of the
// stored part is unknown.
func (s *Shared) beginWrite(ref blob.Ref, w blob.Write) (*lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayWrite(ref, w.N, w.Gen); err != nil {
		return nil, err
	}
	j := s.journals[ref.ID]
	if have, ok := j.parts[w.N]; ok && !have.Unread {
		return nil, &blob.PartExistsError{Part: have}
	}
	l := s.newLease()
	j.leases[w.N] = l
	return l, nil
}

// mayWrite checks whether part n may be written or dropped under gen: NotFound, WrongState or
// InProgress.
func (s *Shared) mayWrite(ref blob.Ref, n int, gen int64) error {
	j := s.journals[ref.ID]
	switch {
	case j == nil && s.journalLocked(ref) == nil:
		return drive.Fail(drive.NotFound)
	case j == nil, j.closed, j.sealed, gen <= j.fence:
		return drive.Fail(drive.WrongState)
	case j.leases[n] != nil && j.leases[n].until.After(s.Clock.Now()):
		return drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return nil
}

// endWrite releases the lease if mine still is the part's and, if whole, stores data as the part
// and deletes its tail. If whole it returns NotFound if the upload was removed, and WrongState if
// the lease was lost or the upload closed, sealed or fenced.
func (s *Shared) endWrite(ref blob.Ref, w blob.Write, mine *lease, part blob.Part, data []byte, whole bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, up := s.journals[ref.ID], s.uploads[ref.ID]
	held := j != nil && j.leases[w.N] == mine
	if held {
		delete(j.leases, w.N)
	}
	switch {
	case !whole:
		return nil
	case up == nil:
		return drive.Fail(drive.NotFound)
	case !held, j.closed, j.sealed, w.Gen <= j.fence: // fenced or lost
		return drive.Fail(drive.WrongState)
	}
	up.parts[w.N], j.parts[w.N], j.last = data, part, s.now()
	delete(up.tails, w.N)
	delete(j.tails, w.N)
	return nil
}

// Drop deletes part n and its tail, whether stored or not. It returns NotFound if the upload was
// removed, and WrongState or InProgress if gen may not write now.
func (s *Shared) Drop(_ context.Context, ref blob.Ref, gen int64, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayWrite(ref, n, gen); err != nil {
		return err
	}
	delete(s.journals[ref.ID].parts, n)
	delete(s.uploads[ref.ID].parts, n)
	delete(s.journals[ref.ID].tails, n)
	delete(s.uploads[ref.ID].tails, n)
	return nil
}

// Load returns the parts and tails of the journal in the order of their numbers, and the number of
// unexpired leases. It returns NotFound without a journal.
func (s *Shared) Load(_ context.Context, ref blob.Ref) (blob.Staged, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journalLocked(ref)
	if j == nil {
		return blob.Staged{}, drive.Fail(drive.NotFound)
	}
	staged := blob.Staged{Last: j.last, Now: s.now(), Parts: inOrder(j.parts), Tails: inOrder(j.tails)}
	for _, p := range slices.Concat(staged.Parts, staged.Tails) {
		staged.Held += p.Size
	}
	for _, l := range j.leases {
		if l.until.After(s.Clock.Now()) {
			staged.Writing++
		}
	}
	return staged, nil
}

// inOrder returns the parts of the map in the order of their numbers.
func inOrder(parts map[int]blob.Part) []blob.Part {
	return slices.SortedFunc(maps.Values(parts), func(a, b blob.Part) int { return a.N - b.N })
}

// Fence ends all leases and refuses writes of gen and below from now on; it also opens a rebuilt
// journal. It returns what Load does.
func (s *Shared) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	s.mu.Lock()
	if j := s.journalLocked(ref); j != nil {
		j.fence, j.closed = max(j.fence, gen), false
		clear(j.leases)
	}
	s.mu.Unlock()
	return s.Load(ctx, ref)
}

// Remove deletes the journal, parts and tails, of which none need exist; sealed content stays. It
// never fails.
func (s *Shared) Remove(_ context.Context, ref blob.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.journals, ref.ID)
	delete(s.uploads, ref.ID)
	s.removed[ref.ID] = true
	return nil
}

// Seal turns the parts into the content named by the upload's id, and removes the parts. Errors:
// NotFound if there are neither; PartsMissing unless the content has that size; InProgress while a
// part is leased. It returns nil if sealed content of that size exists already.
func (s *Shared) Seal(_ context.Context, ref blob.Ref, size drive.ByteSize) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.uploads[ref.ID]
	content, isSealed := s.objects[ref.ID.String()]
	switch {
	case up == nil && isSealed && drive.ByteSize(len(content)) == size:
		return nil
	case up == nil && isSealed:
		return drive.Fail(drive.PartsMissing)
	case up == nil:
		return drive.Fail(drive.NotFound)
	}
	j := s.journalLocked(ref)
	for _, l := range j.leases {
		if l.until.After(s.Clock.Now()) {
			return drive.Fail(drive.InProgress, "retry_after", 1)
		}
	}
	content = []byte{}
	for n := range len(j.parts) {
		content = append(content, up.parts[n]...)
	}
	if drive.ByteSize(len(content)) != size {
		return drive.Fail(drive.PartsMissing)
	}
	s.objects[ref.ID.String()], j.sealed = content, true
	delete(s.uploads, ref.ID)
	return nil
}

// Unseal splits the content into parts again, of ref.PartSize bytes each; the content stays. It
// does nothing if there are parts, and returns NotFound if there is no content.
func (s *Shared) Unseal(_ context.Context, ref blob.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, isSealed := s.objects[ref.ID.String()]
	switch {
	case s.uploads[ref.ID] != nil:
		return nil
	case !isSealed:
		return drive.Fail(drive.NotFound)
	}
	j := s.journalLocked(ref)
	s.uploads[ref.ID], j.sealed = newStoredUpload(ref, split(content, ref.PartSize)), false
	return nil
}

// OpenStaged opens the sealed content, which the caller must close. It returns NotFound if the
// upload is not sealed.
func (s *Shared) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	s.mu.Lock()
	up := s.uploads[ref.ID]
	s.mu.Unlock()
	if up != nil {
		return nil, drive.Fail(drive.NotFound)
	}
	return SharedStore{s}.Open(ctx, ref.ID.String())
}

// Verify is Load: stored parts cannot be damaged here.
func (s *Shared) Verify(ctx context.Context, ref blob.Ref, _ int64) (blob.Staged, error) {
	return s.Load(ctx, ref)
}

// ListStaged calls fn once for each upload that has a journal or parts, in no order, and stops at
// the first error of fn, which it returns.
func (s *Shared) ListStaged(_ context.Context, fn func(blob.Entry) error) error {
	s.mu.Lock()
	all := map[drive.UploadID]blob.Entry{}
	for id := range s.journals {
		all[id] = blob.Entry{Path: "journal/" + id.String(), Name: id.String()}
	}
	for id, up := range s.uploads {
		stray := blob.Entry{Path: "multipart/" + id.String(), Name: id.String()}
		for _, all := range []map[int][]byte{up.parts, up.tails} {
			for _, b := range all {
				stray.Size += drive.ByteSize(len(b))
			}
		}
		all[id] = stray
	}
	s.mu.Unlock()
	for _, stray := range all {
		if err := fn(stray); err != nil {
			return err
		}
	}
	return nil
}

// QuarantineStaged records stray in s.kept, if its upload has a journal or parts, and removes
// these. It fails if stray.Name is not the id of an upload.
func (s *Shared) QuarantineStaged(ctx context.Context, stray blob.Entry) error {
	id, err := drive.ParseID[drive.UploadID](stray.Name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.uploads[id] != nil || s.journals[id] != nil {
		s.kept = append(s.kept, stray)
	}
	s.mu.Unlock()
	return s.Remove(ctx, blob.Ref{ID: id})
}
