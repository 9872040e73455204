package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
)

// RecordID identifies a record. Source + id are unique for ever, which is what handlers are
// idempotent by.
type RecordID = drive.ID[ofRecord]

type ofRecord struct{}

// Record is one message. Topic and Key travel beside it (columns; on Kafka the message's topic and
// key), the rest is a CloudEvents 1.0 event in the JSON format: id, source, type, subject, time,
// data.
type Record struct {
	Topic Topic
	Key   drive.AccountID // what is kept in order; zero: nothing is
	ID    RecordID
	// Source is "smartdrive/<installation id>". The publisher sets it.
	Source  string
	Type    Type
	Subject string     // the id of what it is about; may be empty
	Time    drive.Time // of the change; the publisher sets it where it is zero
	Data    json.RawMessage
}

// MaxEvent is the largest event in bytes: what every intermediary must forward (CloudEvents 1.0.2
// §Size Limits).
const MaxEvent = 64 << 10

// New makes a record with a fresh id. It is called before the transaction, so that running the
// transaction again publishes the same record. data becomes the JSON of the event; nil means none.
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

// event is the JSON form. Extension attributes are ignored when read; they survive retries, which
// copy the text.
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
	specVersion = "1.0"
	contentType = "application/json"
	endOfTime   = drive.Time(253402300800000) // the year 10000, which RFC 3339 cannot write
)

// Encode checks the record and returns its event. A mistake here is the program's, so the errors
// are of kind Internal.
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
	enc.SetEscapeHTML(false) // it would make the event longer than what the caller sees
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode record %s: %w", r.ID, err)
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) > MaxEvent {
		return nil, fmt.Errorf("record %s of type %s has %d bytes, more than %d", r.ID, r.Type, len(text), MaxEvent)
	}
	return text, nil
}

// Decode reads an event; topic and key come from beside it. It takes types it does not know, which
// a newer release may have written before it was rolled back: what to do with them is the handler's
// business.
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
