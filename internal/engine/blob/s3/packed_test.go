package s3

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/s3/pack"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// layBatch lays contents as a batch and returns their names.
func layBatch(t *testing.T, b *Bucket, contents ...[]byte) (names []string) {
	t.Helper()
	for _, c := range contents {
		name := b.Blobs.ReserveName(blobtest.PutName(), drive.ByteSize(len(c)))
		_, err := b.Blobs.PutUnsynced(t.Context(), name, bodyOf(0, len(c), bytes.NewReader(c)), true)
		noError(t, err)
		names = append(names, name)
	}
	return names
}

func settled(t *testing.T, b *Bucket, contents ...[]byte) []string {
	t.Helper()
	names := layBatch(t, b, contents...)
	noError(t, b.Blobs.Sync(t.Context(), names))
	return names
}

func some(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = blobtest.Bytes(uint64(i), drive.ByteSize(100+37*i))
	}
	return all
}

// objects returns the keys of all objects with contents.
func objects(t *testing.T, b *Bucket) (keys []string) {
	t.Helper()
	noError(t, b.Blobs.list(t.Context(), minio.ListObjectsOptions{Prefix: b.key(blobsDir), Recursive: true, MaxKeys: pageSize}, func(s blob.Entry) error {
		keys = append(keys, s.Path)
		return nil
	}))
	return keys
}

// TestSettleStoresBatchAsOneObject also checks that removing the contents removes the object.
func TestSettleStoresBatchAsOneObject(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	b, other := bucketAt(t, o), bucketAt(t, o)
	noError(t, b.Check(t.Context()))
	contents := some(40)
	names := layBatch(t, b, contents...)
	if got := objects(t, b); len(got) > 0 {
		t.Errorf("%v was put before anybody wanted it", got)
	}
	if got := readAll(t, b, names[3]); !bytes.Equal(got, contents[3]) {
		t.Error("what is in memory is not what was laid")
	}
	noError(t, b.Blobs.Sync(t.Context(), names[:1]))
	if got := objects(t, b); len(got) != 1 {
		t.Errorf("%v is there", got)
	}
	for i, name := range names {
		if got := readAll(t, other, name); !bytes.Equal(got, contents[i]) {
			t.Errorf("content %d differs", i)
		}
		if url, err := b.Blobs.Presign(t.Context(), name, blob.Link{Valid: 1e9}); url != "" || err != nil {
			t.Errorf("a link for one of many: %q, %v", url, err)
		}
		if _, err := b.Blobs.Put(t.Context(), name, bodyOf(0, 1, strings.NewReader("x"))); err == nil {
			t.Error("content was replaced (B1)")
		}
	}
	gone, err := other.Blobs.RemoveAll(t.Context(), names[:39])
	if err != nil || len(gone) != 39 {
		t.Errorf("%d are gone, %v", len(gone), err)
	}
	if got := readAll(t, b, names[39]); !bytes.Equal(got, contents[39]) {
		t.Error("the one that is left differs")
	}
	noError(t, b.Blobs.Remove(t.Context(), names[39]))
	if got := objects(t, b); len(got) > 0 {
		t.Errorf("%v is left", got)
	}
}

// TestRemoveBeforeSettleSendsNothing checks that no request is made.
func TestRemoveBeforeSettleSendsNothing(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	var requests atomic.Int64
	o.Transport = counting{&requests, sharedTransport}
	b := bucketAt(t, o)
	names := layBatch(t, b, some(10)...)
	noError(t, b.Blobs.Remove(t.Context(), names[0]))
	gone, err := b.Blobs.RemoveAll(t.Context(), names[1:])
	if err != nil || len(gone) != 9 || requests.Load() != 0 {
		t.Errorf("%d are gone after %d requests, %v", len(gone), requests.Load(), err)
	}
	_, err = b.Blobs.Open(t.Context(), names[0])
	wantKind(t, err, drive.NotFound)
}

type counting struct {
	n    *atomic.Int64
	next http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.RoundTrip(r)
}

// TestLateContentBecomesOwnObject checks that a slow body does not delay its pack.
func TestLateContentBecomesOwnObject(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	late := b.Blobs.ReserveName(blobtest.PutName(), 4)
	never := b.Blobs.ReserveName(blobtest.PutName(), 4)
	p, done := newPause([]byte("late")), make(chan error, 1)
	go func() {
		_, err := b.Blobs.PutUnsynced(t.Context(), late, bodyOf(0, 4, p), true)
		done <- err
	}()
	<-p.reached
	names := settled(t, b, []byte("in time"))
	p.open <- nil
	noError(t, <-done)
	noError(t, b.Blobs.Sync(t.Context(), []string{late}))
	if got := objects(t, b); len(got) != 2 {
		t.Errorf("%v is there", got)
	}
	if got := readAll(t, b, late); string(got) != "late" {
		t.Errorf("it is %q", got)
	}
	if n, err := b.Blobs.Stat(t.Context(), late); n != 4 || err != nil {
		t.Errorf("it has %d bytes, %v", n, err)
	}
	if _, err := b.Blobs.PutUnsynced(t.Context(), never, bodyOf(0, 4, strings.NewReader("afte")), true); err != nil {
		t.Error(err)
	}
	gone, err := b.Blobs.RemoveAll(t.Context(), append(names, late, never))
	if err != nil || len(gone) != 3 || len(objects(t, b)) > 0 {
		t.Errorf("%v are gone, %v", gone, err)
	}
}

