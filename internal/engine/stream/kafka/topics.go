package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// The names begin with the namespace, as those of package stream begin with "smartdrive".
func (s *Stream) topic(t stream.Topic) string { return s.opt.Namespace + "." + short(t) }

func (s *Stream) level(l stream.Level) string { return s.opt.Namespace + ".delay." + l.Name }

func (s *Stream) retry(consumer string, t stream.Topic) string {
	return s.opt.Namespace + ".retry." + consumer + "." + short(t)
}

func (s *Stream) dlq() string { return s.opt.Namespace + ".dlq" }

// group of a consumer: one for each topic, as there is a cursor for each.
func (s *Stream) group(consumer string, t stream.Topic) string {
	return s.opt.Namespace + "." + consumer + "." + short(t)
}

func (s *Stream) levelGroup() string { return s.opt.Namespace + ".delay" }

func (s *Stream) dlqGroup() string { return s.opt.Namespace + ".dlq" }

func short(t stream.Topic) string { return strings.TrimPrefix(string(t), "smartdrive.") }

// legal reports whether a name may be part of a topic's, which Kafka limits to 249 of these.
func legal(name string) bool { return name != "" && len(name) <= 80 && legalName.MatchString(name) }

var legalName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

const (
	week = 7 * 24 * time.Hour
	// What waits must outlive an outage of whoever reads it; a dead letter also the holidays of who
	// looks at it.
	keepRecords = week
	keepDead    = 30 * 24 * time.Hour
)

// spec is what a topic must be like.
type spec struct {
	name     string
	keep     time.Duration // retention.ms is at least this
	appended bool          // its timestamps are the broker's
}

// specs returns all topics that must be there.
func (s *Stream) specs() []spec {
	var all []spec
	for _, t := range stream.Topics() {
		all = append(all, spec{name: s.topic(t), keep: keepRecords})
	}
	for _, l := range s.opt.Levels {
		all = append(all, s.levelSpec(l))
	}
	for _, sub := range s.opt.Consumers {
		all = append(all, s.retrySpec(sub.Consumer, sub.Topic))
	}
	return append(all, spec{name: s.dlq(), keep: keepDead})
}

func (s *Stream) levelSpec(l stream.Level) spec {
	return spec{name: s.level(l), keep: l.Delay + week, appended: true}
}

func (s *Stream) retrySpec(consumer string, t stream.Topic) spec {
	return spec{name: s.retry(consumer, t), keep: keepRecords}
}

const (
	keyRetention = "retention.ms"
	keyCleanup   = "cleanup.policy"
	keyTimestamp = "message.timestamp.type"
	keyMinISR    = "min.insync.replicas"
	keyMaxBytes  = "max.message.bytes"

	appendTime = "LogAppendTime"
	// largestMessage is an event with its headers, and room.
	largestMessage = 2*stream.MaxEvent + 16<<10
)

func (t spec) settings(replicas int16) map[string]*string {
	set := map[string]*string{
		keyRetention: new(strconv.FormatInt(t.keep.Milliseconds(), 10)), keyCleanup: new("delete"), keyMinISR: new("1"),
	}
	if t.appended {
		set[keyTimestamp] = new(appendTime)
	}
	if replicas >= maxReplicas {
		set[keyMinISR] = new("2") // one broker may be away, and one may be lost with what it has
	}
	return set
}

// ensure creates the topics that are not there. Who else does it at the same time is not an error.
func (s *Stream) ensure(ctx context.Context, topics ...spec) error {
	var missing []spec
	s.mu.Lock()
	for _, t := range topics {
		if _, known := s.known[t.name]; !known {
			missing = append(missing, t)
		}
	}
	s.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	replicas, err := s.replicas(ctx)
	if err != nil {
		return err
	}
	for _, t := range missing {
		created, err := s.admin.CreateTopics(ctx, s.opt.Partitions, replicas, t.settings(replicas), t.name)
		if err == nil {
			err = created.Error()
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", t.name, classify(err))
		}
		if err == nil && s.wasDeleted(t.name) {
			s.opt.Log.ErrorContext(ctx, "a Kafka topic was deleted; it is created again, and the records it held are lost", "topic", t.name)
		}
	}
	if err := s.await(ctx, missing); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range missing {
		s.known[t.name] = t
		delete(s.deleted, t.name)
	}
	return nil
}

