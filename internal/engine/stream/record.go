package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
)

// RecordID identifies a record. Source + id is globally unique; handlers are idempotent by it.
type RecordID = drive.ID[ofRecord]

// ofRecord makes RecordID a distinct type.
type ofRecord struct{}

// Record is one message. Topic and Key are stored beside the event (as columns, or as topic and key
// of a Kafka message). The rest is a CloudEvents 1.0 event in JSON: id, source, type, subject,
// time, data.
type Record struct {
	Topic Topic
	Key   drive.AccountID // records of one key stay in order; zero: no order
	ID    RecordID
	// Source is "smartdrive/<installation id>", set by the publisher.
	Source  string
	Type    Type
	Subject string     // id of the affected object; may be empty
	Time    drive.Time // time of the change; the publisher sets it if zero
	Data    json.RawMessage
}

// MaxEvent is the greatest size of an event in bytes, which every intermediary must forward
// (CloudEvents 1.0.2 §Size Limits).
const MaxEvent = 64 << 10

// New returns a record with a new id. Call it before the transaction, so that a retried transaction
// publishes the same record. data is encoded as JSON; nil means no data. It fails only if data
// cannot be encoded.
func New(topic Topic, typ Type, key drive.AccountID, subject string, data any) (Record, error) {
	r := Record{Topic: topic, Key: key, ID: drive.NewID[RecordID](), Type: typ, Subject: subject}
	if data == nil {
		return r, nil
	}
	var err error
	if r.Data, err = json.Marshal(data); err != nil {
		return Record{}, fmt.Errorf("encode the data of a record of type %s: %w", typ, err)
	}
	return r, nil
}

// event is the JSON form of a record. Unknown attributes are ignored on reading; retries copy the
// text and so keep them.
type event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        Type            `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        drive.Time      `json:"time"`
	ContentType string          `json:"datacontenttype,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Binary      json.RawMessage `json:"data_base64,omitempty"`
}

const (
	specVersion = "1.0"                       // of CloudEvents
	contentType = "application/json"          // of the data of a record
	endOfTime   = drive.Time(253402300800000) // the year 10000, which RFC 3339 cannot represent
)

// Encode returns the record as a CloudEvent in JSON. It fails if the topic does not carry the type,
// a required field is missing, or the event exceeds MaxEvent bytes; these are programming errors of
// kind Internal.
func (r Record) Encode() ([]byte, error) {
	if !r.Topic.carries(r.Type) {
		return nil, fmt.Errorf("topic %q carries no records of type %q", r.Topic, r.Type)
	}
	e := event{
		SpecVersion: specVersion, ID: r.ID.String(), Source: r.Source, Type: r.Type, Subject: r.Subject, Time: r.Time, Data: r.Data,
	}
	if len(r.Data) > 0 {
		e.ContentType = contentType
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // HTML escapes would make the event longer
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode record %s: %w", r.ID, err)
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) > MaxEvent {
		return nil, fmt.Errorf("record %s of type %s has %d bytes, more than %d", r.ID, r.Type, len(text), MaxEvent)
	}
	return text, nil
}

// Decode parses an event; the caller passes topic and key, which are stored beside the event.
// Unknown types are accepted, because a newer release may have written them before a rollback; the
// handler must deal with them.
func Decode(topic Topic, key drive.AccountID, text []byte) (Record, error) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		return Record{}, fmt.Errorf("decode an event: %w", err)
	}
	if err := e.check(); err != nil {
		return Record{}, fmt.Errorf("decode an event: %w", err)
	}
	id, err := drive.ParseID[RecordID](e.ID)
	if err != nil {
		return Record{}, fmt.Errorf("decode an event: id %q is not a UUID", e.ID)
	}
	return Record{
		Topic: topic, Key: key, ID: id, Source: e.Source, Type: e.Type, Subject: e.Subject, Time: e.Time, Data: e.Data,
	}, nil
}

// check returns an error that names the first attribute which is missing or not as records have it:
// version, id, source, type, time, or the type of the data.
func (e *event) check() error {
	switch {
	case e.SpecVersion != specVersion:
		return fmt.Errorf("specversion %q, want %q", e.SpecVersion, specVersion)
	case e.ID == "" || e.ID == RecordID{}.String():
		return errors.New("no id")
	case e.Source == "":
		return errors.New("no source")
	case e.Type == "":
		return errors.New("no type")
	case e.Time <= 0 || e.Time >= endOfTime:
		return errors.New("no time")
	case e.Binary != nil:
		return errors.New("binary data")
	case len(e.Data) > 0 && e.ContentType != contentType:
		return fmt.Errorf("data of type %q, want %q", e.ContentType, contentType)
	}
	return nil
}
