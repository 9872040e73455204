package files_test

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// TestRestoreExpiresFeedPositions: a restore reuses lost change numbers, so a reader with an older
// position must start over, however far the feed has come since.
func TestRestoreExpiresFeedPositions(t *testing.T) {
	t.Parallel()
	before := newFixture(t, files.Options{})
	restored := newFixture(t, files.Options{Fingerprint: "SECOND"})
	next := func(d *fixture, after string) string {
		t.Helper()
		page, err := d.Changes(t.Context(), d.who, "", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		return page.Next
	}
	before.put(t, "/a", "x")
	for _, name := range []string{"/a", "/b", "/c", "/d"} {
		restored.put(t, name, "x")
	}
	old, own := next(before, ""), next(restored, "")
	if own = next(restored, own); next(restored, own) == "" {
		t.Error("a page without a next one")
	}
	for _, at := range []string{old, old + "~FIRST"} {
		_, err := restored.Changes(t.Context(), restored.who, "", at, 0)
		wantKind(t, err, drive.Gone)
	}
	_, err := before.Changes(t.Context(), before.who, "", own, 0)
	wantKind(t, err, drive.Gone)
	for _, bad := range []string{"~", "~SECOND", old + "~"} {
		_, err := restored.Changes(t.Context(), restored.who, "", bad, 0)
		wantKind(t, err, drive.BadRequest)
	}
}
