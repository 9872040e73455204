package batch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// fixture is a site with batches.
type fixture struct {
	*uploadtest.Site
	batches *batch.Batches
	files   *files.Files
	keys    *idem.Keys
	who     drive.Who
}

func newFixture(t *testing.T, total drive.ByteSize, opt uploadtest.Options) *fixture {
	t.Helper()
	f := &fixture{Site: uploadtest.New(t, opt)}
	f.compose()
	f.who = f.Account(t, total)
	return f
}

func (f *fixture) compose() {
	f.files = files.New(files.Options{DB: f.DB, Tree: f.Tree, Content: f.Content, Store: f.Store, Now: f.Clock.Now})
	f.keys = idem.NewKeys(f.DB, idem.Options{Now: f.Clock.Now})
	f.batches = batch.New(batch.Options{DB: f.DB, Tree: f.Tree, Uploads: f.Sessions, Files: f.files, Keys: f.keys})
}

// list is a batch.Source of given items.
type list struct {
	items []batch.Item
	step  func() // before each item
}

func (l *list) Next() (batch.Item, error) {
	if len(l.items) == 0 {
		return batch.Item{}, io.EOF
	}
	if l.step != nil {
		l.step()
	}
	item := l.items[0]
	l.items = l.items[1:]
	return item, nil
}
func (l *list) Err() error { return nil }
func (l *list) Stop()      {}

