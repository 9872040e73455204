package timer_test

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

func TestKeyText(t *testing.T) {
	t.Parallel()
	for _, kind := range timer.Kinds() {
		want := timer.Key{Kind: kind, ID: drive.NewID[drive.UploadID]()}
		text, _ := want.MarshalText()
		var got timer.Key
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Errorf("%s was read as %v, %v", text, got, err)
		}
	}
	key := timer.Key{Kind: timer.Park, ID: [16]byte{0x01, 0x98, 15: 0xff}}
	if got, want := key.String(), "park/01980000-0000-0000-0000-0000000000ff"; got != want {
		t.Errorf("key is shown as %q, want %q", got, want)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	const id = "01980000-0000-0000-0000-0000000000ff"
	for _, s := range []string{
		"", "park", "park/", "/" + id, id, "Park/" + id, "nap/" + id, "park/" + id[1:], "park/" + id + "0", "park//" + id,
		"park/0198000000000000000000000000FF", "park/01980000-0000-0000-0000-0000000000FF", "unknown/" + id, "park/{" + id + "}",
	} {
		if k, err := timer.ParseKey(s); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%q was read as %v, %v", s, k, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("park/01980000-0000-0000-0000-0000000000ff")
	f.Add("purge/")
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := timer.ParseKey(s); err == nil && k.String() != s {
			t.Errorf("%q was read as %q", s, k)
		}
	})
}

func TestKindsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range timer.Kinds() {
		if name := k.String(); name == "" || name == "unknown" || seen[name] {
			t.Errorf("kind %d has the name %q", k, name)
		} else {
			seen[name] = true
		}
	}
	if timer.Kind(0).Known() || timer.Kind(len(timer.Kinds())+1).Known() {
		t.Error("a number outside the list is known")
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h timer.Histogram
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Hour} {
		h.Observe(d)
	}
	if h.Buckets[0].Load() != 2 || h.Buckets[1].Load() != 1 || h.Buckets[len(h.Buckets)-1].Load() != 1 {
		t.Errorf("buckets %v", &h.Buckets)
	}
	if got, want := time.Duration(h.Sum.Load()), time.Hour+2*time.Millisecond+1; got != want {
		t.Errorf("sum %v, want %v", got, want)
	}
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	var got timer.DueCounts
	for _, d := range []time.Duration{-time.Hour, time.Minute, time.Minute + 1, time.Hour, 24 * time.Hour, 25 * time.Hour} {
		got.Add(d)
	}
	if want := (timer.DueCounts{Minute: 2, Hour: 2, Day: 1, More: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
