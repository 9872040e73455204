package kafka

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// The headers of a message. The first is that of the CloudEvents Kafka binding 1.0.2 §3.3
// (structured mode); the others are on levels, retry topics and the dlq.
const (
	headerContent  = "content-type"
	headerConsumer = "sd-consumer" // who failed, and who alone gets it again
	headerTopic    = "sd-topic"    // where it was published, without namespace: "smartdrive.park"
	headerFailures = "sd-failures" // how often it has failed; 0 after a replay or when it was only put off
	headerKind     = "sd-kind"     // of the last failure: the code of a drive.Kind
	headerError    = "sd-error"    // its text
	headerEvent    = "sd-event"    // the event's id, for people who look into a topic

	contentCloudEvent = "application/cloudevents+json"
)

// message is a record on its topic. Without a key it goes to any partition.
func message(topic, key string, event []byte) *kgo.Record {
	m := &kgo.Record{Topic: topic, Value: event, Headers: []kgo.RecordHeader{{Key: headerContent, Value: []byte(contentCloudEvent)}}}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

// returning is a record that is on its way back to one consumer, or to the dead letters.
func returning(topic, consumer string, d stream.Delivery, f stream.Failure) *kgo.Record {
	m := message(topic, d.Key, d.Event)
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

// forwarded is a message as it goes on to another topic.
func forwarded(topic string, m *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value, Headers: m.Headers}
}

func header(m *kgo.Record, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// failures reads how often a message has failed; what cannot be read is 0, which errs on the side
// of trying again.
func failures(m *kgo.Record) int {
	n, err := strconv.Atoi(header(m, headerFailures))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// delivery is what a session hands over.
func delivery(topic stream.Topic, retry bool, hold uint64, m *kgo.Record) stream.Delivery {
	d := stream.Delivery{
		Topic: topic, Key: string(m.Key), Event: m.Value, Retry: retry, Hold: hold,
		Position: stream.Position{Partition: m.Partition, Offset: m.Offset},
	}
	if retry {
		d.Failures = failures(m)
	}
	return d
}

// letter is a message of the dlq as a dead letter.
func letter(m *kgo.Record) stream.Drained {
	return stream.Drained{
		DeadLetter: stream.DeadLetter{
			Consumer: column(header(m, headerConsumer), maxName), Topic: stream.Topic(column(header(m, headerTopic), maxName)),
			Key: column(string(m.Key), maxKey), Event: []byte(column(string(m.Value), largestMessage)),
			Failures: failures(m),
			Failure:  stream.Failure{Kind: column(header(m, headerKind), maxKey), Text: column(header(m, headerError), stream.MaxFailureText)},
			DiedAt:   drive.TimeOf(m.Timestamp),
		},
		Position: stream.Position{Partition: m.Partition, Offset: m.Offset},
		EventID:  eventID(m.Value),
	}
}

// The lengths of columns of dead_letters, in bytes.
const (
	maxName = 128
	maxKey  = 64
)

// column is a text as the table of dead letters takes it. Other producers may put anything on a
// level; one letter that no row can hold would keep all behind it out.
func column(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

func eventID(event []byte) string {
	var e struct{ ID string }
	if json.Unmarshal(event, &e) != nil || len(e.ID) > 64 {
		return ""
	}
	return e.ID
}
