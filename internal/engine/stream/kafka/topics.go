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
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// topic returns the name of a topic on the broker: the namespace replaces "smartdrive".
func (s *Stream) topic(t stream.Topic) string { return s.opt.Namespace + "." + short(t) }

// level returns the topic of a delay level.
func (s *Stream) level(l stream.Level) string { return s.opt.Namespace + ".delay." + l.Name }

// retry returns the retry topic of a consumer.
func (s *Stream) retry(consumer string, t stream.Topic) string {
	return s.opt.Namespace + ".retry." + consumer + "." + short(t)
}

// dlq returns the topic of dead letters.
func (s *Stream) dlq() string { return s.opt.Namespace + ".dlq" }

// group returns the group of a consumer: one per topic.
func (s *Stream) group(consumer string, t stream.Topic) string {
	return s.opt.Namespace + "." + consumer + "." + short(t)
}

// levelGroup returns the group of RunLevels.
func (s *Stream) levelGroup() string { return s.opt.Namespace + ".delay" }

// dlqGroup returns the group of RunDead.
func (s *Stream) dlqGroup() string { return s.opt.Namespace + ".dlq" }

// short returns the topic name without "smartdrive.".
func short(t stream.Topic) string { return strings.TrimPrefix(string(t), "smartdrive.") }

// validName reports whether a name may be part of a topic name. Kafka allows these characters and
// 249 of them.
func validName(name string) bool {
	return name != "" && len(name) <= 80 && namePattern.MatchString(name)
}

// namePattern matches the characters that Kafka allows in a topic name.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

const (
	week = 7 * 24 * time.Hour
	// Retention must outlast an outage of the readers; for dead letters also an administrator's
	// absence.
	keepRecords = week
	keepDead    = 30 * 24 * time.Hour // retention of the dead letter topic
)

// topicSpec describes the required settings of a topic.
type topicSpec struct {
	name             string
	retention        time.Duration // least retention.ms
	brokerTimestamps bool          // timestamps are set by the broker
}

// specs returns all topics that must exist.
func (s *Stream) specs() []topicSpec {
	var all []topicSpec
	for _, t := range stream.Topics() {
		all = append(all, topicSpec{name: s.topic(t), retention: keepRecords})
	}
	for _, l := range s.opt.Levels {
		all = append(all, s.levelSpec(l))
	}
	for _, sub := range s.opt.Consumers {
		all = append(all, s.retrySpec(sub.Consumer, sub.Topic))
	}
	return append(all, topicSpec{name: s.dlq(), retention: keepDead})
}

// levelSpec returns the topic of a delay level.
func (s *Stream) levelSpec(l stream.Level) topicSpec {
	return topicSpec{name: s.level(l), retention: l.Delay + week, brokerTimestamps: true}
}

// retrySpec returns the retry topic of a consumer.
func (s *Stream) retrySpec(consumer string, t stream.Topic) topicSpec {
	return topicSpec{name: s.retry(consumer, t), retention: keepRecords}
}

const (
	keyRetention = "retention.ms"
	keyCleanup   = "cleanup.policy"
	keyTimestamp = "message.timestamp.type"
	keyMinISR    = "min.insync.replicas"
	keyMaxBytes  = "max.message.bytes"

	appendTime = "LogAppendTime" // value of keyTimestamp: the broker sets the timestamps
	// largestMessage is the greatest size of an event with its headers, with reserve.
	largestMessage = 2*stream.MaxEvent + 16<<10
)

// settings returns the settings for creating the topic.
func (t topicSpec) settings(replicas int16) map[string]*string {
	set := map[string]*string{
		keyRetention: new(strconv.FormatInt(t.retention.Milliseconds(), 10)), keyCleanup: new("delete"), keyMinISR: new("1"),
	}
	if t.brokerTimestamps {
		set[keyTimestamp] = new(appendTime)
	}
	if replicas >= maxReplicas {
		set[keyMinISR] = new("2") // one broker may be down while another is lost with its data
	}
	return set
}