func (f *fixture) key(t *testing.T, text string) idem.Request {
	t.Helper()
	prepared, err := idem.OpenPreparedIDs(t.Context(), f.DB, idem.Options{Now: f.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	key, err := prepared.ParseKey(f.who.User, text)
	if err != nil {
		t.Fatal(err)
	}
	return idem.Request{User: f.who.User, Method: "POST", Route: "/batch", Key: key, Fingerprint: idem.Fingerprint{1}}
}

// request is a step of the model.
type request struct {
	op       batch.Op
	path, to string
	content  string
	conflict drive.Conflict
	parents  bool
}

func (w request) String() string {
	return fmt.Sprintf("%s %s %s %q %s %t", w.op, w.path, w.to, w.content, w.conflict, w.parents)
}

func (w request) item(t *testing.T, n int) batch.Item {
	t.Helper()
	at, err := drive.ParsePath(w.path)
	if err != nil {
		t.Fatal(err)
	}
	item := batch.Item{N: n, Text: []byte(w.String()), Op: w.op}
	above, name, _ := at.Split()
	switch w.op {
	case batch.Put:
		item.File = upload.PutFile{Path: at, Size: drive.ByteSize(len(w.content)), Conflict: w.conflict, Parents: w.parents}
		item.Body = strings.NewReader(w.content)
	case batch.Folder:
		item.Folder = files.Mkdir{Path: above, Name: name, Parents: w.parents, Conflict: w.conflict}
	case batch.Move:
		item.Path = at
		if item.TargetPath, err = drive.ParsePath(w.to); err != nil {
			t.Fatal(err)
		}
		item.Change.Conflict = w.conflict
	case batch.Trash:
		item.Path = at
	case batch.Claim:
	}
	return item
}

// model is the reference: the content at each path; a folder is "/".
type model map[string]string

const aFolder = "\x00folder"

func (w model) folder(p string) bool { return p == "/" || w[p] == aFolder }

// ensure creates the folders above a path, or returns the refusal.
func (w model) ensure(dir string, parents bool) drive.Kind {
	if w.folder(dir) {
		return drive.Internal
	}
	if _, there := w[dir]; there {
		if parents {
			return drive.NameTaken
		}
		return drive.ParentGone
	}
	if !parents {
		above := path.Dir(dir)
		for above != "/" && w[above] == "" {
			above = path.Dir(above)
		}
		return drive.NotFound
	}
	if kind := w.ensure(path.Dir(dir), true); kind != drive.Internal {
		return kind
	}
	w[dir] = aFolder
	return drive.Internal
}

func (w model) free(p string) string {
	for k := 2; ; k++ {
		if q := fmt.Sprintf("%s (%d)", p, k); w[q] == "" {
			return q
		}
	}
}

// do applies a request and returns its expected result; Internal means success.
func (w model) do(x request) drive.Kind {
	there, taken := w[x.path]
	switch x.op {
	case batch.Put, batch.Folder:
		dir := path.Dir(x.path)
		was := w.clone()
		if kind := w.ensure(dir, x.parents); kind != drive.Internal {
			w.become(was)
			if x.op == batch.Folder && kind == drive.ParentGone {
				return drive.ParentGone
			}
			return kind
		}
		content := x.content
		if x.op == batch.Folder {
			content = aFolder
		}
		at := x.path
		switch {
		case taken && x.conflict == drive.ConflictRename:
			at = w.free(x.path)
		case taken && (x.op == batch.Folder || x.conflict == drive.ConflictFail || there == aFolder):
			w.become(was)
			return drive.NameTaken
		}
		w[at] = content
	case batch.Trash:
		if !taken {
			return drive.NotFound
		}
		w.drop(x.path)
	case batch.Move:
		return w.move(x)
	case batch.Claim:
	}
	return drive.Internal
}

func (w model) move(x request) drive.Kind {
	_, taken := w[x.path]
	dir := path.Dir(x.to)
	switch {
	case !taken:
		return drive.NotFound
	case !w.folder(dir) && w[dir] == "":
		return drive.NotFound
	case x.to == x.path:
		return drive.Internal
	case w.folder(x.path) && (dir == x.path || strings.HasPrefix(dir, x.path+"/")):
		return drive.Cycle
	case !w.folder(dir):
		return drive.ParentGone
	}
	if _, there := w[x.to]; there {
		return drive.NameTaken
	}
	moved := w.clone()
	w.drop(x.path)
	for p, content := range moved {
		if p == x.path || strings.HasPrefix(p, x.path+"/") {
			w[x.to+strings.TrimPrefix(p, x.path)] = content
		}
	}
	return drive.Internal
}

func (w model) drop(at string) {
	for p := range w {
		if p == at || strings.HasPrefix(p, at+"/") {
			delete(w, p)
		}
	}
}

func (w model) clone() model {
	c := model{}
	maps.Copy(c, w)
	return c
}

func (w model) become(was model) {
	clear(w)
	maps.Copy(w, was)
}

// tree returns the account's tree as a model.
func (f *fixture) tree(t *testing.T) model {
	t.Helper()
	w := model{}
	root, err := f.Tree.Root(t.Context(), f.DB, f.who.Account)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(id drive.NodeID, at string)
	walk = func(id drive.NodeID, at string) {
		ids, err := f.Tree.IDs(t.Context(), f.DB, f.who.Account, id, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range ids {
			n, err := f.Tree.Find(t.Context(), f.DB, f.who.Account, child)
			if err != nil {
				t.Fatal(err)
			}
			p := path.Join(at, string(n.Name))
			if n.IsFolder() {
				w[p] = aFolder
				walk(child, p)
				continue
			}
			w[p] = string(f.Read(t, f.who, p))
		}
	}
	walk(root, "/")
	return w
}

func randomRequest(r *rand.Rand, n int) request {
	names := []string{"/a", "/b", "/d", "/d/a", "/d/e", "/d/e/f", "/x/y"}
	w := request{path: names[r.IntN(len(names))], parents: r.IntN(2) == 0}
	switch r.IntN(10) {
	case 0, 1:
		w.op, w.conflict = batch.Folder, []drive.Conflict{drive.ConflictFail, drive.ConflictRename}[r.IntN(2)]
	case 2:
		w.op = batch.Trash
	case 3, 4:
		w.op, w.to, w.conflict = batch.Move, names[r.IntN(len(names))], drive.ConflictFail
	default:
		w.op, w.conflict = batch.Put, []drive.Conflict{drive.ConflictReplace, drive.ConflictFail, drive.ConflictRename}[r.IntN(3)]
		w.content = strings.Repeat(fmt.Sprintf("%d,", n%40), 1+r.IntN(5)) // some contents are the same
	}
	return w
}

// Random batches and concurrent single files match a model while calls fail, replies are lost and
// processes crash: a repeat continues, and every item happens once, in order.
func TestBatchesMatchModelUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := range depth.Pick(4, 12, 400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 18))
			fate := &uploadtest.Faults{}
			f := newFixture(t, drive.GiB, uploadtest.Options{Faults: fate})
			w := model{}
			for round := range depth.Pick(12, 12, 40) {
				f.round(t, r, fate, w, round)
			}
			if left := f.CheckBlobs(t); len(left) > 0 {
				t.Logf("left for the auditor: %d files", len(left))
			}
			f.CheckLedger(t, f.who)
		})
	}
}

