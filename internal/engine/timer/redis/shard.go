package redis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"smartdrive/internal/engine/timer"
)

const never = math.MaxInt64 // as a time

// shard is what this process knows of one shard. Times are of the shard's clock.
type shard struct {
	number int
	name   string // "17/64"
	prefix string // "{smartdrive:t17}:"
	meta   string

	mu       sync.Mutex
	epoch    string    // "" = not known yet
	former   []string  // those before it, the last ones
	base     int64     // the clock as of at, by the monotonic clock of this process
	at       time.Time //
	verified time.Time // when the server's run was last asked for
	lanes    []lane    // by kind
	touched  map[timer.Key]struct{}
}

// lane is one kind in one shard.
type lane struct {
	names []string // of st, dir, inf, ev
	slice string   // begins the names of its slices
	next  int64    // when something comes up, as far as is known
	asked time.Time
	mine  bool      // next is known to be right: whoever owns the shard, it may be asked then
	heads []string  // the oldest slices
	lost  string    // names of the LEASE calls whose replies never came
	broke time.Time // when the last call failed; zero: it did not
}

func newShard(namespace string, n int) *shard {
	sh := &shard{number: n, prefix: fmt.Sprintf("{%s:t%d}:", namespace, n), touched: map[timer.Key]struct{}{}}
	sh.meta = sh.prefix + "meta"
	sh.lanes = make([]lane, len(timer.Kinds())+1)
	for _, k := range timer.Kinds() {
		p := sh.prefix + k.String() + ":"
		sh.lanes[k] = lane{names: []string{p + "st", p + "dir", p + "inf", p + "ev"}, slice: p, next: never}
	}
	return sh
}

// keys are those of a script that works on the index.
func (sh *shard) keys(k timer.Kind, slices []string) []string {
	l := &sh.lanes[k]
	keys := append([]string{sh.meta}, l.names...)
	seen := map[string]bool{}
	for _, code := range slices {
		if !seen[code] {
			seen[code] = true
			keys = append(keys, l.slice+code)
		}
	}
	return keys
}

// knows is the epoch and the reckoned clock; "" and 0 while nothing is known.
func (sh *shard) knows(now time.Time) (epoch string, reckoned int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.epoch, sh.clockLocked(now)
}

func (sh *shard) clockLocked(now time.Time) int64 {
	if sh.base == 0 {
		return 0
	}
	return sh.base + now.Sub(sh.at).Milliseconds()
}

// maxFormer is how many epochs a reply may come too late for: a shard was lost as often meanwhile.
const maxFormer = 16

// learns takes in what a reply says. It reports whether the shard was lost since the last one. A
// reply that was overtaken by the one that told of a loss teaches nothing: no epoch comes back for
// good, since a server that has lost one is not what it was, and begins another.
func (sh *shard) learns(epoch string, clock int64, now time.Time) (lost bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if slices.Contains(sh.former, epoch) {
		return false
	}
	if epoch != sh.epoch {
		if lost = sh.epoch != ""; lost {
			sh.former = append(sh.former[max(0, len(sh.former)-maxFormer+1):], sh.epoch)
		}
		sh.epoch = epoch
	}
	sh.base, sh.at = clock, now
	return lost
}

// expect notes that something of this process comes up at next.
func (sh *shard) expect(k timer.Kind, next int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l := &sh.lanes[k]; next < l.next {
		l.next, l.mine = next, true
	}
}

func newEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
