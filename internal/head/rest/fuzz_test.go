package rest

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// FuzzDecodeObject checks that accepted input means the same to encoding/json, and that refused
// input causes a problem that names a field.
func FuzzDecodeObject(f *testing.F) {
	for _, seed := range []string{
		`{"path":"/a","size":1}`, `{"size":null,"parent":"root","name":"x"}`, `{"size":1,"size":2}`, `{"size":1} `, `{"size":1}x`, `[]`, ``, `{"size":1,"digests":{"md5":"00"}}`,
		`{"path":"/\ud800","size":1}`, `{"fingerprint":"\ud83d\ude00 \\\udc00 \uD800x","size":1}`, `{"SIZE":1}`, `{"size":1,"mtime":"2026-01-01T00:00:00Z","mime":"a/b","part_size":1048576,"parents":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var strict beginBody
		if err := decodeObject(raw, &strict); err != nil {
			if !drive.IsKind(err, drive.BadRequest, drive.BadName) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		var loose beginBody
		if err := json.Unmarshal(raw, &loose); err != nil {
			t.Fatalf("%q is accepted, but %v", raw, err)
		}
		if (strict.Size == nil) != (loose.Size == nil) || strict.Path.String() != loose.Path.String() || strict.Name != loose.Name {
			t.Fatalf("%q is %+v and %+v", raw, strict, loose)
		}
		if strings.ContainsRune(strict.Fingerprint, utf8.RuneError) && !strings.Contains(strings.ToLower(string(raw)), "\\ufffd") &&
			!strings.ContainsRune(string(raw), utf8.RuneError) {
			t.Fatalf("%q was changed to %q", raw, strict.Fingerprint)
		}
	})
}

// FuzzParseQuery checks that an accepted query has only known parameters, each once.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{"", "limit=1", "limit=1001", "limit=1&limit=2", "cursor=x&order=asc", "a=b", "%zz", "limit=%31", "flag=true;limit=1"} {
		f.Add(seed)
	}
	params := []param{limitParam, cursor, {name: "order", syntax: choice, choices: []string{"asc", "desc"}}, {name: "flag", syntax: boolean}}
	f.Fuzz(func(t *testing.T, raw string) {
		values, err := parseQuery(raw, params)
		if err != nil {
			if !drive.IsKind(err, drive.BadRequest) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		for name, given := range values {
			if len(given) != 1 || !strings.Contains(" limit cursor order flag ", " "+name+" ") {
				t.Fatalf("%q is accepted as %v", raw, values)
			}
		}
		c := &call{query: values}
		if n := c.limit(); n < 1 || n > 1000 {
			t.Fatalf("%q: the limit is %d", raw, n)
		}
	})
}

// FuzzParseTags checks that accepted tags can be formatted and parsed again.
func FuzzParseTags(f *testing.F) {
	for _, seed := range []string{"", "*", `"a"`, `W/"a", "b"`, `"a",`, `"a" "b"`, `"a"	,	"b"`, `""`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := parseTags("If-Match", value)
		if err != nil {
			if !drive.IsKind(err, drive.BadRequest) {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		var written []string
		for _, one := range got.list {
			text := quoted(one.opaque)
			if one.weak {
				text = "W/" + text
			}
			written = append(written, text)
			if !one.weak && !got.match(one.opaque) || !got.matchWeakly(one.opaque) {
				t.Fatalf("%q does not match its own %q", value, one.opaque)
			}
		}
		again, err := parseTags("If-Match", strings.Join(written, ", "))
		if err != nil || len(again.list) != len(got.list) {
			t.Fatalf("%q becomes %q: %v", value, written, err)
		}
	})
}

// FuzzDisposition: the header is one line of ASCII, and the name can be read back from it, but for
// what turns text around.
func FuzzDisposition(f *testing.F) {
	for _, seed := range []string{"a.txt", `a"b\c%.txt`, "你好", "a\u202eb", "'*;="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := drive.ParseName(s)
		if err != nil {
			return
		}
		h := disposition(string(name), false)
		if strings.ContainsFunc(h, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Count(h, `"`) != 2 {
			t.Fatalf("%q becomes %q", name, h)
		}
		_, escaped, _ := strings.Cut(h, "filename*=UTF-8''")
		if back, err := url.PathUnescape(escaped); err != nil || back != strings.Map(plainDirection, string(name)) {
			t.Fatalf("%q becomes %q and then %q", name, h, back)
		}
	})
}
