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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// foreign is a message that another producer puts on a delay level (U16). After the level's delay,
// the value goes to the topic under the key. docs/formats/kafka.md describes the contract.
type foreign struct {
	Topic string          `json:"topic"`
	Key   *string         `json:"key"`
	Value json.RawMessage `json:"value"`
}

// checkTargets returns BadRequest if a target topic has an invalid name or lies in the namespace of
// SmartDrive: a message to a delay level could loop, and only SmartDrive may publish on its own
// topics.
func (o Options) checkTargets() error {
	for _, topic := range o.Targets {
		if !validName(topic) {
			return drive.BadField("kafka-delay-topics", drive.Malformed, "expected", "letters, digits, '.', '_' and '-'", "sent", topic)
		}
		if topic == o.Namespace || strings.HasPrefix(topic, o.Namespace+".") {
			return drive.BadField("kafka-delay-topics", drive.Malformed, "expected", "topics outside of "+o.Namespace+".", "sent", topic)
		}
	}
	return nil
}

// decodeForeign returns the message that another producer wants on its topic. The error says why
// the message is invalid or its topic not allowed.
func (s *Stream) decodeForeign(m *kgo.Record) (*kgo.Record, error) {
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
	out := &kgo.Record{Topic: f.Topic, Value: f.Value, Headers: foreignHeaders(m.Headers)}
	if f.Key != nil {
		out.Key = []byte(*f.Key)
	}
	var text string
	if json.Unmarshal(f.Value, &text) == nil && f.Value[0] == '"' {
		out.Value = []byte(text)
	}
	return out, nil
}

// isPermanent reports whether a message can never be sent, so that it must not block later ones:
// neither the brokers nor this process know its topic, or a topic of another producer rejects it.
func (s *Stream) isPermanent(m *kgo.Record, err error) bool {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return !s.isOwn(m.Topic)
	}
	return slices.Contains(s.opt.Targets, m.Topic) && (errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.InvalidTopicException) || errors.Is(err, kerr.TopicAuthorizationFailed))
}

const (
	// foreignTimeout bounds the time for sending a batch to topics of other producers. It is longer
	// than the detection of a missing topic.
	foreignTimeout = 10 * time.Second
	// unavailablePause is the time for which a topic is not used after it accepted no message:
	// every attempt delays the retries that become due meanwhile.
	unavailablePause = time.Minute
)

// forwardForeign sends the messages of a batch with the given numbers to topics of other producers,
// and stores each result in errs. If such a topic is unavailable, its messages return to the first
// level, so that they never block SmartDrive's own records.
func (r *levelRunner) forwardForeign(ctx context.Context, b batch, others []int, errs []error) {
	var now, later []int
	for _, i := range others {
		if r.s.opt.Now().Before(r.unavailableUntil[b.messages[i].Topic]) {
			later = append(later, i)
		} else {
			now = append(now, i)
		}
	}
	messages := b.subset(now)
	own, cancel := context.WithTimeout(ctx, foreignTimeout)
	defer cancel()
	for n, err := range r.s.foreign.produceAll(own, messages) {
		m, i := messages[n], now[n]
		switch {
		case err == nil:
			r.s.counters.Foreign.Add(1)
		case r.s.isPermanent(m, err):
			errs[i] = r.sendToDLQ(ctx, m, err)
		case ctx.Err() != nil:
			errs[i] = err
		default:
			r.markUnavailable(ctx, m.Topic, err)
			later = append(later, i)
		}
	}
	r.postpone(ctx, b, later, errs)
}

// markUnavailable keeps messages from being sent to a topic for unavailablePause, because the topic
// has just accepted none, and logs that. If the topic is paused already, it does nothing.
func (r *levelRunner) markUnavailable(ctx context.Context, topic string, err error) {
	now := r.s.opt.Now()
	if now.Before(r.unavailableUntil[topic]) {
		return // marked by another message of the batch
	}
	r.unavailableUntil[topic] = now.Add(unavailablePause)
	r.s.opt.Log.WarnContext(ctx, "target topic of another producer is unavailable; its messages wait on the first delay level", "topic", topic, "error", err)
}

// foreignHeaders returns the headers to forward with a foreign message: all except SmartDrive's
// own.
func foreignHeaders(headers []kgo.RecordHeader) []kgo.RecordHeader {
	return slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool { return strings.HasPrefix(h.Key, "sd-") })
}

// rejectedForeign returns the dead letter for an invalid foreign message. An oversized value is
// cut; administrators only look at it.
func rejectedForeign(dlq string, m *kgo.Record, cause error) *kgo.Record {
	out := forwarded(dlq, m)
	out.Value = m.Value[:min(len(m.Value), stream.MaxEvent)]
	out.Headers = withFailure(foreignHeaders(m.Headers), cause)
	return out
}

// strayLetter returns the dead letter for a message of SmartDrive that no consumer receives.
func strayLetter(dlq string, m *kgo.Record, cause error) *kgo.Record {
	if before := header(m, headerError); before != "" {
		cause = fmt.Errorf("%w; its last failure: %s", cause, before)
	}
	out := forwarded(dlq, m)
	out.Headers = withFailure(m.Headers, cause)
	return out
}

// withFailure returns a copy of headers in which cause replaces the last failure, if there is one.
// It does not change headers.
func withFailure(headers []kgo.RecordHeader, cause error) []kgo.RecordHeader {
	failure := stream.FailureOf(cause)
	others := slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool { return h.Key == headerKind || h.Key == headerError })
	return append(others, kgo.RecordHeader{Key: headerKind, Value: []byte(failure.Kind)}, kgo.RecordHeader{Key: headerError, Value: []byte(failure.Text)})
}
