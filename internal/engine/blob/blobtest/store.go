package blobtest

import (
	"bytes"
	"slices"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// RunStore checks a blob.Store. open returns an empty one for each subtest.
func RunStore(t *testing.T, open func(t *testing.T) blob.Store) {
	for name, check := range map[string]func(*testing.T, blob.Store){
		"what was Put is read back, whole and by range":         putAndRead,
		"Put of a name that exists fails and keeps the content": putTwice,
		"a body that fails leaves nothing":                      putFails,
		"what was laid is there, and is settled together":       layAndSettle,
		"a missing content is NotFound, Remove no error":        missing,
		"many are removed at once, also what is not there":      removeMany,
		"a name that is never given reaches nothing":            badNames,
		"List shows every content with its size":                listing,
		"pages show what List shows, in order":                  paging,
		"Quarantine takes content away and is repeatable":       quarantining,
		"Free is what a capacity tells":                         capacity,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
		t.Run("by Lay: "+name, func(t *testing.T) {
			t.Parallel()
			check(t, layStore{open(t)})
		})
	}
}

// layStore marks a Store for which put uses ReserveName, PutUnsynced and Sync instead of Put.
type layStore struct{ blob.Store }

// PutName returns a new name for a small file.
func PutName() string { return "put-7-" + drive.NewID[drive.BlobID]().String() }

// put stores b durably, through a reserved name and PutUnsynced if the store has them, and returns
// the name. It fails the test if the returned part is not that of b.
func put(t *testing.T, s blob.Store, b []byte) string {
	t.Helper()
	name, body := PutName(), BodyOf(0, len(b), bytes.NewReader(b))
	var got blob.Part
	var err error
	if l, ok := s.(layStore); ok {
		name = l.ReserveName(name, body.Size())
		got, err = l.PutUnsynced(t.Context(), name, body, body.Size() > s.Caps().SmallMax)
		noError(t, l.Sync(t.Context(), []string{name}))
	} else {
		got, err = s.Put(t.Context(), name, body)
	}
	noError(t, err)
	if want := PartOf(t, 0, b); got != want {
		t.Fatalf("part is %v, want %v", got, want)
	}
	return name
}

// putAndRead checks that contents of several sizes, empty included, are read back whole and in a
// range, and that Stat returns their size.
func putAndRead(t *testing.T, s blob.Store) {
	for _, size := range []drive.ByteSize{0, 1, 40_000, 3*drive.MiB + 7} {
		b := Bytes(uint64(size), size)
		name := put(t, s, b)
		o, err := s.Open(t.Context(), name)
		if got := read(t, o, err); !bytes.Equal(got, b) {
			t.Errorf("content of %d bytes differs", size)
		}
		if got, err := s.Stat(t.Context(), name); err != nil || got != size {
			t.Errorf("Stat is %d, %v, want %d", got, err, size)
		}
	}
	b := Bytes(4, 10_000)
	o, err := s.Open(t.Context(), put(t, s, b))
	noError(t, err)
	got := make([]byte, 100)
	if _, err := o.ReadAt(got, 5000); err != nil || !bytes.Equal(got, b[5000:5100]) {
		t.Errorf("range differs: %v", err)
	}
	noError(t, o.Close())
}

// putTwice checks that Put refuses a name that exists and leaves its content unchanged.
func putTwice(t *testing.T, s blob.Store) {
	b := Bytes(1, 1000)
	name := put(t, s, b)
	if _, err := s.Put(t.Context(), name, BodyOf(0, 3, bytes.NewReader([]byte("new")))); err == nil {
		t.Error("content was replaced (B1)")
	}
	o, err := s.Open(t.Context(), name)
	if got := read(t, o, err); !bytes.Equal(got, b) {
		t.Error("content changed (B1)")
	}
}

// layAndSettle checks that contents stored by PutUnsynced are readable after one Sync of 0, 1, 5
// and 100 names, and that a body that is too short leaves nothing.
func layAndSettle(t *testing.T, s blob.Store) {
	for _, n := range []int{0, 1, 5, 100} {
		names := make([]string, n)
		for i := range names {
			b := Bytes(uint64(i), 1000)
			names[i] = s.ReserveName(PutName(), drive.ByteSize(len(b)))
			part, err := s.PutUnsynced(t.Context(), names[i], BodyOf(0, len(b), bytes.NewReader(b)), i%2 == 0)
			noError(t, err)
			if want := PartOf(t, 0, b); part != want {
				t.Fatalf("part is %v, want %v", part, want)
			}
		}
		noError(t, s.Sync(t.Context(), names))
		for i, name := range names {
			o, err := s.Open(t.Context(), name)
			if got := read(t, o, err); !bytes.Equal(got, Bytes(uint64(i), 1000)) {
				t.Errorf("content %d of %d differs", i, n)
			}
		}
	}
	name := s.ReserveName(PutName(), 10)
	if _, err := s.PutUnsynced(t.Context(), name, BodyOf(0, 10, bytes.NewReader([]byte("short"))), false); err == nil {
		t.Error("a body that is too short was laid")
	}
	if _, err := s.Stat(t.Context(), name); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("something of it is left: %v", err)
	}
}

