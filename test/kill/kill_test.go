// Package kill kills the real binary at random moments while clients use it, starts it again, and
// holds it to every word that it gave them: P1-P4, Q1-Q4, B1-B3, E1, W1 and T1 of
// docs/invariants.md. It has tests only.
//
// Clients speak plain HTTP, and write down what they ask and what they are answered (package
// history). Every 20 kills they pause: what they know is compared with what the server says, the
// server is killed once more, and the independent checker (test/check) judges the directory as the
// kill has left it. At the end the server runs until nothing is left to do, stops by itself, and
// the checker and "admin fsck" must agree.
package kill

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"smartdrive/internal/testkit/depth"
	"smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	fewKills  = 30   // a normal run, what lands a change among them
	deepKills = 200  // enough for everything to happen
	soakKills = 2000 // with SMARTDRIVE_SOAK=1
	perCheck  = 20   // kills from one judgement to the next
)

// TestKillLoop takes SMARTDRIVE_KILLS kills (30 of them; 200 in a deep run) and, to repeat a run's
// random choices, its SMARTDRIVE_SEED. The moments at which the server dies are not the same again.
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
