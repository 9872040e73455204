package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/kafka"
)

// TestOtherProducersUseTheLevels (U16): a message of another producer reaches its topic after the
// delay, not earlier. An oversized or malformed one, or one for an unlisted topic, becomes a dead
// letter with the reason and delays no other.
func TestOtherProducersUseTheLevels(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		raw := r.raw(t)
		adm := kadm.NewClient(raw)
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "orders.late"); err != nil {
			t.Fatal(err)
		}
		r.stopLevels() // of the stream that knows no targets
		r.opt.Targets = []string{"orders.late", "absent"}
		background(t, r.open(t).RunLevels)
		level := "smartdrive.delay." + testLevels[0].Name
		begin := time.Now()
		for _, value := range []string{
			`{"topic": "smartdrive.delay.5s", "value": "loop"}`, `{"topic": "secrets", "value": "x"}`, `no JSON \xff`, `{"topic": "orders.late"}`,
			`{"topic": "absent", "value": "x"}`, `{"topic": "orders.late", "value": "` + strings.Repeat("x", stream.MaxEvent) + `"}`,
			`{"topic": "orders.late", "key": "7", "value": "text"}`, `{"topic": "orders.late", "value": {"order": 7}}`,
		} {
			m := &kgo.Record{Topic: level, Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "theirs", Value: []byte("1")}}}
			if err := raw.ProduceSync(t.Context(), m).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		reader := r.raw(t, kgo.ConsumeTopics("orders.late"))
		var got []string
		for len(got) < 2 {
			fetches := reader.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(m *kgo.Record) {
				got = append(got, fmt.Sprintf("%s=%s %s", m.Key, m.Value, m.Headers[0].Key))
			})
		}
		if early := testLevels[0].Delay - time.Since(begin); early > 0 {
			t.Errorf("they came %v early", early)
		}
		slices.Sort(got)
		if all := strings.Join(got, "; "); all != `7=text theirs; ={"order": 7} theirs` {
			t.Errorf("the topic has %s", all)
		}
		eventually(t, "the others are dead letters", func() error {
			list, err := r.outbox.List(t.Context(), 10, 0)
			if err != nil || len(list) != 6 {
				return fmt.Errorf("%d letters, error %w", len(list), err)
			}
			for _, d := range list {
				if d.Failure.Kind == "" || d.Failure.Text == "" || len(d.Event) > stream.MaxEvent {
					return fmt.Errorf("a letter of %d bytes says %+v", len(d.Event), d.Failure)
				}
			}
			return nil
		})
	})
}

// TestUnavailableTargetDelaysNoOther: an unavailable target topic of another producer delays only
// messages for that topic.
func TestUnavailableTargetDelaysNoOther(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		raw := r.raw(t)
		adm := kadm.NewClient(raw)
		if _, err := adm.CreateTopics(t.Context(), 1, 1, nil, "orders.late", "orders.other"); err != nil {
			t.Fatal(err)
		}
		r.stopLevels() // of the stream that knows no targets
		r.opt.Targets = []string{"orders.late", "orders.other"}
		background(t, r.open(t).RunLevels)
		fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders.late", Err: kerr.NotEnoughReplicas, Count: -1})
		delay := func(topic string) {
			m := &kgo.Record{Topic: "smartdrive.delay." + testLevels[0].Name, Value: []byte(`{"topic": "` + topic + `", "value": "x"}`)}
			if err := raw.ProduceSync(t.Context(), m).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		arrives := func(topic string) {
			reader := r.raw(t, kgo.ConsumeTopics(topic))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			if err := reader.PollFetches(ctx).Err(); err != nil {
				t.Errorf("nothing comes to %s: %v", topic, err)
			}
		}
		delay("orders.late")
		r.Clock.Advance(testLevels[0].Delay + time.Second) // it is on its way
		delay("orders.other")
		arrives("orders.other")
		if fault.Hits() == 0 {
			t.Error("the topic was never tried")
		}
		fault.Remove()
		arrives("orders.late")
	})
}

// TestLoopsAreRefused: a target inside the namespace could loop and is refused at the start.
func TestLoopsAreRefused(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"smartdrive.delay.5s", "smartdrive.uploads", "smartdrive", "no/topic", ""} {
		if _, err := kafka.New(kafka.Options{Brokers: []string{"localhost:1"}, Targets: []string{target}}); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("target %q: %v", target, err)
		}
	}
}
