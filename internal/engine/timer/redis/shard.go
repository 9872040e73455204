package redis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

const never = math.MaxInt64 // as a time

// shard is the state that this process keeps for one shard. Times are of the shard's clock, in ms.
type shard struct {
	number int
	name   string // number of the shard and of all shards: "17/64"
	prefix string // "{smartdrive:t17}:"
	meta   string // key of the shard's metadata

	mu       sync.Mutex
	epoch    string                 // "" = not known yet
	former   []string               // the latest earlier epochs
	base     int64                  // the shard's clock at the time at; 0 = not known yet
	at       time.Time              // local time of base
	verified time.Time              // time of the last identity check
	kinds    []kindState            // by timer.Kind
	touched  map[timer.Key]struct{} // keys touched since the last flush
}

// kindState is the state of one kind in one shard.
type kindState struct {
	names    []string  // keys of st, dir, inf, ev
	slice    string    // prefix of the slice keys
	next     int64     // time in ms at which a timer is expected to be reached; never = none known
	asked    time.Time // time of the last lease
	reliable bool      // next is reliable: ask the shard then, even if another instance owns it
	heads    []string  // oldest slices
	lost     string    // concatenated names of the LEASE calls whose replies were lost
	failedAt time.Time // time of the last failed call; zero: it succeeded
}

// newShard returns shard n with the key names of its namespace.
func newShard(namespace string, n int) *shard {
	sh := &shard{number: n, prefix: fmt.Sprintf("{%s:t%d}:", namespace, n), touched: map[timer.Key]struct{}{}}
	sh.meta = sh.prefix + "meta"
	sh.kinds = make([]kindState, len(timer.Kinds())+1)
	for _, k := range timer.Kinds() {
		p := sh.prefix + k.String() + ":"
		sh.kinds[k] = kindState{names: []string{p + "st", p + "dir", p + "inf", p + "ev"}, slice: p, next: never}
	}
	return sh
}

// keys returns the keys of a script that uses the index of kind k: the fixed ones, then each slice
// once.
func (sh *shard) keys(k timer.Kind, slices []string) []string {
	l := &sh.kinds[k]
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

// epochAndClock returns the epoch and the expected clock; "" and 0 before the first reply.
func (sh *shard) epochAndClock(now time.Time) (epoch string, reckoned int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.epoch, sh.clockLocked(now)
}

// clockLocked returns the expected clock of the shard's server at now, in Unix ms, or 0 before the
// first reply. The caller holds sh.mu.
func (sh *shard) clockLocked(now time.Time) int64 {
	if sh.base == 0 {
		return 0
	}
	return sh.base + now.Sub(sh.at).Milliseconds()
}

// maxFormer bounds the stored earlier epochs, and so how late a reply from before a loss is
// recognized.
const maxFormer = 16

// observe updates epoch and clock from a reply. It reports whether the shard was lost since the
// last reply. A reply of a former epoch was overtaken and is ignored: an epoch never returns, since
// a server that lost it starts a new one.
func (sh *shard) observe(epoch string, clock int64, now time.Time) (lost bool) {
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

// noteNext records that a timer armed or settled by this process is reached at next.
func (sh *shard) noteNext(k timer.Kind, next int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l := &sh.kinds[k]; next < l.next {
		l.next, l.reliable = next, true
	}
}

// newEpoch returns a random epoch.
func newEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
