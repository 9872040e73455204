package client

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/client/clienttest"
)

// failures collects the local names of the items that failed, with their errors.
func failures(failed map[string]error) func(Item) {
	return func(i Item) {
		if i.Err != nil {
			failed[i.Local] = i.Err
		}
	}
}

// Of two entries with one remote name, the first is sent and the second fails.
func TestPutTreeRejectsDuplicateNFCNames(t *testing.T) {
	t.Parallel()
	for _, batches := range []bool{true, false} {
		t.Run(fmt.Sprint(batches), func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			s.EnableBatches(batches)
			dir := t.TempDir()
			for i, name := range []string{
				"e\u0301.txt", "\u00e9.txt", "o\u0308/first", "\u00f6/second", "sub/a\u0308", "sub/\u00e4/below", "u\u0308.txt",
				"plain", "\u1100\u1161", "\uac00",
			} {
				writeFile(t, filepath.Join(dir, name), randomBytes(uint64(i), 100+i))
			}
			failed := map[string]error{}
			sum, err := newUploader(t, s).PutTree(t.Context(), dir, "/t", TreeOptions{Conflict: Replace, OnItem: failures(failed)})
			if err != nil || sum.Sent != 6 || sum.Failed != 4 {
				t.Errorf("%+v, %v", sum, err)
			}
			var locals []string
			for _, local := range slices.Sorted(maps.Keys(failed)) {
				locals = append(locals, strings.TrimPrefix(local, dir+"/"))
			}
			if diff := cmp.Diff([]string{"sub/\u00e4", "\u00e9.txt", "\u00f6", "\uac00"}, locals); diff != "" {
				t.Errorf("failed: %s", diff)
			}
			if err := failed[filepath.Join(dir, "\u00e9.txt")]; !errors.Is(err, errSameName) || !strings.Contains(err.Error(), `"e\u0301.txt"`) {
				t.Errorf("the reason is %v", err)
			}
			want := []string{"/", "/t", "/t/plain", "/t/sub", "/t/sub/\u00e4", "/t/\u00fc.txt", "/t/\u00e9.txt", "/t/\u00f6", "/t/\u00f6/first", "/t/\uac00"}
			slices.Sort(want)
			if diff := cmp.Diff(want, s.Paths()); diff != "" {
				t.Error(diff)
			}
			wantFile(t, s, "/t/\u00e9.txt", randomBytes(0, 100))
			wantFile(t, s, "/t/sub/\u00e4", randomBytes(4, 104))
		})
	}
}

// A file sent under its normalized name is recognized there at the next upload.
func TestPutTreeSkipsFilesInAnotherNormalForm(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "o\u0308", "e\u0301.txt"), randomBytes(1, 100))
	for _, want := range []Summary{{Sent: 1, Folders: 2, Bytes: 100}, {Skipped: 1}} {
		sum, err := newUploader(t, s).PutTree(t.Context(), dir, "/t", TreeOptions{SkipSame: true, Conflict: Replace})
		if diff := cmp.Diff(want, sum); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
}

// A name that is not UTF-8 is refused on every upload path, and no similar name is created.
func TestPutTreeRefusesNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	for _, batches := range []bool{true, false} {
		t.Run(fmt.Sprint(batches), func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			s.EnableBatches(batches)
			dir := t.TempDir()
			for name, size := range map[string]int{"f\xe9.txt": 10, "claimed\xff": minClaimSize, "large\xff": 3 * mib, "d\xe9/below": 10, "good": 10} {
				writeFile(t, filepath.Join(dir, name), randomBytes(1, size))
			}
			failed := map[string]error{}
			sum, err := newUploader(t, s).PutTree(t.Context(), dir, "/t", TreeOptions{OnItem: failures(failed)})
			if err != nil || sum.Sent != 1 || sum.Failed != 4 {
				t.Errorf("%+v, %v", sum, err)
			}
			for local, err := range failed {
				if !errors.Is(err, errBadPath) {
					t.Errorf("%q: %v", local, err)
				}
			}
			if diff := cmp.Diff([]string{"/", "/t", "/t/good"}, s.Paths()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
