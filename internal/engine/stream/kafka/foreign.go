package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// foreign is what a producer that is not SmartDrive puts on a level (U16): the value goes to the
// topic, under the key, when the level's delay is over. docs/formats/kafka.md has the contract.
type foreign struct {
	Topic string          `json:"topic"`
	Key   *string         `json:"key"`
	Value json.RawMessage `json:"value"`
}

// checkTargets refuses targets that would make a loop, or that no topic can be called. What begins
// with the namespace is SmartDrive's own: a level, a retry topic, the dlq, or what only it may
// publish on.
func (o Options) checkTargets() error {
	for _, topic := range o.Targets {
		if !legal(topic) {
			return drive.Bad("kafka-delay-topics", drive.Malformed, "expected", "letters, digits, '.', '_' and '-'", "sent", topic)
		}
		if topic == o.Namespace || strings.HasPrefix(topic, o.Namespace+".") {
			return drive.Bad("kafka-delay-topics", drive.Malformed, "expected", "topics outside of "+o.Namespace+".", "sent", topic)
		}
	}
	return nil
}

// foreign returns the message that a foreign producer wants to have on its topic. An error says
// what is wrong with it.
func (s *Stream) foreign(m *kgo.Record) (*kgo.Record, error) {
	if len(m.Value) > stream.MaxEvent {
		return nil, drive.Wrap(fmt.Errorf("it has %d bytes, more than %d", len(m.Value), stream.MaxEvent), drive.TooLarge)
	}
	var f foreign
	if err := json.Unmarshal(m.Value, &f); err != nil {
		return nil, drive.Wrap(fmt.Errorf("it is no record of ours, and not {topic, key, value}: %w", err), drive.BadRequest)
	}
	if f.Topic == "" || f.Value == nil {
		return nil, drive.Wrap(errors.New("it is no record of ours, and not {topic, key, value}"), drive.BadRequest)
	}
	if !slices.Contains(s.opt.Targets, f.Topic) {
		return nil, drive.Wrap(fmt.Errorf("topic %.100q is not one of --kafka-delay-topics", f.Topic), drive.Forbidden)
	}
	out := &kgo.Record{Topic: f.Topic, Value: f.Value, Headers: theirs(m.Headers)}
	if f.Key != nil {
		out.Key = []byte(*f.Key)
	}
	var text string
	if json.Unmarshal(f.Value, &text) == nil && f.Value[0] == '"' {
		out.Value = []byte(text)
	}
	return out, nil
}

// hopeless reports whether a message can never be sent where it is to go, so that it must not hold
// up the messages behind it: its topic is unknown to the brokers and to this process, or the topic
// of another producer refuses the message.
func (s *Stream) hopeless(m *kgo.Record, err error) bool {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return !s.wasDeleted(m.Topic)
	}
	return slices.Contains(s.opt.Targets, m.Topic) && (errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.InvalidTopicException) || errors.Is(err, kerr.TopicAuthorizationFailed))
}

const (
	// othersTime is how long the topics of other producers may take for a batch: longer than it
	// takes to find out that a topic is not there.
	othersTime = 10 * time.Second
	// awayTime is how long a topic is not tried again that took nothing in that time: each try
	// delays the retries that come due meanwhile.
	awayTime = time.Minute
)

// forwardOthers sends the messages of a batch that go to topics of other producers, and notes what
// became of each. What such a topic does not take now, as its replicas are away, waits once more on
// the first level: however long that lasts, it holds up nothing of ours.
func (w *waiters) forwardOthers(ctx context.Context, b batch, others []int, errs []error) {
	var now, later []int
	for _, i := range others {
		if w.s.opt.Now().Before(w.away[b.messages[i].Topic]) {
			later = append(later, i)
		} else {
			now = append(now, i)
		}
	}
	messages := b.some(now)
	own, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	for n, err := range w.s.produceAll(own, w.s.others, messages) {
		m, i := messages[n], now[n]
		switch {
		case err == nil:
			w.s.counters.Foreign.Add(1)
		case w.s.hopeless(m, err):
			errs[i] = w.bury(ctx, m, err)
		case ctx.Err() != nil:
			errs[i] = err
		default:
			w.goneAway(ctx, m.Topic, err)
			later = append(later, i)
		}
	}
	again := make([]*kgo.Record, len(later))
	for n, i := range later {
		again[n] = forwarded(w.s.level(w.s.opt.Levels[0]), b.held[i])
	}
	for n, err := range w.s.produceAll(ctx, w.s.cl, again) {
		errs[later[n]] = err
	}
}

// goneAway notes that a topic took nothing.
func (w *waiters) goneAway(ctx context.Context, topic string, err error) {
	now := w.s.opt.Now()
	if now.Before(w.away[topic]) {
		return // of the same batch
	}
	w.away[topic] = now.Add(awayTime)
	w.s.opt.Log.WarnContext(ctx, "the topic of another producer takes nothing; what is for it waits", "topic", topic, "error", err)
}

// theirs are the headers that go on with a foreign message: all but those that mean something here.
func theirs(headers []kgo.RecordHeader) []kgo.RecordHeader {
	return slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool { return strings.HasPrefix(h.Key, "sd-") })
}

// refused is a foreign message on its way to the dead letters, with the reason. What is too large
// is cut: it is for people to look at.
func refused(dlq string, m *kgo.Record, cause error) *kgo.Record {
	out := forwarded(dlq, m)
	out.Value = m.Value[:min(len(m.Value), stream.MaxEvent)]
	out.Headers = because(theirs(m.Headers), cause)
	return out
}

// stray is a message of SmartDrive's own on its way to the dead letters, because nobody takes it.
func stray(dlq string, m *kgo.Record, cause error) *kgo.Record {
	if before := header(m, headerError); before != "" {
		cause = fmt.Errorf("%w; its last failure: %s", cause, before)
	}
	out := forwarded(dlq, m)
	out.Headers = because(m.Headers, cause)
	return out
}

// because replaces the failure that headers tell of.
func because(headers []kgo.RecordHeader, cause error) []kgo.RecordHeader {
	failure := stream.FailureOf(cause)
	others := slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool { return h.Key == headerKind || h.Key == headerError })
	return append(others, kgo.RecordHeader{Key: headerKind, Value: []byte(failure.Kind)}, kgo.RecordHeader{Key: headerError, Value: []byte(failure.Text)})
}
