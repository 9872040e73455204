package bundle_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/bundle"
)

const (
	anID  = "0193e2a0-7d5c-7b11-9c2e-3f6f0d5b8a01"
	sum   = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	first = `{"name":"a.xml","size":10,"sha256":"` + sum + `","type":"application/xml","documents":1}`
)

// good returns a valid manifest.
func good() *bundle.Manifest {
	return &bundle.Manifest{
		Schema: bundle.Schema, ID: anID, Source: "发票 intake", CreatedAt: time.Date(2026, 10, 5, 8, 30, 0, 0, time.UTC),
		Members: []bundle.Member{
			{Name: "Rechnung <1> & 发票.xml", Size: 1234, SHA256: sum, Type: "application/xml", Documents: 1},
			{Name: "all.ndjson", SHA256: sum, Documents: 20_000},
			{Name: "scan.pdf", Size: 99, SHA256: sum, Type: "application/pdf"},
		},
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	m := good()
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := bundle.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Error(diff)
	}
	if got.Declared() != 20_001 || got.Size() != 1333 {
		t.Errorf("declared %d, size %d", got.Declared(), got.Size())
	}
	m.CreatedAt = m.CreatedAt.In(time.FixedZone("elsewhere", 3600))
	again, err := m.Encode()
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("the same manifest from another time zone differs (%v):\n%s", err, again)
	}
}

// document returns the JSON of a manifest with these members.
func document(members ...string) string {
	return fmt.Sprintf(`{"schema":1,"id":%q,"source":"s","created_at":"2026-10-05T08:30:00Z","members":[%s]}`, anID, strings.Join(members, ","))
}

// member returns the JSON of a member; more is appended to its fields.
func member(name string, more string) string {
	return fmt.Sprintf(`{"name":%q,"sha256":%q%s}`, name, sum, more)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	whole := document(first)
	tests := map[string]struct {
		in   string
		want bundle.Reason
		at   int
	}{
		"nothing":              {"", bundle.NotJSON, 0},
		"half of it":           {whole[:len(whole)/2], bundle.NotJSON, 0},
		"more after it":        {whole + "{}", bundle.NotJSON, 0},
		"another form":         {`[1]`, bundle.NotJSON, 0},
		"members is an object": {strings.Replace(whole, "["+first+"]", "{}", 1), bundle.NotJSON, 0},
		"too long":             {whole + strings.Repeat(" ", bundle.MaxSize), bundle.TooLarge, 0},
		"a later schema":       {strings.Replace(whole, `"schema":1`, `"schema":2`, 1), bundle.UnknownSchema, 0},
		"no schema":            {strings.Replace(whole, `"schema":1,`, ``, 1), bundle.UnknownSchema, 0},
		"id in capitals":       {strings.Replace(whole, anID, strings.ToUpper(anID), 1), bundle.BadID, 0},
		"id of version 4":      {strings.Replace(whole, "-7b11-", "-4b11-", 1), bundle.BadID, 0},
		"source is a path":     {strings.Replace(whole, `"source":"s"`, `"source":"../s"`, 1), bundle.BadSource, 0},
		"source too long":      {strings.Replace(whole, `"source":"s"`, `"source":"`+strings.Repeat("s", 101)+`"`, 1), bundle.BadSource, 0},
		"no time":              {strings.Replace(whole, "2026-10-05T08:30:00Z", "0001-01-01T00:00:00Z", 1), bundle.NoTime, 0},
		"no members":           {document(), bundle.NoMembers, 0},
		"a million members":    {document(strings.Repeat("{},", 1_000_000) + "{}"), bundle.TooManyFiles, 0},
		"null":                 {strings.Replace(whole, "["+first+"]", "null", 1), bundle.NoMembers, 0},
		"name goes up":         {document(first, member("..", "")), bundle.BadName, 2},
		"name is a path":       {document(member("a/b", "")), bundle.BadName, 1},
		"name is hidden":       {document(member(".a", "")), bundle.BadName, 1},
		"name not in NFC":      {document(member("e\u0301", "")), bundle.BadName, 1},
		"name of the manifest": {document(member("Meta.JSON", "")), bundle.BadName, 1},
		"name twice":           {document(first, member("a.xml", "")), bundle.SameName, 2},
		"name in another case": {document(first, member("A.XML", "")), bundle.SameName, 2},
		"negative size":        {document(member("a", `,"size":-1`)), bundle.BadSize, 1},
		"sizes overflow":       {document(member("a", `,"size":17592186044416`), member("b", `,"size":17592186044416`)), bundle.BadSize, 2},
		"size is a fraction":   {document(member("a", `,"size":1.5`)), bundle.NotJSON, 0},
		"digest too short":     {document(`{"name":"a","sha256":"00"}`), bundle.BadDigest, 1},
		"digest in capitals":   {document(strings.Replace(first, sum, strings.ToUpper(sum), 1)), bundle.BadDigest, 1},
		"type is no type":      {document(member("a", `,"type":"pdf"`)), bundle.BadType, 1},
		"negative documents":   {document(member("a", `,"documents":-1`)), bundle.BadDocuments, 1},
		"too many documents":   {document(member("a", `,"documents":1000000`), member("b", `,"documents":1`)), bundle.BadDocuments, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bundle.Decode(strings.NewReader(test.in))
			refused, ok := errors.AsType[*bundle.Error](err)
			if !ok || refused.Reason != test.want || refused.Member != test.at {
				t.Errorf("got %v, want %s at %d", err, test.want, test.at)
			}
		})
	}
}

