package process

import (
	"testing"
	"time"
)

// Eventually asks until what is there agrees (nil) and fails the test with the last error when the
// time is over. It is for state of other processes, which nothing announces; 20 ms apart is often
// enough not to be noticed and rare enough not to load.
func Eventually(t testing.TB, within time.Duration, what string, agrees func() error) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		err := agrees()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
	}
}
