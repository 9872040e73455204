package kafka

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// Headers of a message. The first is defined by the CloudEvents Kafka binding 1.0.2 §3.3
// (structured mode). The others are on delay levels, retry topics and the dlq.
const (
	headerContent  = "content-type"
	headerConsumer = "sd-consumer" // consumer that failed, and alone receives the retry
	headerTopic    = "sd-topic"    // original topic without namespace: "smartdrive.park"
	headerFailures = "sd-failures" // failed attempts; 0 after a replay or a postponement
	headerKind     = "sd-kind"     // of the last failure: code of a drive.Kind
	headerError    = "sd-error"    // of the last failure: text
	headerEvent    = "sd-event"    // event id, for administrators reading a topic

	contentCloudEvent = "application/cloudevents+json"
)

// newMessage returns the message for an event on a topic. Without a key it goes to any partition.
func newMessage(topic, key string, event []byte) *kgo.Record {
	m := &kgo.Record{Topic: topic, Value: event, Headers: []kgo.RecordHeader{{Key: headerContent, Value: []byte(contentCloudEvent)}}}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

// retryMessage returns the message for a delivery on its way to a delay level, a retry topic or the
// dlq.
func retryMessage(topic, consumer string, d stream.Delivery, f stream.Failure) *kgo.Record {
	m := newMessage(topic, d.Key, d.Event)
	add := func(key, value string) {
		m.Headers = append(m.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	add(headerConsumer, consumer)
	add(headerTopic, string(d.Topic))
	add(headerFailures, strconv.Itoa(d.Failures))
	if f != (stream.Failure{}) {
		add(headerKind, f.Kind)
		add(headerError, f.Text)
	}
	if id := eventID(d.Event); id != "" {
		add(headerEvent, id)
	}
	return m
}

// forwarded returns a message for another topic with the same key, value and headers, which it
// shares with m.
func forwarded(topic string, m *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value, Headers: m.Headers}
}

// header returns the value of the first header with that key; "" if there is none.
func header(m *kgo.Record, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// failures returns the failed attempts of a message. An invalid header counts as 0, so that the
// record is retried.
func failures(m *kgo.Record) int {
	n, err := strconv.Atoi(header(m, headerFailures))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// newDelivery returns the delivery for a polled message; hold is the assignment of its partition.
func newDelivery(topic stream.Topic, retry bool, hold uint64, m *kgo.Record) stream.Delivery {
	d := stream.Delivery{
		Topic: topic, Key: string(m.Key), Event: m.Value, Retry: retry, Tenure: hold,
		Position: stream.Position{Partition: m.Partition, Offset: m.Offset},
	}
	if retry {
		d.Failures = failures(m)
	}
	return d
}

// deadLetter converts a message of the topic dlq. Texts that are too long are cut; missing headers
// are empty.
func deadLetter(m *kgo.Record) stream.DrainedLetter {
	return stream.DrainedLetter{
		DeadLetter: stream.DeadLetter{
			Consumer: clip(header(m, headerConsumer), maxName), Topic: stream.Topic(clip(header(m, headerTopic), maxName)),
			Key: clip(string(m.Key), maxKey), Event: []byte(clip(string(m.Value), largestMessage)),
			Failures: failures(m),
			Failure:  stream.Failure{Kind: clip(header(m, headerKind), maxKey), Text: clip(header(m, headerError), stream.MaxFailureText)},
			DiedAt:   drive.TimeOf(m.Timestamp),
		},
		Position: stream.Position{Partition: m.Partition, Offset: m.Offset},
		EventID:  eventID(m.Value),
	}
}

// Lengths of columns of dead_letters, in bytes.
const (
	maxName = 128
	maxKey  = 64
)

// clip makes a text fit a column: at most limit bytes of valid UTF-8. Other producers may write
// anything, and one letter that cannot be inserted would block all later ones.
func clip(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// eventID returns the id of an event, or "" if it is invalid or too long.
func eventID(event []byte) string {
	var e struct{ ID string }
	if json.Unmarshal(event, &e) != nil || len(e.ID) > 64 {
		return ""
	}
	return e.ID
}
