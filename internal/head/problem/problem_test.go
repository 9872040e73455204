package problem

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

var update = flag.Bool("update", false, "write the golden files")

func TestEveryKindHasARow(t *testing.T) {
	t.Parallel()
	seen := map[drive.Kind]int{}
	for i := range rows {
		seen[rows[i].kind]++
	}
	for _, k := range drive.Kinds() {
		if seen[k] != 1 {
			t.Errorf("%s has %d rows", k, seen[k])
		}
	}
	if rows[0].kind != drive.Internal {
		t.Error("the first row is not Internal, which stands in for a missing one")
	}
}

var place = regexp.MustCompile(`\{([a-z_]*)(:size)?\}`)

func places(s string) []string {
	found := place.FindAllString(s, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryTextHasBothLanguagesAndSameArgs(t *testing.T) {
	t.Parallel()
	check := func(where string, t1 text, noArgs bool) {
		t.Helper()
		if t1.en == "" || t1.zh == "" {
			t.Errorf("%s: a language is missing: %+v", where, t1)
		}
		if strings.ContainsFunc(t1.en, func(r rune) bool { return r >= 0x3000 }) || utf8.RuneCountInString(t1.zh) == len(t1.zh) {
			t.Errorf("%s: the languages are mixed up: %+v", where, t1)
		}
		if diff := cmp.Diff(places(t1.en), places(t1.zh)); diff != "" {
			t.Errorf("%s: other args in each language: %s", where, diff)
		}
		if strings.Count(t1.en+t1.zh, "{") != len(place.FindAllString(t1.en+t1.zh, -1)) {
			t.Errorf("%s: a place that is not understood: %+v", where, t1)
		}
		if noArgs && strings.Contains(t1.en, "{") {
			t.Errorf("%s: needs args, and there may be none: %s", where, t1.en)
		}
	}
	for i := range rows {
		r := &rows[i]
		check(r.kind.String()+" title", r.title, true)
		check(r.kind.String()+" advice", r.advice, true)
		for j, s := range r.says {
			check(fmt.Sprintf("%s says %d", r.kind, j), s, j == len(r.says)-1)
		}
		if len(r.says) == 0 || r.status < 400 {
			t.Errorf("%s: says %d things, status %d", r.kind, len(r.says), r.status)
		}
		for reason, s := range r.reasons {
			check(r.kind.String()+" "+reason, s, false)
		}
		for state, s := range r.states {
			check(r.kind.String()+" "+state, s, false)
		}
		for field, s := range r.fields {
			check(r.kind.String()+" "+field, s, false)
		}
	}
}

// An argument for a missing header, or an empty list of allowed values, leaves no gap in the text.
func TestEmptyArgIsOmitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{drive.Fail(drive.MediaType, "sent", "", "expected", "application/json"), "The Content-Type is missing; send application/json."},
		{drive.BadField("parent", drive.NotAllowed, "allowed", []string{}), "parent is invalid."},
		{drive.BadField("parent", drive.NotAllowed, "allowed", ""), "parent is invalid."},
	} {
		if got := From(c.err, English, "r-1").Detail; got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// samples returns one error for each sentence, with the arguments that the code sends.
func samples() []error {
	return []error{
		errors.New("open /var/lib/secret: permission denied"),
		drive.Fail(drive.Internal, "path", "/var/lib/secret"),
		drive.BadField("size", drive.Required),
		drive.BadField("colour", drive.Unknown),
		drive.BadField("mtime", drive.Malformed, "expected", "Unix milliseconds"),
		drive.BadField("limit", drive.OutOfRange, "min", 1, "max", 1000),
		drive.BadField("conflict", drive.NotAllowed, "allowed", []drive.Conflict{drive.ConflictFail, drive.ConflictRename}, "sent", "x"),
		drive.BadField("fingerprint", drive.TooLong, "limit", 128, "sent", 200),
		drive.BadField("title", drive.TooManyChars, "limit", 200, "sent", 201),
		drive.BadField("path", drive.NotTogether, "with", "parent"),
		drive.BadField("size", drive.Malformed),
		nameError("a\xff"), nameError(""), nameError(".."), nameError(strings.Repeat("x", 300)), nameError("a/b"), nameError("a\x01"),
		pathError("a"), pathError(strings.Repeat("/a", 200)), pathError("/" + strings.Repeat(strings.Repeat("b", 250)+"/", 30) + "c"),
		drive.Fail(drive.TooLarge, "field", "nodes", "limit", 1_000_000, "sent", 1_000_001),
		drive.Fail(drive.TooLarge, "field", "versions", "limit", 200_000, "sent", 200_001),
		drive.Fail(drive.PartSize, "sent", 5, "part_size", 8*drive.MiB, "last", 17),
		drive.Fail(drive.PartRange, "sent", 9, "max", 4),
		drive.Fail(drive.CursorInvalid), drive.Fail(drive.Unauthenticated),
		drive.Fail(drive.Forbidden, "scope", "write"), drive.Fail(drive.Forbidden), drive.Fail(drive.WrongCode), drive.Fail(drive.CrossOrigin), drive.Fail(drive.NotFound),
		drive.Fail(drive.NoThumbnail, "reason", "type"), drive.Fail(drive.NoThumbnail),
		drive.Fail(drive.Method, "method", "POST", "allow", []string{"GET", "HEAD"}),
		drive.Fail(drive.TooSlow, "limit", 245760, "sent", 12, "seconds", 60),
		drive.Fail(drive.NameTaken, "name", drive.Name("报告.pdf")), drive.Fail(drive.ParentGone),
		drive.Fail(drive.PartDiffers, "part", 3), drive.Fail(drive.OffsetMismatch, "offset", 3*drive.MiB, "sent", 5),
		drive.Fail(drive.PartsMissing, "missing", [][2]int{{0, 3}}), drive.Fail(drive.PartsMissing, "upload", "01a1fbeb-6868-709a-9ef7-d9a59f53c9e1"),
		drive.Fail(drive.WrongState, "state", "last-admin"), drive.Fail(drive.WrongState, "state", "last-manager"),
		drive.Fail(drive.WrongState, "state", "empty"), drive.Fail(drive.WrongState, "state", "unchanged"),
		drive.Fail(drive.WrongState, "state", "sealing"), drive.Fail(drive.VersionChanged, "current", "b3"), drive.Fail(drive.InProgress),
		drive.Fail(drive.Cycle), drive.Fail(drive.Gone, "reason", "abandoned"), drive.Fail(drive.Gone), drive.Fail(drive.LengthRequired),
		drive.Fail(drive.Precondition), drive.Fail(drive.TooLarge, "limit", drive.MiB, "sent", 2*drive.MiB),
		fmt.Errorf("decode: %w", &http.MaxBytesError{Limit: 1 << 20}),
		drive.Fail(drive.MediaType, "sent", "text/plain", "expected", "application/json"),
		drive.Fail(drive.MediaType, "sent", "", "expected", "application/json"),
		drive.Fail(drive.Range, "size", 1000),
		drive.Fail(drive.DigestMismatch, "algorithm", "sha256", "declared", "00", "computed", "11"),
		drive.Fail(drive.KeyReused), drive.Fail(drive.DigestRequired),
		drive.Fail(drive.Rate, "limit", 32, "sent", 33, "retry_after", 1), drive.Fail(drive.Rate, "retry_after", 900),
		drive.Fail(drive.TooManyOpen, "limit", 1000, "sent", 1001), drive.Fail(drive.TooManyOpen, "reason", "exports", "limit", 50, "sent", 51),
		drive.Fail(drive.TooLarge, "reason", "entries", "limit", 10_000, "sent", 10_001), drive.Fail(drive.Stopping), drive.Fail(drive.Unavailable),
		drive.Fail(drive.Locked, "by", "ann", "until", int64(1_800_000_000_000)),
		drive.Fail(drive.Quota, "needed", 20*drive.GiB, "available", 3*drive.MiB),
		drive.Fail(drive.Quota, "needed", 20*drive.GiB, "available", 3*drive.MiB, "owed", 50*drive.GiB), drive.Fail(drive.DiskFull),
	}
}

var refusal = regexp.MustCompile(`drive\.(?:Fail\(|Wrap\([a-zA-Z]+, )drive\.(TooManyOpen|TooLarge), ([^\n]*)`)

var reasonArg = regexp.MustCompile(`"reason", "([a-z-]+)"`)

// A limit of exports or links is not told in the words of uploads, and a number of files not in
// bytes.
func TestEveryLimitHasOwnText(t *testing.T) {
	t.Parallel()
	told := map[string]map[string]text{"TooManyOpen": openReasons, "TooLarge": sizeReasons}
	tables := map[string]string{"TooManyOpen": "openReasons", "TooLarge": "sizeReasons"}
	bytes := regexp.MustCompile(`"field", "(size|body)"|[mM]axBody|[mM]axManifest|maxPreferences|maxSize|MaxFileSize|\.Size,`) // limits that are bytes
	used := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range refusal.FindAllStringSubmatch(string(raw), -1) {
			kind, args := m[1], m[2]
			reason := reasonArg.FindStringSubmatch(args)
			switch {
			case reason != nil:
				if _, ok := told[kind][reason[1]]; !ok {
					t.Errorf("%s: %s has no sentence for %q: add one to %s in reason.go", path, kind, reason[1], tables[kind])
				}
				used[kind+reason[1]] = true
			case kind == "TooManyOpen" && !strings.Contains(path, "/upload/"), kind == "TooLarge" && !bytes.MatchString(args):
				t.Errorf("%s: %s does not say of what: %s", path, kind, args)
			}
		}
		return err
	})
	for kind, reasons := range told {
		for reason := range reasons {
			if !used[kind+reason] {
				t.Errorf("nothing says %s for %q", kind, reason)
			}
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func nameError(s string) error { _, err := drive.ParseName(s); return err }
func pathError(s string) error { _, err := drive.ParsePath(s); return err }

// The golden file is read by people: each problem as a client gets it, and its sentence in Chinese.
func TestProblemsAsClientsSeeThem(t *testing.T) {
	t.Parallel()
	const golden = "testdata/problems.txt"
	var b strings.Builder
	for _, err := range samples() {
		for _, lang := range []string{"en", "zh-CN"} {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept-Language", lang)
			w.Header().Set("X-Request-Id", "r-1")
			Write(w, r, err)
			fmt.Fprintf(&b, "%d %s\n", w.Code, w.Body)
			for _, name := range []string{"Retry-After", "WWW-Authenticate", "Allow", "Content-Range"} {
				if v := w.Header().Get(name); v != "" {
					fmt.Fprintf(&b, "    %s: %s\n", name, v)
				}
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("run go test ./internal/head/problem -update and read the difference\n%s", diff)
	}
	if strings.Contains(b.String(), "secret") {
		t.Error("something internal reached a client")
	}
}

func TestWriteMakesADocumentOfRFC9457(t *testing.T) {
	t.Parallel()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	w.Header().Set("X-Request-Id", "r-1")
	w.Header().Set("ETag", `"x"`)
	Write(w, r, fmt.Errorf("begin: %w", drive.Fail(drive.Quota, "needed", 5, "available", 3, "type", "x", "status", 1)))
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "/problems/quota", "title": "Not enough space in the account", "status": 507.0, "code": "quota",
		"detail": "5B more are needed; 3B are available.", "request_id": "r-1", "needed": 5.0, "available": 3.0,
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Error(diff)
	}
	h := w.Header()
	if h.Get("Content-Type") != "application/problem+json" || h.Get("Content-Language") != "en" || h.Get("Vary") != "Accept-Language" ||
		h.Get("Content-Length") != fmt.Sprint(w.Body.Len()) || h.Get("ETag") != "" {
		t.Errorf("header %v", h)
	}
}

// An arg that cannot be shown is a fault of ours, not a broken answer.
func TestArgThatIsNotJSON(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	Write(w, httptest.NewRequest("GET", "/", nil), drive.Fail(drive.NotFound, "what", func() {}))
	if w.Code != 500 || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLongAndOddArgsStayOneLine(t *testing.T) {
	t.Parallel()
	d := From(drive.Fail(drive.NameTaken, "name", strings.Repeat("长", 500)+"\n"), English, "")
	if len(d.Detail) > 300 || strings.Contains(d.Detail, "\n") || !utf8.ValidString(d.Detail) {
		t.Errorf("detail %q", d.Detail)
	}
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]Lang{
		"": English, "en-GB": English, "zh-CN": Chinese, "zh": Chinese, "zh-Hans": Chinese, "zh-TW": Chinese, "zh-Hant-HK": Chinese,
		"fr, zh;q=0.5, en;q=0.9": English, "fr, zh;q=0.9, en;q=0.5": Chinese, "fr": English, "*": English,
		"zh-CN,zh;q=0.9,en-US;q=0.8,en;q=0.7": Chinese, "en-US,en;q=0.9,zh;q=0.8": English,
		"zh;q=0, en": English, "zh;q=2": English, "en, zh;q=2": English, "zh;q=NaN": English, "\xff\xfe": English, ";;;": English,
		strings.Repeat("fr,", 200) + "zh": English, "zh," + strings.Repeat("fr,", 200): Chinese,
	} {
		if got := Negotiate(header); got != want {
			t.Errorf("%q: %s, want %s", header, got.Tag(), want.Tag())
		}
	}
}

func FuzzNegotiate(f *testing.F) {
	for _, s := range []string{"zh-CN,en;q=0.5", "*;q=0.1", "en-u-co-phonebk", "x-private", "zh-", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if l := Negotiate(header); l != English && l != Chinese {
			t.Errorf("language %d", l)
		}
		if Negotiate("en,"+header) != English {
			t.Errorf("English comes first in %q, and was not chosen", "en,"+header)
		}
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /problems", ServePage)
	mux.HandleFunc("GET /problems/{code}", ServePage)
	get := func(path, lang string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Language", lang)
		mux.ServeHTTP(w, r)
		return w
	}
	for _, k := range drive.Kinds() {
		for lang, title := range map[string]string{"en": rowOf(k).title.en, "zh": rowOf(k).title.zh} {
			w := get(Path(k), lang)
			if w.Code != 200 || !strings.Contains(w.Body.String(), "<h1>"+html.EscapeString(title)+"</h1>") {
				t.Errorf("%s in %s: %d %s", k, lang, w.Code, w.Body)
			}
			if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") {
				t.Errorf("policy %q", p)
			}
		}
		if !strings.Contains(get("/problems", "en").Body.String(), `href="problems/`+k.String()) {
			t.Errorf("%s is not in the list", k)
		}
	}
	if !strings.Contains(get("/problems/quota?lang=zh-CN", "en").Body.String(), "空间") {
		t.Error("?lang= does not choose the language")
	}
	if w := get("/problems/none", "en"); w.Code != 404 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("unknown code: %d", w.Code)
	}
}
