package combine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/usecase/upload/combine"
)

type job struct {
	name   string
	by     string // the group it was done in
	failed bool
}

// Jobs that arrive during a group are done together in order; jobs of other keys do not wait for
// them.
func TestWaitingJobsFormGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var groups []string
		gate := make(chan struct{})
		q := combine.New(3, 0, func(_ context.Context, key string, jobs []*job) {
			if jobs[0].name == "first" {
				<-gate
			}
			mu.Lock()
			defer mu.Unlock()
			group := key + ":"
			for _, j := range jobs {
				group += " " + j.name
			}
			groups = append(groups, group)
			for _, j := range jobs {
				j.by = group
			}
		})
		var all sync.WaitGroup
		come := func(key string, names ...string) {
			jobs := make([]*job, len(names))
			for i, name := range names {
				jobs[i] = &job{name: name}
			}
			all.Go(func() {
				q.Do(t.Context(), key, jobs...)
				for _, j := range jobs {
					if j.by == "" {
						t.Errorf("%s has returned and was not done", j.name)
					}
				}
			})
			synctest.Wait()
		}
		come("a", "first")
		come("a", "b")
		come("a", "c", "d", "e")
		come("b", "f")
		mu.Lock()
		if !slices.Equal(groups, []string{"b: f"}) {
			t.Errorf("while somebody works, %q were done", groups)
		}
		mu.Unlock()
		close(gate)
		all.Wait()
		if want := []string{"b: f", "a: first", "a: b c d", "a: e"}; !slices.Equal(groups, want) {
			t.Errorf("done in %q, want %q", groups, want)
		}
		come("a", "late")
		if got := groups[len(groups)-1]; got != "a: late" {
			t.Errorf("one who comes alone is in %q", got)
		}
	})
}

// Callers that return right after their group are grouped together, not in alternating halves.
func TestLeaderWaitsForReturningCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		q := combine.New(64, 2*time.Millisecond, func(_ context.Context, _ int, jobs []*job) {
			sizes = append(sizes, len(jobs))
			time.Sleep(5 * time.Millisecond)
		})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for range 5 {
					time.Sleep(time.Duration(i+1) * 400 * time.Microsecond)
					q.Do(t.Context(), 1, &job{})
				}
			})
		}
		all.Wait()
		if want := []int{1, 4, 4, 4, 4, 3}; !slices.Equal(sizes, want) {
			t.Errorf("groups of %v, want %v", sizes, want)
		}
	})
}

// A leader waits once for a caller that does not return, at most as long as the last group took and
// patience. A single caller never waits. A call with more jobs than a group counts once.
func TestLeaderWaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		work := 5 * time.Millisecond
		q := combine.New(3, 2*time.Millisecond, func(context.Context, int, []*job) { time.Sleep(work) })
		took := func(jobs int) time.Duration {
			start := time.Now()
			q.Do(t.Context(), 1, make([]*job, jobs)...)
			return time.Since(start)
		}
		together := func() { // one, and two who come while it is done
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { took(1) })
			}
			all.Wait()
		}
		together()
		for _, c := range []struct {
			what string
			jobs int
			want time.Duration
		}{
			{"after two", 1, 7 * time.Millisecond},
			{"after one", 1, 5 * time.Millisecond},
			{"many jobs at once", 7, 15 * time.Millisecond},
			{"after those", 1, 5 * time.Millisecond},
		} {
			if got := took(c.jobs); got != c.want {
				t.Errorf("%s: %v, want %v", c.what, got, c.want)
			}
		}
		together()
		time.Sleep(2 * time.Millisecond)
		if got := took(1); got != 5*time.Millisecond {
			t.Errorf("long after two: %v", got)
		}
		work = time.Millisecond
		together()
		if got := took(1); got != 2*time.Millisecond {
			t.Errorf("after two that took a millisecond: %v", got)
		}
	})
}

// The calls of one key are awaited whatever calls of other keys arrive.
func TestWaitersAreTrackedPerKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sizes := map[int][]int{}
		q := combine.New(64, 2*time.Millisecond, func(_ context.Context, key int, jobs []*job) {
			mu.Lock()
			sizes[key] = append(sizes[key], len(jobs))
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
		})
		var all sync.WaitGroup
		for key := range 3 {
			for i := range 4 {
				all.Go(func() {
					for range 5 {
						time.Sleep(time.Duration(4*i+key+1) * 100 * time.Microsecond)
						q.Do(t.Context(), key, &job{})
					}
				})
			}
		}
		all.Wait()
		for key, got := range sizes {
			if want := []int{1, 4, 4, 4, 4, 3}; !slices.Equal(got, want) {
				t.Errorf("groups of %v for key %d, want %v", got, key, want)
			}
		}
	})
}

// A caller that returns at once counts once, so a leader does not wait for more calls than exist.
func TestReturningCallerCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var worked time.Duration
		q := combine.New(1000, time.Millisecond, func(context.Context, int, []*job) {
			worked += time.Millisecond
			time.Sleep(time.Millisecond)
		})
		start := time.Now()
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				for range 50 {
					q.Do(t.Context(), 1, &job{})
				}
			})
		}
		all.Wait()
		if waited := time.Since(start) - worked; waited > time.Millisecond { // once at the end, for those who were first
			t.Errorf("waited for %v", waited)
		}
	})
}

// A panic reaches one caller, and all callers return.
func TestPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		q := combine.New(2, 0, func(_ context.Context, _ int, jobs []*job) {
			<-gate
			for _, j := range jobs {
				if j.failed {
					panic("of " + j.name)
				}
				j.by = "somebody"
			}
		})
		panics := make(chan any, 3)
		var all sync.WaitGroup
		for _, names := range [][]string{{"1"}, {"2", "3!", "4"}, {"5"}} {
			all.Go(func() {
				defer func() { panics <- recover() }()
				var jobs []*job
				for _, name := range names {
					jobs = append(jobs, &job{name: name, failed: name == "3!"})
				}
				q.Do(t.Context(), 1, jobs...)
			})
			synctest.Wait()
		}
		close(gate)
		all.Wait()
		close(panics)
		n := 0
		for p := range panics {
			if p != nil {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d have seen the panic", n)
		}
		late := &job{name: "late"}
		q.Do(t.Context(), 1, late)
		if late.by == "" {
			t.Error("afterwards nothing is done")
		}
	})
}
