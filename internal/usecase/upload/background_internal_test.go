package upload

import (
	"context"
	"testing"
)

// close cancels running and later work, and waits for both.
func TestBackgroundEnds(t *testing.T) {
	t.Parallel()
	var b background
	ended, begun := 0, make(chan struct{})
	b.run(func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		ended++
	})
	<-begun
	b.close()
	b.run(func(ctx context.Context) {
		<-ctx.Done()
		ended++
	})
	b.close()
	if ended != 2 || len(b.cancels) > 0 {
		t.Errorf("%d of 2 have ended, %d are kept", ended, len(b.cancels))
	}
}
