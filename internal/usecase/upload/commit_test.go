package upload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// put is a small file with its content.
type put struct {
	upload.PutFile
	data []byte
}

func newPut(t uploadtest.T, path string, data []byte) put {
	p, err := drive.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return put{upload.PutFile{Path: p, Size: drive.ByteSize(len(data)), Conflict: drive.ConflictReplace}, data}
}

// publish stores all files and publishes them together. It returns one result per file; a storing
// error is a result too.
func publish(s *upload.Sessions, who drive.Who, puts []put) []string {
	var files []*upload.PendingPut
	said := make([]string, len(puts))
	at := map[*upload.PendingPut]int{}
	for i, p := range puts {
		in, err := s.StoreFile(context.Background(), who, p.PutFile, bytes.NewReader(p.data))
		if err != nil {
			said[i] = drive.KindOf(err).String()
			continue
		}
		files = append(files, in)
		at[in] = i
	}
	s.Publish(context.Background(), files...)
	for _, in := range files {
		n, created, err := in.Result()
		said[at[in]] = outcomeOf(string(n.Name), created, err)
	}
	return said
}

func outcomeOf(name string, created bool, err error) string {
	if err != nil {
		return drive.KindOf(err).String()
	}
	return fmt.Sprintf("%s %v", name, created)
}

// aPut draws a small file. There are few names, so that files conflict.
func aPut(rt *rapid.T, contents [][]byte) put {
	p := newPut(rt, rapid.SampledFrom([]string{"/a", "/b", "/c.txt", "/d/a", "/d/b", "/d/e/a", "/f/g", "/a/b", "/a (2)"}).Draw(rt, "path"),
		rapid.SampledFrom(contents).Draw(rt, "content"))
	p.Conflict = rapid.SampledFrom([]drive.Conflict{drive.ConflictReplace, drive.ConflictReplace, drive.ConflictFail, drive.ConflictRename}).Draw(rt, "conflict")
	p.Parents = rapid.Bool().Draw(rt, "parents")
	if rapid.IntRange(0, 9).Draw(rt, "declared") == 0 {
		sha := sha256.Sum256(p.data)
		p.Digests = digest.Set{digest.SHA256: sha[:]}
	}
	return p
}

// Of files of several users that are published together, each makes its folders as its own user.
func TestGroupFoldersBelongToTheirUsers(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	ann := s.Account(t, 0)
	root, err := s.Tree.Resolve(t.Context(), s.DB, ann.Account, nil)
	if err != nil {
		t.Fatal(err)
	}
	holder := drive.Who{User: s.Editor(t, ann.Account, root.ID), Account: ann.Account, Guest: true}
	other := drive.Who{User: s.Editor(t, ann.Account, root.ID), Account: ann.Account, Guest: true}
	err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := lock.Rules{Now: s.Clock.Now}.Acquire(ctx, tx, lock.Lock{Account: ann.Account, Node: root.ID, User: holder.User, Exclusive: true, Timeout: time.Minute})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var files []*upload.PendingPut
	for i, who := range []drive.Who{holder, other} {
		p := newPut(t, fmt.Sprintf("/folder-%d/f", i), []byte("content"))
		p.Place, p.Parents = root.ID.String(), true
		in, err := s.StoreFile(t.Context(), who, p.PutFile, bytes.NewReader(p.data))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, in)
	}
	s.Publish(t.Context(), files...)
	if _, _, err := files[0].Result(); err != nil {
		t.Errorf("the file of the lock's user: %v", err)
	}
	if _, _, err := files[1].Result(); !drive.IsKind(err, drive.Locked) {
		t.Errorf("the file of another user: %v", err)
	}
	s.CheckLedger(t, ann)
}

// Files published together get the results that they would get one by one: names, conflicts,
// folders, quota and final tree.
func TestGroupedFilesMatchSingleFiles(t *testing.T) {
	t.Parallel()
	togetherIsAsAlone(t, uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)}))
}

// The same holds when late contents make nearly every transaction run twice.
func TestGroupedFilesMatchSingleFilesWithLateSync(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t), Store: func(b blob.Store) blob.Store {
		return settles{b, func(names []string) error {
			for range 1000 {
				runtime.Gosched()
			}
			return b.Sync(context.Background(), names)
		}}
	}})
	s.WaitForNoContents()
	togetherIsAsAlone(t, s)
}