func TestUnknownMembersAreIgnored(t *testing.T) {
	t.Parallel()
	in := strings.Replace(document(strings.Replace(first, `{`, `{"colour":"red",`, 1)), `{`, `{"host":"a",`, 1)
	m, err := bundle.Decode(strings.NewReader(in))
	if err != nil || len(m.Members) != 1 || m.Members[0].Name != "a.xml" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestReaderErrorIsNoVerdict checks that an error of the reader is not an *Error: the
// manifest may be readable on the next attempt.
func TestReaderErrorIsNoVerdict(t *testing.T) {
	t.Parallel()
	_, err := bundle.Decode(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(iotest.ErrTimeout)))
	if _, verdict := errors.AsType[*bundle.Error](err); verdict || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("got %v", err)
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	t.Parallel()
	m := good()
	m.Members[1].Name = m.Members[0].Name
	if raw, err := m.Encode(); err == nil {
		t.Errorf("wrote %s", raw)
	}
	long := good()
	long.Members = nil
	for i := range bundle.MaxMembers {
		long.Members = append(long.Members, bundle.Member{Name: fmt.Sprintf("%0250d", i), SHA256: sum, Type: "a/" + strings.Repeat("b", 200)})
	}
	_, err := long.Encode()
	if refused, ok := errors.AsType[*bundle.Error](err); !ok || refused.Reason != bundle.TooLarge {
		t.Errorf("got %v", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/intake/acme/" + anID + "/meta.json":   true,
		"/intake/acme/" + anID + "/Meta.json":   false,
		"/intake/acme/" + anID + "/a/meta.json": false,
		"/Intake/acme/" + anID + "/meta.json":   false,
		"/intake/acme/2026/meta.json":           false,
		"/intake/.acme/" + anID + "/meta.json":  false,
		"/intake/acme/meta.json":                false,
		"/":                                     false,
	} {
		p, err := drive.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		source, id, ok := bundle.Find(p)
		if ok != want || ok && (source != "acme" || id != anID) {
			t.Errorf("%s: %q, %q, %v", path, source, id, ok)
		}
	}
	p := append(bundle.Folder("acme", bundle.NewID()), bundle.MetaName)
	if _, _, ok := bundle.Find(p); !ok {
		t.Errorf("%s is none", p)
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := good().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(document(first, member("b", `,"size":5`))))
	f.Add([]byte(document("null")))
	f.Add([]byte(`{"MEMBERS":[{}],"members":[[]]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := bundle.Decode(bytes.NewReader(in))
		if err != nil {
			if _, verdict := errors.AsType[*bundle.Error](err); !verdict {
				t.Fatalf("an error of no reason: %v", err)
			}
			return
		}
		if m.Declared() < 0 || m.Size() < 0 {
			t.Fatal("sums overflow")
		}
		out, err := m.Encode()
		if refused, ok := errors.AsType[*bundle.Error](err); ok && refused.Reason == bundle.TooLarge {
			return // the indented form is longer
		}
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := bundle.Decode(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Error(diff)
		}
	})
}
