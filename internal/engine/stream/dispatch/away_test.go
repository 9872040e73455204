package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
)

// silent is a broker that does not answer until it is back; senders wait until their timeout.
type silent struct {
	back time.Time
	sent
}

func (s *silent) Send(ctx context.Context, records ...stream.Record) error {
	if time.Now().Before(s.back) {
		<-ctx.Done()
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	return s.sent.Send(ctx, records...)
}

// TestALongOutageOfTheBrokerKillsNoTimer checks that unpublished timers are retried without limit.
func TestALongOutageOfTheBrokerKillsNoTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := &silent{back: time.Now().Add(6 * time.Hour)}
		publish := dispatch.New(dispatch.Options{Sender: broker}).Publish
		var dead []error
		engine := timer.New(timer.Options{
			Queue: memory.New(memory.Options{}), Handlers: map[timer.Kind]timer.Handler{timer.Park: publish},
			OnDead: func(_ context.Context, _ timer.Fired, cause error) error { dead = append(dead, cause); return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = engine.Run(ctx) })
		key := timer.Key{Kind: timer.Park, ID: drive.NewID[[16]byte]()}
		if err := engine.Arm(t.Context(), timer.Entry{Key: key, Gen: 1}); err != nil {
			t.Fatal(err)
		}
		<-time.After(6*time.Hour + 10*time.Minute)
		cancel()
		running.Wait()
		if len(dead) > 0 || len(broker.records) != 1 {
			t.Errorf("%d records were published, and timers died of %v", len(broker.records), dead)
		}
	})
}