func togetherIsAsAlone(t *testing.T, s *uploadtest.Site) {
	rapid.Check(t, func(rt *rapid.T) {
		contents := [][]byte{nil, random(10), random(300), random(500), random(500)}
		total := drive.ByteSize(rapid.SampledFrom([]int{0, 0, 1000, 2500}).Draw(rt, "total"))
		ann, bob := s.Account(rt, total), s.Account(rt, total)
		for range rapid.IntRange(1, 3).Draw(rt, "groups") {
			puts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) put { return aPut(rt, contents) }), 1, 12).Draw(rt, "files")
			together := publish(s.Sessions, ann, puts)
			for i, p := range puts {
				n, created, err := s.PutFile(context.Background(), bob, p.PutFile, bytes.NewReader(p.data))
				if alone := outcomeOf(string(n.Name), created, err); together[i] != alone {
					rt.Fatalf("file %d (%s): %s together, %s alone", i, p.Path, together[i], alone)
				}
			}
			if a, b := s.Balance(rt, ann), s.Balance(rt, bob); a != b {
				rt.Fatalf("the ledger is %s after all together, %s one by one", a, b)
			}
		}
		s.CheckLedger(rt, ann)
		s.CheckLedger(rt, bob)
		if a, b := s.Files(rt, ann), s.Files(rt, bob); a != b {
			rt.Fatalf("there is, together:\n%s\none by one:\n%s", a, b)
		}
	})
	if left := s.CheckBlobs(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A large file beyond the quota does not cause small ones in its group to be refused, in any order.
func TestLargeFileDoesNotRefuseSmallOne(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	for at := range 5 {
		who := s.Account(t, 1000)
		var puts []put
		for i := range 5 {
			size := 200
			if i == at {
				size = 900
			}
			puts = append(puts, newPut(t, fmt.Sprintf("/%d", i), random(size)))
		}
		want := []string{"0 true", "1 true", "2 true", "3 true", "4 true"}
		want[at] = drive.Quota.String()
		if at == 0 {
			want = []string{"0 true", drive.Quota.String(), drive.Quota.String(), drive.Quota.String(), drive.Quota.String()}
		}
		if got := publish(s.Sessions, who, puts); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("large at %d: %q, want %q", at, got, want)
		}
		checkClean(t, s, who)
	}
}

// Whatever call of a group fails or loses its reply: acknowledged files exist, no file is partial,
// refused files leave nothing.
func TestGroupOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	calls := depth.Pick(24, 40, 60)
	for _, how := range []uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply, uploadtest.Die, uploadtest.DieAfter} {
		for n := 1; n <= calls; n += calls / sqldbtest.Repetitions(calls) {
			s, fate := siteUnderFate(t)
			who, other := s.Account(t, 10_000), random(700)
			if _, _, err := s.PutFile(t.Context(), who, newPut(t, "/old", other).PutFile, bytes.NewReader(other)); err != nil {
				t.Fatal(err)
			}
			puts := []put{newPut(t, "/a", random(100)), newPut(t, "/old", random(200)), newPut(t, "/b", random(300)), newPut(t, "/c", random(20_000))}
			fate.Set(uploadtest.Rule{Point: "tx", N: n, Effect: how})
			said := publish(s.Sessions, who, puts)
			came := fate.Clear()
			s.Restart(t)
			s.CheckLedger(t, who)
			left := s.CheckBlobs(t)
			for i, p := range puts {
				path := p.Path.String()
				acked := said[i] == fmt.Sprintf("%s %v", path[1:], path != "/old")
				if got, there := s.TryRead(t, who, path); acked && (!there || !bytes.Equal(got, p.data)) {
					t.Errorf("call %d (%d): %s was acknowledged and is not there", n, how, path)
				} else if there && !bytes.Equal(got, p.data) && (path != "/old" || !bytes.Equal(got, other)) {
					t.Errorf("call %d (%d): %s has other bytes", n, how, path)
				}
			}
			if how == uploadtest.Fail && len(left) > 0 && said[0] != drive.Unavailable.String() {
				t.Errorf("call %d (%d): left behind %v after %q", n, how, left, said)
			}
			if got := publish(s.Sessions, who, puts[:3]); fmt.Sprint(got) != fmt.Sprint([]string{"a " + fmt.Sprint(got[0] == "a true"), "old false", "b " + fmt.Sprint(got[2] == "b true")}) {
				t.Errorf("call %d (%d): again: %q", n, how, got)
			}
			s.CheckLedger(t, who)
			s.CheckBlobs(t)
			if !came {
				break
			}
		}
	}
}

