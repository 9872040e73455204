package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/stream/kafka"
	"smartdrive/internal/testkit/servicetest"
)

func TestTopicsThatAreDeletedAreMadeAgain(t *testing.T) {
	fake(t, madeAgain)
}

func TestTopicsThatAreDeletedAreMadeAgainOnKafka(t *testing.T) {
	t.Parallel()
	servicetest.URL(t, servicetest.Kafka)
	madeAgain(t, onBroker(t, kafka.Options{Levels: realLevels, WatchEvery: time.Second}))
}

// Somebody deletes all topics while two processes use them: they are made again, as they were, and
// everything that comes then is handled, retries and dead letters included.
func madeAgain(t *testing.T, r *rig) {
	other := *r
	other.stream = r.start(t)
	background(t, r.stream.RunTopics, other.stream.RunTopics)
	l := ledger{answer: func(rec stream.Record) error {
		if rec.Subject == "bad" {
			return drive.Fail(drive.Internal)
		}
		return nil
	}}
	r.run(t, &l)
	other.run(t, &l)
	r.publish(t, "before", 10)
	l.want(t, 10)

	admin := kadm.NewClient(r.raw(t))
	before := r.topics(t, admin)
	gone, err := admin.DeleteTopics(t.Context(), names(before)...)
	if err = errors.Join(err, gone.Error()); err != nil {
		t.Fatal(err)
	}
	r.publish(t, "while", 10)
	r.Publish(t, drive.NewID[drive.AccountID](), "bad")
	l.want(t, 20)
	eventually(t, "the bad one is a dead letter", func() error {
		list, err := r.outbox.List(t.Context(), 10, 0)
		if err == nil && len(list) != 1 {
			err = errors.New("it is not")
		}
		return err
	})
	if diff := cmp.Diff(before, r.topics(t, admin)); diff != "" {
		t.Error(diff)
	}
	r.publish(t, "after", 10)
	l.want(t, 30)
}

// topic is what one is like.
type topic struct {
	Name       string
	Partitions int
	Settings   map[string]string
}

func names(all []topic) (names []string) {
	for _, one := range all {
		names = append(names, one.Name)
	}
	return names
}

// topics lists those of the stream.
func (r *rig) topics(t *testing.T, admin *kadm.Client) (all []topic) {
	t.Helper()
	prefix := r.opt.Namespace
	if prefix == "" {
		prefix = "smartdrive"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list, err := admin.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if !strings.HasPrefix(d.Topic, prefix+".") {
			continue
		}
		one := topic{Name: d.Topic, Partitions: len(d.Partitions), Settings: map[string]string{}}
		configs, err := admin.DescribeTopicConfigs(ctx, d.Topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range configs[0].Configs {
			one.Settings[c.Key] = c.MaybeValue()
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b topic) int { return strings.Compare(a.Name, b.Name) })
	return all
}
