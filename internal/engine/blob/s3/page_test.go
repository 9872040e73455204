package s3

import (
	"slices"
	"testing"

	"example.org/smartdrive/internal/engine/blob"
)

// TestListPageCostsOneRequest also checks that ListUnsharded shows entries outside of the shards.
func TestListPageCostsOneRequest(t *testing.T) {
	t.Parallel()
	b, fake, _ := newFakeBucket(t, 0)
	id := "018f0000-0000-7000-8000-0000000000"
	for _, key := range []string{
		"blobs/ab/" + id + "ab", "blobs/ab/holiday.jpg", "blobs/ab/sub/file", "blobs/ac/" + id + "ac", "blobs/AB/x", "blobs/readme", "blobs/zz/1", "blobs/zz/2/3", "tails/x",
	} {
		fake.AddObject("p/"+key, 7)
	}
	var got []string
	for after, more := "", true; more; {
		var page []blob.Entry
		var err error
		page, more, err = b.Blobs.ListPage(t.Context(), "ab", after, 2)
		noError(t, err)
		for _, s := range page {
			got, after = append(got, s.Name+" at "+s.Path), s.Path
		}
	}
	want := []string{id + "ab at blobs/ab/" + id + "ab", " at blobs/ab/holiday.jpg", " at blobs/ab/sub/file"}
	if !slices.Equal(got, want) || fake.Requests("list") != 2 {
		t.Errorf("%d requests for %q", fake.Requests("list"), got)
	}
	got = nil
	noError(t, b.Blobs.ListUnsharded(t.Context(), func(s blob.Entry) error { got = append(got, s.Name+s.Path); return nil }))
	slices.Sort(got)
	if want := []string{"blobs/AB/x", "blobs/readme", "blobs/zz/1", "blobs/zz/2/3"}; !slices.Equal(got, want) {
		t.Errorf("odd: %q", got)
	}
}
