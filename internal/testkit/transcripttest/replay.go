// Package transcripttest replays requests from a file against a handler and compares the responses
// with the same file. A file holds what a client of some protocol sends, in order, written from the
// description of that protocol:
//
//	# what the client does
//	> PUT /dav/files/{name}
//	> Content-Type: text/plain
//	>
//	> the body
//	= token Lock-Token: <(.*)>
//	< 201
//	< ETag: "<1>"
//	<
//	< the body of the answer
//
// A line with = captures what its expression matches in the response, before masking; {token}
// stands for it in later requests. Values that differ in each run are masked in the responses: each
// id gets a number. With -update the responses are written to the file.
package transcripttest

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what was answered to the files of requests")

// Options configure Play.
type Options struct {
	Handler http.Handler
	// Prepare completes a request, such as by a login. Default: nothing.
	Prepare func(*http.Request)
	// Headers are the response headers that the file contains.
	Headers []string
	// Mask are expressions for values that differ from run to run, besides ids. If an expression
	// has a group, only the group is masked.
	Mask []*regexp.Regexp
}

// exchange is a request of a file with its response.
type exchange struct {
	before   []string // comments and empty lines before the request
	sent     []string // lines of the request without their marks
	captures []capture
	answer   []string
}

// requestLine matches the first line of a request; no body contains such a line.
var requestLine = regexp.MustCompile(`^[A-Z]+ /`)

// capture stores the first group of an expression under a name.
type capture struct{ name, expression string }

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Play sends the requests of a file to the handler. The test fails if the responses differ from the
// file.
func Play(t *testing.T, file string, opt Options) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, tail := parse(t, string(raw))
	p := player{Options: opt, vars: map[string]string{}, ids: map[string]string{}}
	for i := range all {
		all[i].answer = p.send(t, all[i])
	}
	played := format(all, tail)
	if *update {
		if err := os.WriteFile(file, []byte(played), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(raw), "\n"), strings.Split(played, "\n")); diff != "" {
		t.Errorf("%s: the answers differ (-want +got); run \"go test -run '^%s$' -update\" in this package and read the difference:\n%s", file, t.Name(), diff)
	}
}

// parse returns the exchanges of a file, and the lines after the last one.
func parse(t *testing.T, text string) (all []exchange, tail []string) {
	t.Helper()
	var now exchange
	flush := func() {
		if len(now.sent) > 0 {
			all = append(all, now)
			now = exchange{}
		}
	}
	answered := false
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case mark == ">":
			if answered || len(now.captures) > 0 || requestLine.MatchString(rest) {
				flush()
			}
			answered = false
			now.sent = append(now.sent, rest)
		case mark == "=":
			name, expression, ok := strings.Cut(rest, " ")
			if !ok {
				t.Fatalf("%q keeps nothing", line)
			}
			now.captures = append(now.captures, capture{name, expression})
		case mark == "<":
			answered = true
		case line == "" || strings.HasPrefix(line, "#"):
			flush()
			answered = false
			now.before = append(now.before, line)
		default:
			t.Fatalf("a line that nobody knows: %q", line)
		}
	}
	flush()
	return all, now.before
}

// format renders exchanges as a file.
func format(all []exchange, tail []string) string {
	var b strings.Builder
	write := func(mark, line string) {
		b.WriteString(strings.TrimRight(strings.TrimLeft(mark+" "+line, " "), " ") + "\n")
	}
	for _, e := range all {
		for _, line := range e.before {
			write("", line)
		}
		for _, line := range e.sent {
			write(">", line)
		}
		for _, k := range e.captures {
			write("=", k.name+" "+k.expression)
		}
		for _, line := range e.answer {
			write("<", line)
		}
	}
	for _, line := range tail {
		write("", line)
	}
	return b.String()
}

// player sends requests and remembers captured values.
type player struct {
	Options

	vars map[string]string // captured values by name
	ids  map[string]string // number of each id
}