// If the reply of a COMMIT is lost, a look-up of the version shows it. If the COMMIT failed, all
// files of the group fail.
func TestCommitOfAGroup(t *testing.T) {
	t.Parallel()
	for how, want := range map[uploadtest.Effect]string{
		uploadtest.LoseReply: fmt.Sprintf("[a true %s b true %s]", drive.NameTaken, drive.Quota),
		uploadtest.Fail:      fmt.Sprintf("[%[1]s %[1]s %[1]s %[1]s]", drive.Unavailable),
	} {
		s, fate := siteUnderFate(t)
		who := s.Account(t, 10_000)
		puts := []put{newPut(t, "/a", random(100)), newPut(t, "/a", random(100)), newPut(t, "/b", random(100)), newPut(t, "/c", random(20_000))}
		puts[1].Conflict = drive.ConflictFail
		fate.Set(uploadtest.Rule{Point: "tx.commit", N: 1, Effect: how})
		got := publish(s.Sessions, who, puts)
		if !fate.Clear() {
			t.Fatal("nothing failed")
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%d: %q, want %s", how, got, want)
		}
		s.CheckLedger(t, who)
		s.CheckBlobs(t)
		if got := publish(s.Sessions, who, puts[2:3]); got[0] != fmt.Sprintf("b %v", how == uploadtest.Fail) {
			t.Errorf("%d: again: %q", how, got)
		}
	}
}

// The quota behaves like one ledger that answers one file after the other.
func TestQuotaOfSmallFilesIsLinearizable(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	const total, clients, each = 20_000, 8, 6
	who := s.Account(t, total)
	start := time.Now()
	history := make([]porcupine.Operation, clients*each)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for k := range each {
				i := c*each + k
				size := 100 + (i*397)%900
				p := newPut(t, fmt.Sprintf("/%d", i), random(size))
				call := time.Since(start).Nanoseconds()
				_, _, err := s.PutFile(context.Background(), who, p.PutFile, bytes.NewReader(p.data))
				if err != nil && !drive.IsKind(err, drive.Quota) {
					t.Error(err)
				}
				history[i] = porcupine.Operation{ClientId: c, Input: size, Call: call, Output: err == nil, Return: time.Since(start).Nanoseconds()}
			}
		})
	}
	all.Wait()
	ledger := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(was, input, output any) (bool, any) {
			used, size := was.(int), input.(int)
			if !output.(bool) {
				return used+size > total, used
			}
			return used+size <= total, used + size
		},
	}
	if got := porcupine.CheckOperationsTimeout(ledger, history, time.Minute); got != porcupine.Ok {
		t.Errorf("no ledger would have answered so: %s", got)
	}
	checkClean(t, s, who)
}

// Two accounts store the same contents concurrently in different orders; both succeed.
func TestSameContentTwiceInGroup(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who := []drive.Who{s.Account(t, 0), s.Account(t, 0)}
	for round := range depth.Pick(2, 5, 30) {
		var contents [][]byte
		for range 20 {
			contents = append(contents, random(100))
		}
		var all sync.WaitGroup
		for w := range who {
			all.Go(func() {
				var puts []put
				for i := range contents {
					k := i
					if w == 1 {
						k = len(contents) - 1 - i
					}
					puts = append(puts, newPut(t, fmt.Sprintf("/%d-%d", round, i), contents[k]))
				}
				for i, said := range publish(s.Sessions, who[w], puts) {
					if said != fmt.Sprintf("%d-%d true", round, i) {
						t.Errorf("file %d of %d: %s", i, w, said)
					}
				}
			})
		}
		all.Wait()
	}
	checkClean(t, s, who...)
}

