package rest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

const sendMemory = int64(32 << 20)

// Bodies of JSON share what there is; a small one is always read.
func TestBodiesShareMemoryBudget(t *testing.T) {
	t.Parallel()
	all := &newMemory(defaultMemory).reading
	all.n.Store(all.most - 100)
	small := &countedBody{src: strings.NewReader(strings.Repeat("x", smallBody)), all: all}
	if _, err := readAll(small); err != nil {
		t.Errorf("a small body: %v", err)
	}
	large := &countedBody{src: strings.NewReader(strings.Repeat("x", smallBody+101)), all: all}
	if _, err := readAll(large); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("a large body for which there is no memory: %v", err)
	}
	small.close()
	large.close()
	if left := all.n.Load(); left != all.most-100 {
		t.Errorf("%d bytes are in use when both are gone", left)
	}
}

func readAll(l *countedBody) (n int, err error) {
	buffer := make([]byte, 1000)
	for {
		m, err := l.Read(buffer)
		n += m
		if err != nil {
			if err.Error() == "EOF" {
				err = nil
			}
			return n, err
		}
	}
}

// Clients that do not read cannot keep others from a response: the oldest response is aborted, a
// young one is not.
func TestOldestResponseIsAborted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(sendFraction * sendMemory).sending.atOnce(t)
		var broken []int
		var done []func() bool
		for i := range 2 {
			done = append(done, a.begin(sendMemory/2, func() { broken = append(broken, i) }))
			time.Sleep(time.Second) // of the bubble
		}
		began := time.Now()
		go func() { // as its handler does when its Write fails
			time.Sleep(abortAge)
			if !done[0]() {
				t.Error("the oldest was not broken off")
			}
		}()
		last := a.begin(sendMemory/2, func() {})
		if took := time.Since(began); took < abortAge-time.Second || len(broken) != 1 || broken[0] != 0 {
			t.Errorf("after %s these were broken off: %v", took, broken)
		}
		if done[1]() || last() {
			t.Error("one was broken off for nobody")
		}
		if a.free != sendMemory {
			t.Errorf("%d bytes are free in the end", a.free)
		}
	})
}

// working are the requests of a test that ask for memory, on a clock of synctest.
type working struct {
	t     *testing.T
	front *front
}

// begin asks in the name of a user; done has the outcome when there is one.
func (w working) begin(user byte, n int64) (c *call, done chan error) {
	c, done = &call{front: w.front, who: drive.Who{User: drive.UserID{user}}}, make(chan error, 1)
	go func() { done <- c.acquireMemory(w.t.Context(), n) }()
	synctest.Wait()
	return c, done
}

// has acquires memory and must get it at once.
func (w working) has(user byte, n int64) *call {
	w.t.Helper()
	c, done := w.begin(user, n)
	w.is("asked for by "+string(user), done, true)
	return c
}

func (w working) is(what string, done chan error, in bool) {
	w.t.Helper()
	synctest.Wait()
	if (len(done) > 0) != in {
		w.t.Errorf("%s: let in %v, want %v", what, !in, in)
	}
}

// One user's requests wait for each other, and not another user's for them.
func TestBudgetReservesMemoryForOtherUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := working{t, &front{memory: newMemory(defaultMemory)}}
		half := w.front.memory.work.most / 2
		first := w.has('a', half)
		second, secondDone := w.begin('a', half)
		third, thirdDone := w.begin('a', half)
		w.is("a second one of the same user", secondDone, false)
		other := w.has('b', half)
		late, lateDone := w.begin('c', half)
		first.releaseMemory()
		w.is("the second one, which has waited longest", secondDone, true)
		other.releaseMemory()
		w.is("the third one, of a user who has half", thirdDone, false)
		w.is("the one of a user who has nothing", lateDone, true)
		late.releaseMemory()
		w.is("the third one still", thirdDone, false)
		second.releaseMemory()
		w.is("the third one, at its turn", thirdDone, true)
		third.releaseMemory()
	})
}

// A large request is not overtaken for ever by small ones; a request that gives up is no longer in
// the way, and has taken nothing.
func TestLargeRequestIsNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := working{t, &front{memory: newMemory(defaultMemory)}}
		most := w.front.memory.work.most
		first := w.has('a', most/2)
		large, largeDone := w.begin('b', 2*most) // it would get all there is
		time.Sleep(memoryTimeout / 2)
		small, smallDone := w.begin('c', 1) // for which there is memory
		w.is("the large one", largeDone, false)
		w.is("the small one behind it", smallDone, false)
		late, lateDone := w.begin('d', most)
		time.Sleep(memoryTimeout / 2)
		if err := <-largeDone; !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("the large one ends with %v", err)
		}
		if err := <-smallDone; err != nil {
			t.Errorf("the small one, whose turn it is: %v", err)
		}
		small.releaseMemory()
		w.is("the late one", lateDone, false)
		first.releaseMemory()
		if err := <-lateDone; err != nil {
			t.Errorf("the late one: %v", err)
		}
		large.releaseMemory() // it has nothing
		late.releaseMemory()
		if b := w.front.memory.work; b.free != most || len(b.held) > 0 || len(b.waiting) > 0 {
			t.Errorf("in the end there are %d bytes of %d, %v are held and %d wait", b.free, most, b.held, len(b.waiting))
		}
	})
}

// No request waits forever, and one that gives up holds no memory.
func TestResponseWithoutMemoryIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(sendFraction * sendMemory).sending.atOnce(t)
		first := a.begin(sendMemory, func() {}) // its Write does not even end when it is told to
		if _, err := a.responses.begin(t.Context(), sendMemory, func() {}); !drive.IsKind(err, drive.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is answered with %v", err)
		}
		first()
		a.begin(sendMemory, func() {})()
	})
}

// atOnce are answers of a test that get room.
type atOnce struct {
	*responses
	t *testing.T
}

func (a *responses) atOnce(t *testing.T) atOnce { return atOnce{a, t} }

func (a atOnce) begin(n int64, end func()) func() bool {
	a.t.Helper()
	done, err := a.responses.begin(a.t.Context(), n, end)
	if err != nil {
		a.t.Fatal(err)
	}
	return done
}

// An operator with a larger machine sets GOMEMLIMIT, and every budget follows.
func TestBudgetsFollowTheMemoryLimit(t *testing.T) {
	t.Parallel()
	small, large := newMemory(defaultMemory), newMemory(4*defaultMemory)
	for what, is := range map[string][2]int64{
		"work": {small.work.most, large.work.most}, "bodies": {small.reading.most, large.reading.most},
		"answers": {small.sending.most, large.sending.most},
	} {
		if is[0] == 0 || is[1] != 4*is[0] {
			t.Errorf("%s: %d bytes, and with four times the memory %d", what, is[0], is[1])
		}
	}
}

// The downloads of one link leave memory for those of others, and all together are bounded.
func TestLinkDownloadsAreLimited(t *testing.T) {
	t.Parallel()
	r := newReaders(8 * readerMemory)
	var release []func()
	for i, token := range []string{"a", "a", "a", "a", "a", "a", "a", "b", "b", "c"} {
		done, err := r.acquire(token)
		if want := i == 6 || i == 9; drive.IsKind(err, drive.Rate) != want {
			t.Errorf("download %d, by link %s: %v", i, token, err)
		}
		if err == nil {
			release = append(release, done)
		}
	}
	for _, done := range release {
		done()
	}
	if _, err := r.acquire("a"); err != nil {
		t.Errorf("when all have ended: %v", err)
	}
}
