package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/smartdrive/internal/engine/stream"
)

// TestForbiddenLevelIsPolledWithBackoff: a level without read permission is polled with backoff
// while the other levels work.
func TestForbiddenLevelIsPolledWithBackoff(t *testing.T) {
	t.Parallel()
	r := hurried(t, 1, 20*time.Second)
	var l ledger
	failed := false
	l.answer = func(stream.Record) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !failed {
			failed = true
			return errors.New("no")
		}
		return nil
	}
	forbidden := r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: "smartdrive.delay." + testLevels[1].Name, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	r.run(t, &l)
	r.publish(t, "x", 1)
	l.want(t, 1) // by way of the first level
	r.Clock.Advance(5 * time.Second)
	if n := forbidden.Hits(); n == 0 || n > 100 {
		t.Errorf("it was asked for %d times", n)
	}
}

// TestForbiddenTopicIsPolledWithBackoff: a topic that becomes forbidden ends its session, even
// while a slow handler runs and no one polls.
func TestForbiddenTopicIsPolledWithBackoff(t *testing.T) {
	t.Parallel()
	r := hurried(t, 1, 20*time.Second)
	var l ledger
	begun, end := make(chan struct{}, 1), make(chan struct{})
	l.answer = func(stream.Record) error {
		select {
		case begun <- struct{}{}:
		default: // it comes again
		}
		<-end
		return nil
	}
	w := stream.NewRunner(r.stream, stream.Consumer{Name: "w", Topic: stream.TopicUploads, Handle: l.handle}, stream.Options{Log: silent})
	background(t, w.Run)
	r.publish(t, "x", 1)
	<-begun
	forbidden := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "smartdrive.uploads", Err: kerr.TopicAuthorizationFailed, Count: -1})
	r.publish(t, "y", 1)
	r.Clock.Advance(3 * time.Second)
	if n := forbidden.Hits(); n == 0 || n > 100 {
		t.Errorf("it was asked for %d times", n)
	}
	forbidden.Remove()
	close(end)
	l.want(t, 2)
}