// A single file takes as many statements as before; a group shares its statements.
func TestGroupTakesConstantStatements(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	s := uploadtest.New(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	who := s.Account(t, 0)
	cost := func(n int, round string) int64 {
		var puts []put
		for i := range n {
			puts = append(puts, newPut(t, fmt.Sprintf("/%s-%d", round, i), random(100)))
		}
		before := count.Total()
		for _, said := range publish(s.Sessions, who, puts) {
			if said == drive.Unavailable.String() {
				t.Fatal("not published")
			}
		}
		return int64(count.Total() - before)
	}
	cost(64, "warm") // SQLite prepares each text once
	cost(1, "warm1")
	if one, many := cost(1, "one"), cost(64, "many"); many > 3*one {
		t.Errorf("a file makes %d calls of the database, 64 make %d", one, many)
	}
}

var errHeld = errors.New("held")

// settles is a store that lays small contents, and whose Sync is the test's.
type settles struct {
	blob.Store
	settle func(names []string) error
}

func (s settles) Caps() blob.StoreCaps { return blob.StoreCaps{SmallMax: 1000} }

func (s settles) Sync(_ context.Context, names []string) error { return s.settle(names) }

// Files whose contents cannot be made durable are not published and leave nothing.
func TestFailedSyncFailsGroup(t *testing.T) {
	t.Parallel()
	full := drive.Wrap(errors.New("no room"), drive.DiskFull)
	s := uploadtest.New(t, uploadtest.Options{Store: func(b blob.Store) blob.Store {
		return settles{b, func([]string) error { return full }}
	}})
	who := s.Account(t, 10_000)
	puts := []put{newPut(t, "/a", random(10)), newPut(t, "/b", random(10)), newPut(t, "/large", random(2000))}
	said := publish(s.Sessions, who, puts[:2])
	data := random(20)
	_, _, err := s.PutFile(t.Context(), who, newPut(t, "/c", data).PutFile, bytes.NewReader(data))
	said = append(said, drive.KindOf(err).String())
	for i, kind := range said {
		if kind != drive.DiskFull.String() {
			t.Errorf("file %d: %s", i, kind)
		}
	}
	if said := publish(s.Sessions, who, puts[2:]); said[0] != "large true" { // it was put, not laid
		t.Errorf("a larger file: %s", said[0])
	}
	for _, path := range []string{"/a", "/b", "/c"} {
		if _, there := s.TryRead(t, who, path); there {
			t.Errorf("%s is there", path)
		}
	}
	s.CheckLedger(t, who)
	if left := s.CheckBlobs(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Contents that become durable late block no other writer, and their file is visible only
// afterwards.
func TestLateSyncRepeatsTransaction(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	var asked atomic.Bool
	s := uploadtest.New(t, uploadtest.Options{Store: func(b blob.Store) blob.Store {
		return settles{b, func([]string) error {
			if !asked.Swap(true) {
				close(began)
				<-release
			}
			return nil
		}}
	}})
	who, other := s.Account(t, 10_000), s.Account(t, 10_000)
	store := func(who drive.Who, path string) error {
		data := random(10)
		_, _, err := s.PutFile(context.Background(), who, newPut(t, path, data).PutFile, bytes.NewReader(data))
		return err
	}
	late := make(chan error, 1)
	go func() { late <- store(who, "/late") }()
	<-began
	if err := store(other, "/quick"); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if _, there := s.TryRead(t, who, "/late"); there {
		t.Error("a file is there whose content is not durable")
	}
	select {
	case err := <-late:
		t.Errorf("it was acknowledged before: %v", err)
	default:
	}
	close(release)
	if err := <-late; err != nil {
		t.Error(err)
	}
	if _, there := s.TryRead(t, who, "/late"); !there {
		t.Error("it is not there afterwards")
	}
}

// An instance declared ended publishes nothing and leaves no file.
func TestGroupOfAnEndedInstance(t *testing.T) {
	t.Parallel()
	ended := drive.Wrap(errHeld, drive.Stopping)
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{CheckInstance: func(context.Context, *sqldb.Tx) error { return ended }}})
	who := s.Account(t, 0)
	for i, said := range publish(s.Sessions, who, []put{newPut(t, "/a", random(10)), newPut(t, "/b", random(10))}) {
		if said != drive.Stopping.String() {
			t.Errorf("file %d: %s", i, said)
		}
	}
	checkClean(t, s, who)
}
