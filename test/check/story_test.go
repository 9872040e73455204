package main

import (
	"testing"

	"example.org/smartdrive/test/history"
)

var (
	one = history.Content{Seed: 1, Size: 10}
	two = history.Content{Seed: 2, Size: 10}
)

func put(op int64, phase history.Phase, c history.Content) history.Record {
	return history.Record{Client: "c0", Op: op, Phase: phase, Do: history.Put, Path: "/c0/a", Seed: c.Seed, Size: c.Size}
}

func sees(c history.Content) history.Record {
	return history.Record{Client: "c0", Phase: history.Seen, Do: history.LookPath, Path: "/c0/a", Node: "n", Digest: c.Digest()}
}

var nothing = history.Record{Client: "c0", Phase: history.Seen, Do: history.LookPath, Path: "/c0/a"}

func TestWhatStaysPossible(t *testing.T) {
	t.Parallel()
	about := func(phase history.Phase, do history.Action, to string) history.Record {
		return history.Record{Client: "c0", Op: 9, Phase: phase, Do: do, Path: "/c0/a", To: to, Node: "n"}
	}
	base := []history.Record{put(1, history.Intent, one), put(1, history.Done, one)}
	for name, tc := range map[string]struct {
		then   []history.Record
		worlds int // 0: a contradiction
	}{
		"acknowledged and seen":       {[]history.Record{sees(one)}, 1},
		"acknowledged and not there":  {[]history.Record{nothing}, 0},
		"acknowledged, other content": {[]history.Record{sees(two)}, 0},
		"unsure":                      {[]history.Record{put(2, history.Intent, two), put(2, history.Unsure, two)}, 2},
		"without an outcome":          {[]history.Record{put(2, history.Intent, two)}, 2},
		"unsure, seen to be done":     {[]history.Record{put(2, history.Intent, two), put(2, history.Unsure, two), sees(two)}, 1},
		"unsure, seen to be undone":   {[]history.Record{put(2, history.Intent, two), put(2, history.Unsure, two), sees(one)}, 1},
		"unsure, and half there":      {[]history.Record{put(2, history.Intent, two), put(2, history.Unsure, two), nothing}, 0},
		"refused":                     {[]history.Record{put(2, history.Intent, two), put(2, history.Refused, two), sees(one)}, 1},
		"refused, and done":           {[]history.Record{put(2, history.Intent, two), put(2, history.Refused, two), sees(two)}, 0},
		"trashed":                     {[]history.Record{about(history.Intent, history.Trash, ""), about(history.Done, history.Trash, ""), nothing}, 1},
		"trashed, and there":          {[]history.Record{about(history.Intent, history.Trash, ""), about(history.Done, history.Trash, ""), sees(one)}, 0},
		"moved, and there":            {[]history.Record{about(history.Intent, history.Move, "/c0/b"), about(history.Done, history.Move, "/c0/b"), sees(one)}, 0},
		"moved, unsure":               {[]history.Record{about(history.Intent, history.Move, "/c0/b"), about(history.Unsure, history.Move, "/c0/b")}, 2},
		"restored out of nothing":     {[]history.Record{about(history.Intent, history.Restore, ""), about(history.Done, history.Restore, "")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &checker{report: &report{}}
			s := c.stories(append(append([]history.Record{}, base...), tc.then...))["c0"]
			if s.broken != (tc.worlds == 0) || s.broken != (len(c.findings) > 0) {
				t.Fatalf("broken: %v, findings: %v", s.broken, c.findings)
			}
			if !s.broken && len(s.worlds) != tc.worlds {
				t.Errorf("possible: %s", s.describe())
			}
		})
	}
}

func TestWhenAnUploadMayBeGivenUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		starts         []int64
		touched, ended int64
		want           bool
	}{
		"quiet for the time":                           {[]int64{0}, 500, 2500, true},
		"not quiet for the time":                       {[]int64{0}, 501, 2500, false},
		"too soon after a start":                       {[]int64{3000}, 0, 4999, false},
		"long enough after a start":                    {[]int64{3000}, 0, 5000, true},
		"begun in a long life, ended after it":         {[]int64{3000, 5000}, 0, 5010, true},
		"no life was long enough":                      {[]int64{3000, 4000, 5000}, 0, 5010, false},
		"the life was long enough, but not so quiet":   {[]int64{3000, 6000}, 4500, 6500, false},
		"nothing is known of starts, quiet":            {nil, 500, 2500, true},
		"nothing is known of starts, and it was alive": {nil, 501, 2500, false},
	} {
		if got := mayGiveUp(tc.starts, tc.touched, tc.ended, 2000); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhatCountsAsActivity: a begin that finds an upload, because the response to an earlier begin
// was lost, does not count as activity.
func TestWhatCountsAsActivity(t *testing.T) {
	t.Parallel()
	u := &told{parts: map[int]bool{}, asked: map[int]bool{}}
	for i, r := range []history.Record{
		{Do: history.Begin, Phase: history.Done, Status: 201},
		{Do: history.Begin, Phase: history.Done, Status: 200},
		{Do: history.Part, Phase: history.Done, Status: 200},
		{Do: history.Part, Phase: history.Unsure},
	} {
		u.hear(r, history.Record{At: int64(i + 1)})
		if want := []int64{1, 1, 3, 3}[i]; u.lastTouch != want {
			t.Errorf("after record %d the last activity was at %d, want %d", i, u.lastTouch, want)
		}
	}
}

func FuzzReadJournal(f *testing.F) {
	f.Add(append(frame(journalHeader, []byte("SDJOURNL")), partFrame(3, []byte("abc"))...))
	f.Add(frame(journalDrop, []byte{1, 0, 0, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if parts, torn, err := readJournal(b); err == nil && (parts == nil || torn < 0 || torn > len(b)) {
			t.Errorf("%v, %d of %d bytes torn", parts, torn, len(b))
		}
	})
}
