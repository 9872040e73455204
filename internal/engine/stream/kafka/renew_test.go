package kafka_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/stream/kafka"
)

func TestTopicsThatAreDeletedAreMadeAgain(t *testing.T) {
	t.Parallel()
	deleted(t, hurried(t, 1, 2*time.Second))
}

func TestTopicsThatAreDeletedAreMadeAgainOnKafka(t *testing.T) {
	t.Parallel()
	deleted(t, onBroker(t, kafka.Options{Levels: realLevels, SessionTimeout: 10 * time.Second}))
}

// deleted deletes all topics under a stream that runs, and then once more, when another process
// makes them again before it can. What was published before was handled; what comes after it is
// handled, too, by way of a level, and nobody starts anything again.
func deleted(t *testing.T, r *rig) {
	var refused sync.Map
	l := ledger{answer: func(rec stream.Record) error {
		if _, again := refused.LoadOrStore(rec.Subject, true); again || !strings.HasPrefix(rec.Subject, "again") {
			return nil
		}
		return errors.New("not yet")
	}}
	r.run(t, &l)
	r.publish(t, "before", 50)
	l.want(t, 50)
	r.deleteElsewhere(t)
	r.publish(t, "after", 50)
	l.want(t, 100)
	r.deleteElsewhere(t)
	if err := r.open(t).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.publish(t, "again", 50)
	l.want(t, 150)
}

// deleteElsewhere deletes all topics, and the stream of the rig does not hear of it.
func (r *rig) deleteElsewhere(t *testing.T) {
	t.Helper()
	other := r.open(t)
	if err := other.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.DeleteTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
}