// putFails checks that Put refuses a body that is short, long, cut off or has a wrong digest, and
// leaves nothing behind.
func putFails(t *testing.T, s blob.Store) {
	b := Bytes(1, 100_000)
	name := PutName()
	for what, body := range map[string]blob.Body{
		"short":        BodyOf(0, len(b)+1, bytes.NewReader(b)),
		"long":         BodyOf(0, len(b)-1, bytes.NewReader(b)),
		"cut":          BodyOf(0, len(b), cutReader(b[:70_000])),
		"wrong digest": wrongBody(b),
	} {
		if _, err := s.Put(t.Context(), name, body); err == nil {
			t.Errorf("%s body is taken", what)
		}
		_, err := s.Stat(t.Context(), name)
		wantKind(t, err, drive.NotFound)
	}
	if got := list(t, s); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// missing checks that Open and Stat fail with NotFound for content that never existed or was
// removed, and that its removal is no error.
func missing(t *testing.T, s blob.Store) {
	name := PutName()
	_, err := s.Open(t.Context(), name)
	wantKind(t, err, drive.NotFound)
	_, err = s.Stat(t.Context(), name)
	wantKind(t, err, drive.NotFound)
	noError(t, s.Remove(t.Context(), name))
	name = put(t, s, Bytes(1, 10))
	noError(t, s.Remove(t.Context(), name))
	_, err = s.Open(t.Context(), name)
	wantKind(t, err, drive.NotFound)
}

// removeMany checks that RemoveAll returns all names as gone, also missing and impossible ones and
// when repeated, and removes nothing else.
func removeMany(t *testing.T, s blob.Store) {
	kept := put(t, s, Bytes(1, 10))
	names := []string{PutName(), "../" + kept, "no name of ours"}
	for i := range 40 {
		names = append(names, put(t, s, Bytes(uint64(i), 10)))
	}
	for range 2 {
		gone, err := s.RemoveAll(t.Context(), names)
		noError(t, err)
		slices.Sort(gone)
		if want := slices.Sorted(slices.Values(names)); !slices.Equal(gone, want) {
			t.Errorf("gone %v, want %v", gone, want)
		}
		if left := list(t, s); len(left) != 1 || left[0].Name != kept {
			t.Errorf("left %v, want only %s", left, kept)
		}
	}
	gone, err := s.RemoveAll(t.Context(), nil)
	if len(gone) != 0 || err != nil {
		t.Errorf("of nothing %v is gone, %v", gone, err)
	}
}

// badNames checks that names that cannot be those of content are NotFound, refused by Put and
// ignored by Remove.
func badNames(t *testing.T, s blob.Store) {
	id := drive.NewID[drive.BlobID]().String()
	for _, name := range []string{
		"", ".", "..", "../installation", "a/b", id + "/", "/" + id, "put-" + id, "put--" + id, "put-07-" + id, "put--1-" + id,
		"put-7-../" + id, "put-99999999999999999999-" + id, id[:35], id + "0", "{" + id + "}", "put-7-" + id + "\x00", "blobs/" + id,
	} {
		_, err := s.Open(t.Context(), name)
		wantKind(t, err, drive.NotFound)
		_, err = s.Stat(t.Context(), name)
		wantKind(t, err, drive.NotFound)
		noError(t, s.Remove(t.Context(), name))
		if _, err := s.Put(t.Context(), name, BodyOf(0, 0, bytes.NewReader(nil))); err == nil {
			t.Errorf("Put takes the name %q", name)
		}
	}
}

// list returns all entries of s.
func list(t *testing.T, s blob.Store) (all []blob.Entry) {
	t.Helper()
	noError(t, s.List(t.Context(), func(stray blob.Entry) error {
		all = append(all, stray)
		return nil
	}))
	return all
}

// listing checks that the store lists all contents with their size.
func listing(t *testing.T, s blob.Store) {
	var want, got []string
	for i := range 20 {
		want = append(want, put(t, s, Bytes(uint64(i), 10)))
	}
	for _, stray := range list(t, s) {
		got = append(got, stray.Name)
		if stray.Size != 10 {
			t.Errorf("%s has %d bytes, want 10", stray.Path, stray.Size)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// paging checks that the pages of all shards contain each content once, in order and in its shard,
// and that none is unsharded.
func paging(t *testing.T, s blob.Store) {
	p, want := s, map[string]bool{}
	for range 300 {
		want[put(t, s, []byte("0123456789"))] = true
	}
	for _, shard := range blob.Shards() {
		after := ""
		for more := true; more; {
			var page []blob.Entry
			var err error
			page, more, err = p.ListPage(t.Context(), shard, after, 2)
			noError(t, err)
			for _, stray := range page {
				if in, _ := blob.ShardOf(stray.Name); in != shard || stray.Path != blob.ShardPath(shard, stray.Name) || stray.Size != 10 || stray.Path <= after {
					t.Errorf("shard %s after %q has %+v", shard, after, stray)
				}
				if !want[stray.Name] {
					t.Errorf("%s comes twice, or is none of ours", stray.Name)
				}
				delete(want, stray.Name)
				after = stray.Path
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("%d of 300 were not shown", len(want))
	}
	noError(t, p.ListUnsharded(t.Context(), func(stray blob.Entry) error { t.Errorf("%s is odd", stray.Path); return nil }))
}

// quarantining checks that Quarantine, which may be repeated, makes content unreadable and leaves
// the others.
func quarantining(t *testing.T, s blob.Store) {
	put(t, s, Bytes(1, 10))
	kept := put(t, s, Bytes(2, 10))
	for _, stray := range list(t, s) {
		if stray.Name == kept {
			continue
		}
		noError(t, s.Quarantine(t.Context(), stray))
		noError(t, s.Quarantine(t.Context(), stray))
		_, err := s.Open(t.Context(), stray.Name)
		wantKind(t, err, drive.NotFound)
	}
	if left := list(t, s); len(left) != 1 || left[0].Name != kept {
		t.Errorf("left %v, want only %s", left, kept)
	}
}

// capacity checks that Free returns a positive number, if the store reports free space.
func capacity(t *testing.T, s blob.Store) {
	if !s.Caps().ReportsFree {
		t.Skip("this store does not know its capacity")
	}
	if free, err := s.Free(t.Context()); err != nil || free <= 0 {
		t.Errorf("free is %d, %v", free, err)
	}
}