// putLone stores a file in a request of its own.
func (f *fixture) putLone(t *testing.T, x request) error {
	item := x.item(t, 0)
	_, _, err := f.PutFile(t.Context(), f.who, item.File, item.Body)
	return err
}

// round runs one batch to its end, perhaps with a concurrent single file, and compares the results.
func (f *fixture) round(t *testing.T, r *rand.Rand, fate *uploadtest.Faults, w model, round int) {
	t.Helper()
	wishes := make([]request, 1+r.IntN(14))
	want := make([]drive.Kind, len(wishes))
	for i := range wishes {
		wishes[i] = randomRequest(r, round*20+i)
		want[i] = w.do(wishes[i])
	}
	if testing.Verbose() {
		for i, x := range wishes {
			t.Logf("round %d, %d: %s -> %v", round, i, x, want[i])
		}
	}
	key := f.key(t, fmt.Sprintf("round-%d", round))
	points := []string{"tx", "tx.commit", "tx.exec", "store.Lay", "store.Settle", "read"}
	got := make([]drive.Kind, len(wishes))
	answered := make([]bool, len(wishes))
	lone := request{op: batch.Put, path: fmt.Sprintf("/lone-%d", r.IntN(3)), content: fmt.Sprint("lone ", round), conflict: drive.ConflictReplace}
	stored := r.IntN(2) == 0 // half of the rounds have none
	if !stored {
		w.do(lone)
	}
	for attempt := 0; slices.Contains(answered, false) || !stored; attempt++ {
		how := uploadtest.Pass
		if attempt < 3 && r.IntN(3) > 0 {
			how = []uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply, uploadtest.Die, uploadtest.DieAfter}[r.IntN(4)]
			fate.Set(uploadtest.Rule{Point: points[r.IntN(len(points))], N: 1 + r.IntN(12), Effect: how})
		}
		if attempt > 20 {
			t.Fatalf("round %d does not end", round)
		}
		from := &list{}
		for i, x := range wishes {
			if !answered[i] {
				from.items = append(from.items, x.item(t, i))
			}
		}
		var beside sync.WaitGroup
		var loneErr error
		if !stored {
			beside.Go(func() { loneErr = f.putLone(t, lone) })
		}
		err := f.batches.Run(t.Context(), f.who, key, from, func(all []batch.Answer) error {
			for _, a := range all {
				kind := drive.Internal
				if a.Err != nil {
					kind = drive.KindOf(a.Err)
				}
				answered[a.N], got[a.N] = true, kind
			}
			return nil
		})
		beside.Wait()
		stored = stored || loneErr == nil
		came := fate.Clear()
		for _, err := range []error{err, loneErr} {
			if err != nil && !came && !drive.IsKind(err, drive.Unavailable) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if came && (how == uploadtest.Die || how == uploadtest.DieAfter) {
			f.Restart(t)
			f.compose()
			key = f.key(t, fmt.Sprintf("round-%d", round))
		}
	}
	for i := range wishes {
		if got[i] != want[i] {
			t.Errorf("round %d, item %d, %s: %v, want %v", round, i, wishes[i], got[i], want[i])
		}
	}
	if diff := cmp.Diff(w, f.tree(t)); diff != "" {
		t.Fatalf("round %d: the tree differs:\n%s", round, diff)
	}
	f.CheckLedger(t, f.who)
}

