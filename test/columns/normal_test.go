package columns

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// names tells ids by the order in which they appear, and hides what no two runs have in common.
type names struct {
	salt string // in names of users
	urls []string
	ids  map[string]int
}

var (
	requestID = regexp.MustCompile(`,?"request_id":"[^"]*"`)
	secret    = regexp.MustCompile(`"(token|pre_id|nonce|next_cursor|next)":"[^"]*"`)
	prepared  = regexp.MustCompile(`pre_[\w-]{20,}`)
	inQuery   = regexp.MustCompile(`(token|cursor|after)=[\w%-]{20,}`)
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// Scripts name times of the year 2001 only; what is later is the moment of the run.
	now      = regexp.MustCompile(`20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|\w{3}, \d\d \w{3} 20[2-9]\d \d\d:\d\d:\d\d GMT`)
	boundary = regexp.MustCompile(`boundary=\w+`)
)

func (n *names) hide(text string) string {
	text = requestID.ReplaceAllString(text, "")
	text = secret.ReplaceAllString(text, `"$1":"(secret)"`)
	text = inQuery.ReplaceAllString(text, "$1=(secret)")
	text = prepared.ReplaceAllString(text, "(secret)")
	for _, u := range n.urls {
		text = strings.ReplaceAll(text, u, "(server)")
	}
	text = strings.ReplaceAll(text, n.salt, "(salt)")
	text = now.ReplaceAllString(text, "(now)")
	return uuid.ReplaceAllStringFunc(text, func(id string) string {
		if _, known := n.ids[id]; !known {
			n.ids[id] = len(n.ids) + 1
		}
		return fmt.Sprintf("(id %d)", n.ids[id])
	})
}

// Headers that do not belong to the answer: the time, the request's id in the log, and whether the
// connection is closed, which depends on how fast the rest of a refused body arrives.
var unsaid = []string{"Date", "X-Request-Id", "Connection"}

// answer returns the part of a response that is compared.
func (n *names) answer(resp *http.Response, body []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", resp.StatusCode)
	media := resp.Header.Get("Content-Type")
	inWords := strings.Contains(media, "json")
	mark := boundary.FindString(media)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if slices.Contains(unsaid, textproto.CanonicalMIMEHeaderKey(name)) || name == "Content-Length" && (inWords || mark != "") {
			continue // the lengths of times and of secrets
		}
		value := strings.Join(resp.Header[name], " | ")
		if mark != "" {
			value = strings.ReplaceAll(value, mark, "boundary=(mark)")
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	switch {
	case inWords:
		b.Write(body)
	case len(body) > 0:
		if mark != "" {
			body = []byte(strings.ReplaceAll(string(body), strings.TrimPrefix(mark, "boundary="), "(mark)"))
		}
		fmt.Fprintf(&b, "(%d bytes, SHA-256 %x)", len(body), sha256.Sum256(body))
	}
	return n.hide(b.String())
}

func TestVaryingValuesAreMasked(t *testing.T) {
	t.Parallel()
	n := &names{salt: "t123", urls: []string{"http://127.0.0.1:1"}, ids: map[string]int{}}
	const one, two = "0198c0de-0000-7000-8000-000000000001", "0198c0de-0000-7000-8000-000000000002"
	for text, want := range map[string]string{
		`{"id":"` + one + `","parent":"` + two + `","again":"` + one + `"}`:  `{"id":"(id 1)","parent":"(id 2)","again":"(id 1)"}`,
		`"mtime":"2026-11-21T01:02:03.004Z","at":"2001-02-03T04:05:06.007Z"`: `"mtime":"(now)","at":"2001-02-03T04:05:06.007Z"`,
		`{"size":12,"name":"ann-t123","request_id":"x"}`:                     `{"size":12,"name":"ann-(salt)"}`,
		`"next_cursor":"abc","more":true,"next":"d"`:                         `"next_cursor":"(secret)","more":true,"next":"(secret)"`,
		`"next_cursor":null`: `"next_cursor":null`,
		`{"url":"http://127.0.0.1:1/api/v1/links?token=AB-_cdefghijklmnopqrstuv"}`: `{"url":"(server)/api/v1/links?token=(secret)"}`,
		"Last-Modified: Sat, 21 Nov 2026 05:00:00 GMT":                             "Last-Modified: (now)",
	} {
		if text[0] == '{' && strings.Contains(text, one) {
			n.ids = map[string]int{}
		}
		if got := n.hide(text); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}
