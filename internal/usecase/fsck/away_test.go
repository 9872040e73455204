package fsck_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Files missing from an unmounted file system are not marked: the pass fails, also if the unmount
// happens during the pass, and afterwards nothing is found.
func TestUnmountedStoreIsNoFinding(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]fsck.Scope{"by size": {Repair: true}, "by digest": {Repair: true, Deep: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			blobs, away := filepath.Join(r.Dir, "blobs"), filepath.Join(r.Dir, "away")
			noError(t, os.Rename(blobs, away))
			r.away = drive.Fail(drive.Unavailable)
			for n := range 20 {
				empty := n%2 == 0
				r.asked, r.stays = 0, n/2
				if empty {
					noError(t, os.Mkdir(blobs, 0o700))
				}
				if _, err := r.audit.Check(t.Context(), scope); !errors.Is(err, r.away) {
					t.Errorf("Check: %v", err)
				}
				if empty {
					noError(t, os.Remove(blobs))
				}
			}
			if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE damaged_at > 0`); n != "0" {
				t.Errorf("%s blobs are marked", n)
			}
			noError(t, os.Rename(away, blobs))
			r.away = nil
			report, err := r.audit.Check(t.Context(), scope)
			noError(t, err)
			if len(report.Findings) > 0 {
				t.Errorf("found %+v", report.Findings)
			}
		})
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
