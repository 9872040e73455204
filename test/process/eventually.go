package process

import (
	"testing"
	"time"
)

// Eventually calls agrees every 20 ms until it returns nil. If that takes longer than within, the
// test fails with agrees' last error. Use it for the state of other processes, which sends no
// notification.
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