// send sends the request of an exchange, captures values and returns the lines of the response.
func (p player) send(t *testing.T, e exchange) []string {
	t.Helper()
	w := httptest.NewRecorder()
	p.Handler.ServeHTTP(w, p.request(t, e.sent))
	whole := new(strings.Builder)
	_ = w.Result().Header.Write(whole) // a Builder does not fail
	whole.WriteString("\n" + w.Body.String())
	for _, k := range e.captures {
		found := regexp.MustCompile(k.expression).FindStringSubmatch(whole.String())
		if len(found) < 2 {
			t.Fatalf("%s: the answer has nothing for %q:\n%d\n%s", e.sent[0], k.expression, w.Code, whole)
		}
		p.vars[k.name] = found[1]
	}
	answer := []string{fmt.Sprint(w.Code)}
	for _, name := range p.Headers {
		for key, values := range w.Result().Header { // some keys are not canonical
			for _, value := range values {
				if strings.EqualFold(key, name) {
					answer = append(answer, name+": "+p.mask(value))
				}
			}
		}
	}
	if w.Body.Len() > 0 {
		answer = append(answer, "")
		answer = append(answer, strings.Split(strings.TrimSuffix(p.mask(splitLines(w.Body.String())), "\n"), "\n")...)
	}
	return answer
}

func (p player) request(t *testing.T, sent []string) *http.Request {
	t.Helper()
	lines := make([]string, len(sent))
	for i, line := range sent {
		for name, value := range p.vars {
			line = strings.ReplaceAll(line, "{"+name+"}", value)
		}
		lines[i] = line
	}
	method, target, ok := strings.Cut(lines[0], " ")
	if !ok {
		t.Fatalf("no request: %q", lines[0])
	}
	header, body := lines[1:], []string(nil)
	for i, line := range header {
		if line == "" {
			header, body = header[:i], header[i+1:]
			break
		}
	}
	var in io.Reader
	if body != nil {
		in = bytes.NewReader([]byte(strings.Join(body, "\n")))
	}
	r := httptest.NewRequestWithContext(t.Context(), method, target, in)
	for _, line := range header {
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case !ok:
			t.Fatalf("no header: %q", line)
		case name == "Transfer-Encoding": // of unknown length
			r.ContentLength, r.TransferEncoding = -1, []string{value}
		case name == "Host":
			r.Host = value
		default:
			r.Header.Add(name, value)
		}
	}
	if body != nil && r.ContentLength >= 0 {
		r.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
	}
	if p.Prepare != nil {
		p.Prepare(r)
	}
	return r
}

// mask replaces each id by its number, and hides the other varying values.
func (p player) mask(s string) string {
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		if _, known := p.ids[id]; !known {
			p.ids[id] = fmt.Sprintf("<%d>", len(p.ids)+1)
		}
		return p.ids[id]
	})
	for _, m := range p.Mask {
		s = m.ReplaceAllStringFunc(s, func(found string) string {
			if part := m.FindStringSubmatch(found); len(part) > 1 {
				return strings.Replace(found, part[1], "<...>", 1)
			}
			return "<...>"
		})
	}
	return s
}

// lists matches the beginning of objects in JSON arrays and of the data of OCS.
var lists = regexp.MustCompile(`([\[,]|"data":)(\{)`)

// splitLines puts XML elements, and objects in JSON arrays, on lines of their own, so that
// differences show as lines.
func splitLines(s string) string {
	var b strings.Builder
	in := bufio.NewReader(strings.NewReader(s))
	for {
		text, err := in.ReadString('>')
		b.WriteString(text)
		if err != nil {
			break
		}
		opened := strings.LastIndexByte(text, '<')
		empty := opened >= 0 && !strings.HasPrefix(text[opened:], "</") // an element without content stays on one line
		if next, err := in.Peek(2); err == nil && next[0] == '<' && !(empty && next[1] == '/') {
			b.WriteByte('\n')
		}
	}
	return lists.ReplaceAllString(b.String(), "$1\n$2")
}
