// Package kill kills the real binary at random moments while clients use it, restarts it, and
// checks that it keeps every acknowledged write: P1-P4, Q1-Q4, B1-B3, E1, W1 and T1 of
// docs/invariants.md. It contains only tests.
//
// Clients use plain HTTP and log their requests and the replies (package history). Every 20 kills
// they pause: the state that they expect is compared with the server's, the server is killed once
// more, and the independent checker (test/check) checks the data directory. At the end the server
// runs until it has no work left and stops; the checker and "admin fsck" must agree.
package kill

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	fewKills  = 30   // a normal run, what lands a change among them
	deepKills = 200  // enough for everything to happen
	soakKills = 2000 // with SMARTDRIVE_SOAK=1
	perCheck  = 20   // kills from one judgement to the next
)

// TestKillLoop runs SMARTDRIVE_KILLS kills (default 30, in a deep run 200). SMARTDRIVE_SEED repeats
// the random choices of a run, but not the moments of its kills.
func TestKillLoop(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM on Windows, and kill -9 is another thing there")
	}
	kills := number(t, "SMARTDRIVE_KILLS", int64(depth.Pick(fewKills, fewKills, deepKills)))
	if os.Getenv("SMARTDRIVE_SOAK") == "1" {
		kills = number(t, "SMARTDRIVE_KILLS", soakKills)
	}
	seed := number(t, "SMARTDRIVE_SEED", rand.N[int64](1_000_000))
	l := newLoop(t, seed)
	started := time.Now()
	l.run(int(kills))
	if kills >= deepKills && !t.Failed() {
		l.exercised()
	}
	t.Logf("seed %d: %d kills in %s (%d before the server was ready); %s", seed, l.kills, time.Since(started).Round(time.Second), l.early, l.counts())
}

func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
