package collect_test

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A sender continues an upload larger than half of the link's remaining bytes: it counts once.
func TestSenderContinuesNearLimit(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	l := d.link(t, 1000)
	by := d.sender(t, l)
	large := upload.Begin{Name: "a", Size: 600, Fingerprint: "mark"}
	first, err := beginMarked(t.Context(), d.Sessions, d.Links, by, large)
	if err != nil {
		t.Fatal(err)
	}
	again, err := beginMarked(t.Context(), d.Sessions, d.Links, by, large)
	if err != nil || !again.Found || again.ID != first.ID {
		t.Fatalf("the same file again: %v, found %v", err, again.Found)
	}
	_, err = beginMarked(t.Context(), d.Sessions, d.Links, by, upload.Begin{Name: "b", Size: 600, Fingerprint: "other"})
	wantKind(t, err, drive.Quota)
	_, err = beginMarked(t.Context(), d.Sessions, d.Links, d.sender(t, l), large)
	wantKind(t, err, drive.Quota) // somebody else's file with that mark is another one
	if sum, open, without := d.held(t); sum != 600 || open != 1 || without != 0 {
		t.Errorf("%d bytes in %d uploads, %d not written down", sum, open, without)
	}
}
