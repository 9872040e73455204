package kafka_test

import (
	"strings"
	"testing"
	"time"

	"smartdrive/internal/servicetest"
	"smartdrive/internal/sqldb/sqldbtest"
	"smartdrive/internal/stream"
	"smartdrive/internal/stream/kafka"
	"smartdrive/internal/stream/streamtest"
)

// real makes a stream on the Kafka of the test environment, in a namespace of the test's own.
func real(t *testing.T, levels []stream.Level) *rig {
	t.Helper()
	opt := kafka.Options{
		Brokers: strings.Split(servicetest.URL(t, servicetest.Kafka), ","), Namespace: servicetest.Unique(), Partitions: 3,
		Levels: levels, RelayEvery: 20 * time.Millisecond,
	}
	r := newRig(t, opt, sqldbtest.Open(t))
	r.Slack, r.Long = 1500*time.Millisecond, 4*time.Second
	t.Cleanup(func() { r.deleteTopics(t) })
	eventually(t, "the coordinator of groups", func() error { // a new broker makes its topic of offsets at first use
		s, err := r.stream.Open(t.Context(), stream.Subscription{Consumer: "first", Topic: stream.TopicUploads})
		if err != nil {
			return err
		}
		return s.Close()
	})
	return r
}

// realLevels leave room for what a Pass takes on a busy machine.
var realLevels = []stream.Level{{Name: "a", Delay: 3 * time.Second}, {Name: "b", Delay: 4 * time.Second}}

func TestConformanceOnKafka(t *testing.T) {
	t.Parallel()
	servicetest.URL(t, servicetest.Kafka)
	for name, test := range streamtest.Tests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := real(t, realLevels)
			test(t, r.Fixture)
		})
	}
}

// A new installation has topics and no groups yet.
func TestNobodyIsBehindBeforeTheFirstHasJoined(t *testing.T) {
	t.Parallel()
	r := &rig{opt: kafka.Options{
		Brokers: strings.Split(servicetest.URL(t, servicetest.Kafka), ","), Namespace: servicetest.Unique(), Partitions: 1,
		Consumers: []stream.Subscription{{Consumer: "first", Topic: stream.TopicUploads}}, Log: silent,
	}}
	r.stream = r.open(t)
	if err := r.stream.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.deleteTopics(t) })
	lags, err := r.stream.Lags(t.Context())
	if err != nil || len(lags) != 1 || lags[0].Offsets != 0 {
		t.Errorf("%+v, %v", lags, err)
	}
}
