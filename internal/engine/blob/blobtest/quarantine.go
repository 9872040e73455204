package blobtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/blob"
)

// RunQuarantine checks the Quarantine of a store. open returns an empty pair for each subtest.
func RunQuarantine(t *testing.T, open func(t *testing.T) (blob.Store, blob.Quarantine)) {
	for name, check := range map[string]func(*testing.T, blob.Store, blob.Quarantine){
		"List shows what the store moved there":         quarantineListed,
		"Purge deletes what was listed, and repeatedly": quarantinePurged,
		"Purge reaches nothing outside":                 quarantineBounds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, q := open(t)
			check(t, store, q)
		})
	}
}

// putAndQuarantine puts content of size bytes, moves it to the quarantine and returns its former
// place.
func putAndQuarantine(t *testing.T, s blob.Store, size int) (place string) {
	t.Helper()
	name := put(t, s, make([]byte, size))
	for _, stray := range list(t, s) {
		if stray.Name == name {
			noError(t, s.Quarantine(t.Context(), stray))
			return stray.Path
		}
	}
	t.Fatalf("%s is not listed", name)
	return ""
}

// quarantine returns all entries of q.
func quarantine(t *testing.T, q blob.Quarantine) (all []blob.Quarantined) {
	t.Helper()
	noError(t, q.List(t.Context(), func(item blob.Quarantined) error {
		all = append(all, item)
		return nil
	}))
	return all
}

// quarantineListed checks the date, name and size of a quarantined entry, and that List of an ended
// context fails.
func quarantineListed(t *testing.T, s blob.Store, q blob.Quarantine) {
	if found := quarantine(t, q); len(found) > 0 {
		t.Errorf("a new one holds %v", found)
	}
	put(t, s, []byte("in its place"))
	from := time.Now().UTC().Format(time.DateOnly)
	place := putAndQuarantine(t, s, 7)
	to := time.Now().UTC().Format(time.DateOnly)
	found := quarantine(t, q)
	want := blob.Quarantined{Date: from, Name: strings.ReplaceAll(place, "/", "_"), Size: 7}
	if len(found) == 1 && found[0].Date == to {
		want.Date = to
	}
	if len(found) != 1 || found[0] != want {
		t.Errorf("it holds %v, want %v", found, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.List(ctx, func(blob.Quarantined) error { return nil }); err == nil {
		t.Error("a list that was called off is taken for a whole one")
	}
}

// quarantinePurged checks that Purge, which may be repeated, deletes only the given items and no
// contents.
func quarantinePurged(t *testing.T, s blob.Store, q blob.Quarantine) {
	putAndQuarantine(t, s, 1)
	putAndQuarantine(t, s, 2)
	items := quarantine(t, q)
	putAndQuarantine(t, s, 3)
	kept := put(t, s, []byte("in its place"))
	for range 2 {
		for _, item := range items {
			noError(t, q.Purge(t.Context(), item))
		}
	}
	if left := quarantine(t, q); len(left) != 1 || left[0].Size != 3 {
		t.Errorf("left %v, want only what came later", left)
	}
	if left := list(t, s); len(left) != 1 || left[0].Name != kept {
		t.Errorf("contents are now %v", left)
	}
}

// quarantineBounds checks that Purge deletes nothing outside of the quarantine, whatever the item
// names.
func quarantineBounds(t *testing.T, s blob.Store, q blob.Quarantine) {
	putAndQuarantine(t, s, 1)
	put(t, s, []byte("in its place"))
	shelf, name, _ := strings.Cut(list(t, s)[0].Path, "/")
	date := quarantine(t, q)[0].Date
	for _, item := range []blob.Quarantined{
		{Date: "..", Name: shelf},
		{Date: "..", Name: shelf + "/" + name},
		{Name: "../" + shelf + "/" + name},
		{Date: ".", Name: "."},
		{Date: date, Name: "."},
		{Date: date},
		{Date: date, Name: "../../" + shelf + "/" + name},
		{},
	} {
		_ = q.Purge(t.Context(), item) // what it says matters less than what it does
	}
	if len(list(t, s)) != 1 || len(quarantine(t, q)) != 1 {
		t.Errorf("left: %v and %v in quarantine", list(t, s), quarantine(t, q))
	}
}