// noteMissing reports whether err says that the topic was deleted, and perhaps created again: the
// brokers do not know its name or its id. The next ensure creates the topic unless it exists, and
// the producer looks up its new id.
func (s *Stream) noteMissing(topic string, err error) bool {
	if !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID) {
		return false
	}
	s.mu.Lock()
	was, known := s.known[topic]
	if known {
		delete(s.known, topic)
		s.deleted[topic] = was
	}
	s.mu.Unlock()
	if known {
		s.cl.PurgeTopicsFromProducing(topic)
	}
	return true
}

// wasDeleted reports whether a topic that this process knew was deleted and is not created again.
func (s *Stream) wasDeleted(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.deleted[topic]
	return was
}

// recreate creates the topics that noteMissing has noted.
func (s *Stream) recreate(ctx context.Context) error {
	s.mu.Lock()
	topics := slices.Collect(maps.Values(s.deleted))
	s.mu.Unlock()
	return s.ensure(ctx, topics...)
}

// spread is how long the brokers may take to hear of a new topic: one that makes a thousand
// partitions for others meanwhile was seen to take longer than half a minute.
const spread = 2 * time.Minute

// await waits until the brokers know topics that were created.
func (s *Stream) await(ctx context.Context, topics []spec) error {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.name
	}
	for until := time.Now().Add(spread); ; pause(ctx, nil, firstPause/2) {
		configs, err := s.admin.DescribeTopicConfigs(ctx, names...)
		for _, c := range configs {
			err = errors.Join(err, c.Err)
		}
		if err == nil || ctx.Err() != nil || time.Now().After(until) {
			return classify(err)
		}
	}
}

func (s *Stream) replicas(ctx context.Context) (int16, error) {
	if s.opt.Replicas > 0 {
		return s.opt.Replicas, nil
	}
	brokers, err := s.admin.ListBrokers(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the brokers: %w", classify(err))
	}
	return int16(min(len(brokers), maxReplicas)), nil
}

// Check creates what is missing and says what is wrong with what is there: each fault is an error
// of its own, one line each when they are printed. Unavailable means that the brokers could not be
// asked.
func (s *Stream) Check(ctx context.Context) error {
	if err := s.checkVersions(ctx); err != nil {
		return err
	}
	specs := s.specs()
	if err := s.ensure(ctx, specs...); err != nil {
		return err
	}
	names := make([]string, len(specs))
	for i, t := range specs {
		names[i] = t.name
	}
	configs, err := s.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("read the settings of the topics: %w", classify(err))
	}
	var faults []error
	for _, t := range specs {
		faults = append(faults, t.check(configs))
	}
	return errors.Join(faults...)
}

// A broker is judged by what it speaks: version 16 of Fetch came with Kafka 3.7 (KIP-951), the
// oldest release we test.
const (
	oldest       = "3.7"
	fetchKey     = 1
	fetchVersion = 16
)

func (s *Stream) checkVersions(ctx context.Context) error {
	versions, err := s.admin.ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("ask the brokers for their version: %w", classify(err))
	}
	for _, v := range versions.Sorted() {
		if v.Err != nil {
			return fmt.Errorf("ask broker %d for its version: %w", v.NodeID, classify(v.Err))
		}
		if highest, _ := v.KeyMaxVersion(fetchKey); highest < fetchVersion {
			return drive.Fail(drive.Precondition, "broker", v.NodeID, "version", v.VersionGuess(), "oldest", oldest)
		}
	}
	return nil
}

// check compares the settings that the stream relies on.
func (t spec) check(configs kadm.ResourceConfigs) error {
	config, err := configs.On(t.name, nil)
	if err == nil {
		err = config.Err
	}
	if err != nil {
		return fmt.Errorf("read the settings of topic %s: %w", t.name, classify(err))
	}
	value := func(key string) string {
		for _, c := range config.Configs {
			if c.Key == key {
				return c.MaybeValue()
			}
		}
		return ""
	}
	var faults []error
	wrong := func(key, want string) {
		faults = append(faults, drive.Fail(drive.Precondition, "topic", t.name, "setting", key, "value", value(key), "needed", want))
	}
	if strings.Contains(value(keyCleanup), "compact") {
		wrong(keyCleanup, "delete")
	}
	if t.appended && value(keyTimestamp) != appendTime {
		wrong(keyTimestamp, appendTime)
	}
	if keep, err := strconv.ParseInt(value(keyRetention), 10, 64); err == nil && keep >= 0 && keep < t.keep.Milliseconds() {
		wrong(keyRetention, fmt.Sprintf("at least %d", t.keep.Milliseconds()))
	}
	if size, err := strconv.Atoi(value(keyMaxBytes)); err == nil && size < largestMessage {
		wrong(keyMaxBytes, fmt.Sprintf("at least %d", largestMessage))
	}
	return errors.Join(faults...)
}
