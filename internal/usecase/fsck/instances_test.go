package fsck_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Files that a live instance may still be writing are left alone; others are deleted.
func TestFilesOfOtherInstances(t *testing.T) {
	t.Parallel()
	const alive, dead, ended = generation - 1, generation - 2, generation + 5 // numbers do not tell which are alive
	id := drive.NewID[drive.UploadID]().String()
	file := func(gen int) string { return blobPlace(fmt.Sprintf("put-%d-%s", gen, id)) }
	for _, c := range []struct {
		name, place string
		since       time.Duration // age of the oldest instance
		stage       bool
		fate        fate
	}{
		{name: "a small file of a living one", place: file(alive), fate: stays},
		{name: "a small file of one that cannot be ended yet", place: file(dead), fate: stays},
		{name: "a small file of one that has ended", place: file(ended), fate: removed},
		{name: "a small file of this one, whose commit may hang at the server", place: file(generation), fate: stays},
		{name: "a begin since the oldest one began", stage: true, since: time.Hour, fate: stays},
		{name: "a begin from before all of them", stage: true, since: -time.Hour, fate: removed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			r.audit = r.auditor(fsck.Options{})
			r.audit.Ended = func(_ context.Context, g int64) (bool, error) { return g == ended, nil }
			r.audit.OldestStart = func(context.Context) (drive.Time, error) { return drive.TimeOf(time.Now().Add(-c.since)), nil }
			place := c.place
			if c.stage {
				r.stage(t, id)
				place = "staging/2026/11/20/" + id
			} else {
				r.plant(t, place, 10)
			}
			r.check(t, fsck.Scope{Repair: true})
			got := removed
			if r.exists(place) {
				got = stays
			} else if len(r.quarantined(t)) > 0 {
				got = quarantined
			}
			if got != c.fate {
				t.Errorf("it %s; it should be that it %s", got, c.fate)
			}
		})
	}
}