// Concurrent batches and single files of one account behave as if one ledger had answered in some
// order.
func TestQuotaOfBatchesIsLinearizable(t *testing.T) {
	t.Parallel()
	const total = 60_000
	f := newFixture(t, total, uploadtest.Options{})
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	note := func(client int, size, call int64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: size, Call: call, Output: ok, Return: time.Since(start).Nanoseconds()})
	}
	sizeOf := func(client, i int) int64 { return 1000 * int64(1+(client+i)%3) }
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			if client%2 == 0 {
				for i := range 5 {
					size, call := sizeOf(client, i), time.Since(start).Nanoseconds()
					p := upload.PutFile{Path: uploadtest.Path(t, fmt.Sprintf("/%d-%d", client, i)), Size: drive.ByteSize(size)}
					_, _, err := f.PutFile(t.Context(), f.who, p, bytes.NewReader(bytes.Repeat([]byte{byte(client), byte(i)}, int(size)/2)))
					if err != nil && !drive.IsKind(err, drive.Quota) {
						t.Error(err)
					}
					note(client, size, call, err == nil)
				}
				return
			}
			from := &list{}
			var sizes []int64
			for i := range 5 {
				size := sizeOf(client, i)
				sizes = append(sizes, size)
				from.items = append(from.items, request{op: batch.Put, path: fmt.Sprintf("/%d-%d", client, i), content: strings.Repeat(fmt.Sprintf("%d%d", client, i), int(size)/2)}.item(t, i))
			}
			call := time.Since(start).Nanoseconds()
			err := f.batches.Run(t.Context(), f.who, idem.Request{}, from, func(answers []batch.Answer) error {
				for _, a := range answers {
					if a.Err != nil && !drive.IsKind(a.Err, drive.Quota) {
						t.Error(a.Err)
					}
					note(100*client+a.N, sizes[a.N], call, a.Err == nil)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ledger := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(was, input, output any) (bool, any) {
			used, size := was.(int64), input.(int64)
			if !output.(bool) {
				return used+size > total, used
			}
			return used+size <= total, used + size
		},
	}
	if got := porcupine.CheckOperationsTimeout(ledger, history, time.Minute); got != porcupine.Ok {
		t.Errorf("no ledger would have answered so: %s", got)
	}
	refused := 0
	for _, op := range history {
		if !op.Output.(bool) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: the total was no limit")
	}
	f.CheckLedger(t, f.who)
}

// A distant store receives several files concurrently, and the answers stay in order.
func TestFarStoreGetsFilesConcurrently(t *testing.T) {
	t.Parallel()
	gate := &together{need: 8, open: make(chan struct{})}
	f := newFixture(t, drive.GiB, uploadtest.Options{Store: func(s blob.Store) blob.Store { gate.Store = s; return gate }})
	from := &list{}
	for i := range 40 {
		from.items = append(from.items, request{op: batch.Put, path: fmt.Sprintf("/%d", i), content: fmt.Sprint("content ", i)}.item(t, i))
	}
	next := 0
	err := f.batches.Run(t.Context(), f.who, idem.Request{}, from, func(all []batch.Answer) error {
		for _, a := range all {
			if a.N != next || a.Err != nil {
				t.Errorf("answer %d is that of %d, %v", next, a.N, a.Err)
			}
			next++
		}
		return nil
	})
	if err != nil || next != 40 {
		t.Errorf("%d answers, %v", next, err)
	}
	f.CheckLedger(t, f.who)
}

// together blocks until the given number of writes run concurrently.
type together struct {
	blob.Store
	need int
	mu   sync.Mutex
	here int
	open chan struct{}
}

func (s *together) Caps() blob.StoreCaps {
	c := s.Store.Caps()
	c.HighLatency = true
	return c
}

func (s *together) PutUnsynced(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	s.mu.Lock()
	if s.here++; s.here == s.need {
		close(s.open)
	}
	s.mu.Unlock()
	<-s.open
	return s.Store.PutUnsynced(ctx, name, body, many)
}

var errTold = errors.New("enough")

// A batch whose answers cannot be sent ends, and its repeat does nothing twice.
func TestFailedAnswerEndsBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, drive.GiB, uploadtest.Options{})
	key := f.key(t, "k")
	items := func() *list {
		l := &list{}
		for i := range 3 {
			l.items = append(l.items, request{op: batch.Put, path: "/a", content: fmt.Sprint(i), conflict: drive.ConflictRename}.item(t, i))
		}
		return l
	}
	if err := f.batches.Run(t.Context(), f.who, key, items(), func([]batch.Answer) error { return errTold }); !errors.Is(err, errTold) {
		t.Fatal(err)
	}
	told := 0
	err := f.batches.Run(t.Context(), f.who, key, items(), func(all []batch.Answer) error { told += len(all); return nil })
	if err != nil || told != 3 {
		t.Errorf("%d answers, %v", told, err)
	}
	if diff := cmp.Diff(model{"/a": "0", "/a (2)": "1", "/a (3)": "2"}, f.tree(t)); diff != "" {
		t.Error(diff)
	}
}
