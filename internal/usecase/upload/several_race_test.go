package upload_test

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// impatient instances do not wait long for the seal of another instance, which the test stops in
// the middle.
var impatient = upload.Options{SealWait: 30 * time.Millisecond}

// Scenario G on a shared staging: an instance crashes at each call of each action, and the other
// finishes.
func TestInstanceCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			sh, dir, fate := uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
			s := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: fate, Upload: impatient})
			other := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: &uploadtest.Faults{}, Upload: impatient})
			crashAtEveryCall(t, a, s, fate, other)
		})
	}
}

// Scenario G on a shared staging: the second instance acts between any two calls of the first; both
// have stale caches.
func TestTwoInstancesAtEveryCallOnASharedStaging(t *testing.T) {
	t.Parallel()
	for _, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			sh, dir, fate := uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
			s := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: fate, Upload: impatient})
			other := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: &uploadtest.Faults{}, Upload: impatient})
			s.Clock.Advance(2 * time.Hour)
			for _, b := range acts {
				if b.in == a.in {
					meetAtEveryCall(t, a, b, s, other, fate)
				}
			}
		})
	}
}

func meetAtEveryCall(t *testing.T, a, b raceAction, s, other *uploadtest.Site, fate *uploadtest.Faults) {
	t.Helper()
	n, came := 1, true
	var beside, err error
	defer func() {
		if t.Failed() {
			t.Logf("%s at call %d of %s: %v and %v", b.name, n, a.name, beside, err)
		}
	}()
	for ; came && !t.Failed(); n += depth.Pick(9, 3, 1) {
		c := stageBeside(t, s, a, other.Sessions)
		beside = nil
		fate.Set(uploadtest.Rule{N: n, Effect: uploadtest.RunBefore, Do: func() { beside = b.do(t, other.Sessions, c) }})
		err = a.do(t, s.Sessions, c)
		s.Settle()
		other.Settle()
		came = fate.Clear()
		s.CheckLedger(t, c.who)
		c.s = []*uploadtest.Site{s, other}[n%2]
		finish(t, c)
	}
}
