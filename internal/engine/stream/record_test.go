package stream_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

func sample(t testing.TB, data any) stream.Record {
	t.Helper()
	r, err := stream.New(stream.TopicUploads, stream.UploadDone, drive.NewID[drive.AccountID](), "subject", data)
	if err != nil {
		t.Fatal(err)
	}
	r.Source, r.Time = "smartdrive/test", 1795161600123
	return r
}

func TestEventIsCloudEvents(t *testing.T) {
	t.Parallel()
	r := sample(t, map[string]any{"path": "/a<b>&c"})
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"specversion":"1.0","id":"` + r.ID.String() + `","source":"smartdrive/test","type":"upload.done",` +
		`"subject":"subject","time":"2026-11-20T08:00:00.123Z","datacontenttype":"application/json","data":{"path":"/a<b>&c"}}`
	r.Data = json.RawMessage(`{"path":"/a<b>&c"}`)
	text2, err := r.Encode()
	if err != nil || string(text2) != want {
		t.Errorf("got  %s\nwant %s\nerror %v", text2, want, err)
	}
	for _, text := range [][]byte{text, text2} {
		back, err := stream.Decode(r.Topic, r.Key, text)
		if err != nil {
			t.Fatal(err)
		}
		back.Data = r.Data // how a string is escaped is no part of the contract
		if diff := cmp.Diff(r, back); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*stream.Record){
		"a topic that is not listed": func(r *stream.Record) { r.Topic = "smartdrive.other" },
		"a type of another topic":    func(r *stream.Record) { r.Type = stream.ExportSealed },
		"no id":                      func(r *stream.Record) { r.ID = stream.RecordID{} },
		"no source":                  func(r *stream.Record) { r.Source = "" },
		"no time":                    func(r *stream.Record) { r.Time = 0 },
		"data that is not JSON":      func(r *stream.Record) { r.Data = json.RawMessage("{") },
		"an event that is too large": func(r *stream.Record) { r.Subject = strings.Repeat("x", stream.MaxEvent) },
	} {
		r := sample(t, nil)
		if _, err := r.Encode(); err != nil {
			t.Fatalf("before it was spoilt: %v", err)
		}
		spoil(&r)
		if text, err := r.Encode(); err == nil {
			t.Errorf("%s was encoded: %.200s", name, text)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const id = `"id":"0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"`
	const rest = `"source":"s","type":"t","time":"2026-11-20T08:00:00Z"`
	for text, good := range map[string]bool{
		`{"specversion":"1.0",` + id + `,` + rest + `}`:                                                       true,
		`{"specversion":"1.0",` + id + `,` + rest + `,"traceparent":"x","datacontenttype":"text/plain"}`:      true,
		`{"specversion":"1.0",` + id + `,` + rest + `,"datacontenttype":"application/json","data":[1]}`:       true,
		`{"specversion":"1.0",` + id + `,` + rest + `,"datacontenttype":"text/plain","data":"x"}`:             false,
		`{"specversion":"1.0",` + id + `,` + rest + `,"data_base64":"eA=="}`:                                  false,
		`{"specversion":"0.3",` + id + `,` + rest + `}`:                                                       false,
		`{"specversion":"1.0","id":"1",` + rest + `}`:                                                         false,
		`{"specversion":"1.0",` + rest + `}`:                                                                  false,
		`{"specversion":"1.0",` + id + `,"source":"s","type":"t"}`:                                            false,
		`{"specversion":"1.0",` + id + `,"source":"s","type":"t","time":"9999-12-31T23:59:59-01:00"}`:         false,
		`{"specversion":"1.0",` + id + `,"type":"t","time":"2026-11-20T08:00:00Z"}`:                           false,
		`{"specversion":"1.0",` + id + `,"source":"s","time":"2026-11-20T08:00:00Z"}`:                         false,
		`{"specversion":"1.0",` + id + `,"source":"s","type":"t","time":"2026-11-20T08:00:00Z"} {"again":1}`:  false,
		`{"specversion":"1.0",` + id + `,"source":"s","type":"t","time":"2026-11-20T08:00:00Z","subject":{}}`: false,
		``:   false,
		`[]`: false,
	} {
		if _, err := stream.Decode(stream.TopicUploads, drive.AccountID{}, []byte(text)); (err == nil) != good {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestEveryTopicHasItsTypes(t *testing.T) {
	t.Parallel()
	seen := map[stream.Type]stream.Topic{}
	for _, topic := range stream.Topics() {
		if len(topic.Types()) == 0 {
			t.Errorf("%s carries nothing", topic)
		}
		for _, typ := range topic.Types() {
			if other, ok := seen[typ]; ok {
				t.Errorf("%s is in %s and %s", typ, topic, other)
			}
			seen[typ] = topic
		}
	}
}

// What can be read can be written again, and says the same.
func FuzzDecode(f *testing.F) {
	text, err := sample(f, map[string]int{"size": 1}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"specversion":"1.0","id":"0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b","source":"s","type":"upload.done",` +
		`"time":"1970-01-01T00:00:00.001Z","datacontenttype":"application/json","data":null,"x":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := stream.Decode(stream.TopicUploads, drive.AccountID{}, text)
		if err != nil || r.Type != stream.UploadDone || len(text) > stream.MaxEvent/8 { // escapes may make it longer
			return
		}
		once, err := r.Encode()
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", text, err)
		}
		back, err := stream.Decode(r.Topic, r.Key, once)
		if err != nil {
			t.Fatalf("%s was written and cannot be read: %v", once, err)
		}
		twice, err := back.Encode()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s; error %v", once, twice, err)
		}
	})
}