// TestObjectTakesPrecedenceOverDamagedSlot: an operator restores content as an object called like
// the slot.
func TestObjectTakesPrecedenceOverDamagedSlot(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	names := settled(t, b, some(3)...)
	slot, _ := blob.SlotOf(names[1])
	name := pack.ObjectName(slot.Pack)
	key := packObjects{b}.key(name)
	object, err := packObjects{b}.Read(t.Context(), name, 0, pack.MaxSize)
	noError(t, err)
	object[slot.First*pack.Unit+slothead.HeaderSize]++
	noError(t, b.remove(t.Context(), key))
	noError(t, b.create(t.Context(), key, object))
	if got := readAll(t, b, names[1]); bytes.Equal(got, some(3)[1]) {
		t.Error("it is not damaged")
	}
	noError(t, b.create(t.Context(), keyOf(t, b, names[1]), some(3)[1]))
	if got := readAll(t, b, names[1]); !bytes.Equal(got, some(3)[1]) {
		t.Error("it is damaged still")
	}
	noError(t, b.Blobs.Remove(t.Context(), names[1]))
	_, err = b.Blobs.Open(t.Context(), names[1])
	wantKind(t, err, drive.NotFound)
}

// TestListPageMergesPacksAndObjects checks that pages of any size show contents of packs, objects
// of the same names and unexpected objects once, in order.
func TestListPageMergesPacksAndObjects(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	want := settled(t, b, some(9)...)
	shard, _ := blob.ShardOf(want[0])
	slot, _ := blob.SlotOf(want[0])
	for _, name := range []string{slot.Pack, slot.Pack + ".0007.01", slot.Pack + ".0019.01", slot.Pack + ".zzz", slot.Pack + ".odd", "x.pack"} {
		noError(t, b.create(t.Context(), b.key(blob.ShardPath(shard, name)), []byte("x")))
		want = append(want, name)
	}
	noError(t, b.create(t.Context(), keyOf(t, b, want[2]), []byte("x"))) // it is there twice
	for i := range want {
		want[i] = blob.ShardPath(shard, want[i])
	}
	slices.Sort(want)
	for _, limit := range []int{1, 2, 3, 5, 1000} {
		var got []string
		for after, more := "", true; more; {
			page, next, err := b.Blobs.ListPage(t.Context(), shard, after, limit)
			noError(t, err)
			if len(page) > limit || next && len(page) == 0 {
				t.Fatalf("a page of %d has %d", limit, len(page))
			}
			for _, stray := range page {
				got, after = append(got, stray.Path), stray.Path
			}
			more = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d: %q, want %q", limit, got, want)
		}
	}
}

// TestPackWithLostReplyIsStoredOnce checks that the put is retried and the pack exists once.
func TestPackWithLostReplyIsStoredOnce(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	once := &lossyTransport{next: sharedTransport}
	o.Transport = once
	b := bucketAt(t, o)
	names := layBatch(t, b, some(5)...)
	once.lose.Store(true)
	noError(t, b.Blobs.Sync(t.Context(), names))
	for i, name := range names {
		if got := readAll(t, b, name); !bytes.Equal(got, some(5)[i]) {
			t.Errorf("content %d differs", i)
		}
	}
	once.lose.Store(true)
	gone, err := b.Blobs.RemoveAll(t.Context(), names[:2])
	if err != nil || len(gone) != 2 || once.lose.Load() {
		t.Errorf("%v are gone, %v", gone, err)
	}
	if got := readAll(t, b, names[4]); !bytes.Equal(got, some(5)[4]) {
		t.Error("what is left differs")
	}
	_, err = b.Blobs.Open(t.Context(), names[1])
	wantKind(t, err, drive.NotFound)
}

// lossyTransport loses the reply to the next PUT on request.
type lossyTransport struct {
	lose atomic.Bool
	next http.RoundTripper
}

func (l *lossyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPut && l.lose.CompareAndSwap(true, false) {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

// TestConcurrentRemovalsByTwoInstances checks that two instances lose no other content. A removed
// content may reappear in an object that the other instance has just made (decision 166); another
// removal, as an audit does it, ends that.
func TestConcurrentRemovalsByTwoInstances(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	both := []*Bucket{bucketAt(t, o), bucketAt(t, o)}
	contents := some(60)
	names := settled(t, both[0], contents...)
	kept := map[int]bool{}
	for i := range names {
		kept[i] = rand.IntN(4) == 0
	}
	var all sync.WaitGroup
	for i, name := range names {
		if !kept[i] {
			all.Go(func() {
				if err := both[i%2].Blobs.Remove(t.Context(), name); err != nil && !drive.IsKind(err, drive.Unavailable) {
					t.Error(err)
				} else if err != nil { // too many others were faster: who removes does it again
					if err := both[i%2].Blobs.Remove(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	for i, name := range names {
		if kept[i] {
			if got := readAll(t, both[1], name); !bytes.Equal(got, contents[i]) {
				t.Errorf("content %d differs", i)
			}
			continue
		}
		if _, err := both[1].Blobs.Open(t.Context(), name); err == nil {
			noError(t, both[0].Blobs.Remove(t.Context(), name))
		}
		_, err := both[1].Blobs.Open(t.Context(), name)
		wantKind(t, err, drive.NotFound)
	}
}
