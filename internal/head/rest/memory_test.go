package rest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smartdrive/internal/base/drive"
)

const sendMemory = int64(32 << 20)

// Bodies of JSON share what there is; a small one is always read.
func TestBodiesShareMemory(t *testing.T) {
	t.Parallel()
	all := &newMemory(defaultMemory).reading
	all.n.Store(all.most - 100)
	small := &limited{src: strings.NewReader(strings.Repeat("x", smallBody)), all: all}
	if _, err := readAll(small); err != nil {
		t.Errorf("a small body: %v", err)
	}
	large := &limited{src: strings.NewReader(strings.Repeat("x", smallBody+101)), all: all}
	if _, err := readAll(large); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("a large body for which there is no memory: %v", err)
	}
	small.close()
	large.close()
	if left := all.n.Load(); left != all.most-100 {
		t.Errorf("%d bytes are in use when both are gone", left)
	}
}

func readAll(l *limited) (n int, err error) {
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

// Who does not read keeps nobody from an answer: the oldest one is broken off, but not a young one.
func TestTheOldestAnswerIsBrokenOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(8 * sendMemory).sending.atOnce(t)
		var broken []int
		var done []func() bool
		for i := range 2 {
			done = append(done, a.begin(sendMemory/2, func() { broken = append(broken, i) }))
			time.Sleep(time.Second) // of the bubble
		}
		began := time.Now()
		go func() { // as its handler does when its Write fails
			time.Sleep(answerYouth)
			if !done[0]() {
				t.Error("the oldest was not broken off")
			}
		}()
		last := a.begin(sendMemory/2, func() {})
		if took := time.Since(began); took < answerYouth-time.Second || len(broken) != 1 || broken[0] != 0 {
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

// Work waits for its memory in the order in which it came, so that a large request is not overtaken
// for ever by small ones; a request that gives up is no longer in the way.
func TestWorkWaitsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &front{memory: newMemory(defaultMemory)}
		most := shared.memory.most
		begin := func(n int64) (*call, chan error) {
			c, done := &call{front: shared}, make(chan error, 1)
			go func() { done <- c.take(t.Context(), n) }()
			synctest.Wait()
			return c, done
		}
		waits := func(who string, done chan error) {
			t.Helper()
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("%s did not wait: %v", who, <-done)
			}
		}
		first, firstDone := begin(most / 2)
		if err := <-firstDone; err != nil {
			t.Fatal(err)
		}
		large, largeDone := begin(2 * most) // it would get all there is
		time.Sleep(roomPatience / 2)
		small, smallDone := begin(1) // for which there is memory
		waits("the large one", largeDone)
		waits("the small one behind it", smallDone)
		late, lateDone := begin(most)
		time.Sleep(roomPatience / 2)
		if err := <-largeDone; !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("the large one ends with %v", err)
		}
		if err := <-smallDone; err != nil {
			t.Errorf("the small one, whose turn it is: %v", err)
		}
		small.leave()
		waits("the late one", lateDone)
		first.leave()
		if err := <-lateDone; err != nil {
			t.Errorf("the late one: %v", err)
		}
		large.leave() // it has nothing
		late.leave()
		if !shared.memory.work.TryAcquire(most) {
			t.Error("memory is missing in the end")
		}
	})
}

// Nobody waits for ever, and who gives up has taken nothing.
func TestAnAnswerWithoutRoomIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(8 * sendMemory).sending.atOnce(t)
		first := a.begin(sendMemory, func() {}) // its Write does not even end when it is told to
		if _, err := a.answers.begin(t.Context(), sendMemory, func() {}); !drive.IsKind(err, drive.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is answered with %v", err)
		}
		first()
		a.begin(sendMemory, func() {})()
	})
}

// atOnce are answers of a test that get room.
type atOnce struct {
	*answers
	t *testing.T
}

func (a *answers) atOnce(t *testing.T) atOnce { return atOnce{a, t} }

func (a atOnce) begin(n int64, end func()) func() bool {
	a.t.Helper()
	done, err := a.answers.begin(a.t.Context(), n, end)
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
		"work": {small.most, large.most}, "bodies": {small.reading.most, large.reading.most},
		"answers": {small.sending.most, large.sending.most},
	} {
		if is[0] == 0 || is[1] != 4*is[0] {
			t.Errorf("%s: %d bytes, and with four times the memory %d", what, is[0], is[1])
		}
	}
	if !large.work.TryAcquire(2 * small.most) {
		t.Error("the larger budget of work is not there")
	}
}
