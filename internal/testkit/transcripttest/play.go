// Package transcripttest plays requests from a file to a handler, and holds what it answers against
// the same file. A file is what a client of some protocol sends, in its order, written from the
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
// A line with = keeps what its expression finds in the answer, before anything is masked: {token}
// stands for it in the requests that follow. What is different in each run is masked in the
// answers: each id has a number. With -update the answers are written to the file.
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

// Options say how a file is played.
type Options struct {
	Handler http.Handler
	// Prepare completes a request, such as by a login. Default: it is sent as it is.
	Prepare func(*http.Request)
	// Headers are those of answers that the file has.
	Headers []string
	// Mask are expressions of what differs from run to run, beside ids. A part in parentheses is
	// masked alone, else all of it is.
	Mask []*regexp.Regexp
}

// exchange is one request of a file, and what belongs to it.
type exchange struct {
	before []string // comments and empty lines
	sent   []string // the lines of the request, without their marks
	keep   []keep
	answer []string
}

// requestLine is the first line of a request: no body has such a line.
var requestLine = regexp.MustCompile(`^[A-Z]+ /`)

type keep struct{ name, expression string }

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Play plays a file.
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
		t.Errorf("%s: the answers differ (-want +got):\n%s", file, diff)
	}
}

// parse reads the exchanges of a file, and what stands behind the last one.
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
			if answered || len(now.keep) > 0 || requestLine.MatchString(rest) {
				flush()
			}
			answered = false
			now.sent = append(now.sent, rest)
		case mark == "=":
			name, expression, ok := strings.Cut(rest, " ")
			if !ok {
				t.Fatalf("%q keeps nothing", line)
			}
			now.keep = append(now.keep, keep{name, expression})
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
		for _, k := range e.keep {
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

// player sends requests, and remembers what it was answered.
type player struct {
	Options

	vars map[string]string // what was kept
	ids  map[string]string // what each id is called
}

func (p player) send(t *testing.T, e exchange) []string {
	t.Helper()
	w := httptest.NewRecorder()
	p.Handler.ServeHTTP(w, p.request(t, e.sent))
	whole := new(strings.Builder)
	_ = w.Result().Header.Write(whole) // into memory
	whole.WriteString("\n" + w.Body.String())
	for _, k := range e.keep {
		found := regexp.MustCompile(k.expression).FindStringSubmatch(whole.String())
		if len(found) < 2 {
			t.Fatalf("%s: the answer has nothing for %q:\n%d\n%s", e.sent[0], k.expression, w.Code, whole)
		}
		p.vars[k.name] = found[1]
	}
	answer := []string{fmt.Sprint(w.Code)}
	for _, name := range p.Headers {
		for key, values := range w.Result().Header { // some keys are not as package http writes them
			for _, value := range values {
				if strings.EqualFold(key, name) {
					answer = append(answer, name+": "+p.mask(value))
				}
			}
		}
	}
	if w.Body.Len() > 0 {
		answer = append(answer, "")
		answer = append(answer, strings.Split(strings.TrimSuffix(p.mask(apart(w.Body.String())), "\n"), "\n")...)
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

// mask gives each id a number, and hides the rest that differs.
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

// lists are where elements of JSON begin that are objects, and the data of OCS.
var lists = regexp.MustCompile(`([\[,]|"data":)(\{)`)

// apart puts the elements of XML, and the objects in lists of JSON, on lines of their own: what has
// changed is a line then.
func apart(s string) string {
	var b strings.Builder
	in := bufio.NewReader(strings.NewReader(s))
	for {
		text, err := in.ReadString('>')
		b.WriteString(text)
		if err != nil {
			break
		}
		opened := strings.LastIndexByte(text, '<')
		empty := opened >= 0 && !strings.HasPrefix(text[opened:], "</") // an element without content stays together
		if next, err := in.Peek(2); err == nil && next[0] == '<' && !(empty && next[1] == '/') {
			b.WriteByte('\n')
		}
	}
	return lists.ReplaceAllString(b.String(), "$1\n$2")
}