// ensure creates missing topics and waits until the brokers know them. A topic that another process
// creates at the same time is not an error. If a topic cannot be created, ensure creates the others
// and returns the error.
func (s *Stream) ensure(ctx context.Context, topics ...topicSpec) error {
	missing := map[string]ownTopic{}
	s.mu.Lock()
	for _, t := range topics {
		if own := s.topics[t.name]; !own.exists {
			missing[t.name] = ownTopic{topicSpec: t, deleted: own.deleted}
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
	var failed error
	for name, t := range missing {
		created, err := s.admin.CreateTopics(ctx, s.opt.Partitions, replicas, t.settings(replicas), name)
		if err == nil {
			err = created.Error()
		}
		switch {
		case err == nil && t.deleted:
			s.opt.Log.ErrorContext(ctx, "a Kafka topic was deleted; it is created again, and the records it held are lost", "topic", name)
		case err != nil && !errors.Is(err, kerr.TopicAlreadyExists):
			failed = errors.Join(failed, fmt.Errorf("create topic %s: %w", name, classify(err)))
			delete(missing, name)
		}
	}
	if err := s.awaitTopics(ctx, slices.Collect(maps.Keys(missing))); err != nil {
		return errors.Join(failed, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range missing {
		s.topics[name] = ownTopic{topicSpec: t.topicSpec, exists: true}
	}
	return failed
}

// noteMissing notes that the brokers reported a topic as missing, so that the next ensure creates
// it unless it exists. Topics that this process does not use are ignored.
func (s *Stream) noteMissing(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, ok := s.topics[topic]; ok {
		own.exists, own.deleted = false, true
		s.topics[topic] = own
	}
}

// isOwn reports whether this process uses the topic, which may have been deleted.
func (s *Stream) isOwn(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.topics[topic]
	return ok
}

// deletedTopics returns the specs of the messages' topics which noteMissing has found deleted; nil
// if there are none. A topic may occur more than once.
func (s *Stream) deletedTopics(messages []*kgo.Record) (topics []topicSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if own := s.topics[m.Topic]; own.deleted {
			topics = append(topics, own.topicSpec)
		}
	}
	return topics
}

// warnMissing logs an error of ensure, for callers that go on with the other topics.
func (s *Stream) warnMissing(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.opt.Log.WarnContext(ctx, "a Kafka topic cannot be created; records for it wait", "error", err)
	}
}

// spreadTime bounds the time until all brokers know a new topic. A broker that creates a thousand
// other partitions meanwhile takes more than half a minute.
const spreadTime = 2 * time.Minute

// awaitTopics waits until the brokers can describe the topics, which they learn from each other
// after the creation. It fails with the last error if spreadTime passes or ctx ends.
func (s *Stream) awaitTopics(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	for until := time.Now().Add(spreadTime); ; pause(ctx, nil, firstPause/2) {
		configs, err := s.admin.DescribeTopicConfigs(ctx, names...)
		for _, c := range configs {
			err = errors.Join(err, c.Err)
		}
		if err == nil || ctx.Err() != nil || time.Now().After(until) {
			return classify(err)
		}
	}
}

// replicas returns the replication factor for new topics: Options.Replicas, or if zero the number
// of brokers, at most maxReplicas.
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

// Check creates missing topics and checks the existing ones. It returns one joined error per fault,
// each of kind Precondition. Unavailable means that no broker answered.
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

// The broker's version is detected by its protocol: version 16 of Fetch came with Kafka 3.7
// (KIP-951), the oldest release that we test.
const (
	oldestKafka  = "3.7"
	fetchKey     = 1
	fetchVersion = 16
)

// checkVersions asks every broker for its version and fails with Precondition {broker, version,
// oldest} if one is older than oldestKafka; also if one does not answer.
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
			return drive.Fail(drive.Precondition, "broker", v.NodeID, "version", v.VersionGuess(), "oldest", oldestKafka)
		}
	}
	return nil
}

// check returns a Precondition error {topic, setting, value, needed}, joined if several, for each
// setting of the topic that would lose or delay records; nil if all are right. It also fails if the
// settings could not be read.
func (t topicSpec) check(configs kadm.ResourceConfigs) error {
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
	if t.brokerTimestamps && value(keyTimestamp) != appendTime {
		wrong(keyTimestamp, appendTime)
	}
	if keep, err := strconv.ParseInt(value(keyRetention), 10, 64); err == nil && keep >= 0 && keep < t.retention.Milliseconds() {
		wrong(keyRetention, fmt.Sprintf("at least %d", t.retention.Milliseconds()))
	}
	if size, err := strconv.Atoi(value(keyMaxBytes)); err == nil && size < largestMessage {
		wrong(keyMaxBytes, fmt.Sprintf("at least %d", largestMessage))
	}
	return errors.Join(faults...)
}
