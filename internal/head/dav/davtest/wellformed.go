package davtest

import (
	"bufio"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// CheckXML fails the test if an XML response breaks XML 1.0 or Namespaces in XML 1.0, as found by
// Strict and, if Python is installed, by expat.
func (a Response) CheckXML(t testing.TB) {
	t.Helper()
	if !strings.Contains(a.Header.Get("Content-Type"), "xml") || a.Body == "" {
		return
	}
	if err := Strict(a.Body); err != nil {
		t.Errorf("the answer is no XML: %v\n%s", err, a.Body)
	}
	if parse := expat(); parse != nil {
		if err := parse(a.Body); err != nil {
			t.Errorf("expat does not read the answer: %v\n%s", err, a.Body)
		}
	}
}

// CheckedHandler returns the server of the site, which fails the test if a response is ill-formed
// (CheckXML).
func (s *Site) CheckedHandler(t testing.TB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead { // responses are contents
			s.Server.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		s.Server.ServeHTTP(rec, r)
		Response{rec.Code, rec.Header(), rec.Body.String()}.CheckXML(t)
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()) // a recorder does not fail
	})
}

// ncName matches an NCName of Namespaces in XML, approximately: letters and digits by Unicode
// class.
var ncName = regexp.MustCompile(`^[\pL_][\pL\pN\pM\x{b7}._-]*$`)

const (
	// xmlURI is the namespace that the prefix xml is bound to; xmlnsURI that of declarations.
	xmlURI   = "http://www.w3.org/XML/1998/namespace"
	xmlnsURI = "http://www.w3.org/2000/xmlns/"
)

// Strict returns how a document breaks Namespaces in XML 1.0, which package xml does not check; nil
// if it does not.
func Strict(document string) error {
	d := xml.NewDecoder(strings.NewReader(document))
	scopes := []map[string]string{{"xml": xmlURI, "": ""}}
	var open []string
	roots := 0
	for {
		t, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			if len(open) > 0 || roots != 1 {
				return fmt.Errorf("%d elements are open, of %d roots", len(open), roots)
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if len(open) == 0 {
				roots++
			}
			open = append(open, t.Name.Space+":"+t.Name.Local)
			scope, err := start(t, scopes[len(scopes)-1])
			if err != nil {
				return fmt.Errorf("<%s:%s>: %w", t.Name.Space, t.Name.Local, err)
			}
			scopes = append(scopes, scope)
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != t.Name.Space+":"+t.Name.Local {
				return fmt.Errorf("</%s:%s> ends nothing", t.Name.Space, t.Name.Local)
			}
			open, scopes = open[:len(open)-1], scopes[:len(scopes)-1]
		case xml.CharData:
			if len(open) == 0 && strings.TrimSpace(string(t)) != "" {
				return errors.New("text outside the root")
			}
		}
	}
}

// start returns a copy of outer extended by the namespaces that e declares, by prefix. It fails if
// a prefix is declared twice or illegally, if a name uses an undeclared prefix, or if two
// attributes have one expanded name.
func start(e xml.StartElement, outer map[string]string) (map[string]string, error) {
	scope := maps.Clone(outer)
	if scope == nil {
		scope = map[string]string{}
	}
	here := map[string]bool{}
	for _, a := range e.Attr {
		prefix, declares := "", a.Name.Space == "xmlns"
		if declares {
			prefix = a.Name.Local
		}
		if !declares && (a.Name.Space != "" || a.Name.Local != "xmlns") {
			continue
		}
		switch {
		case here[prefix]:
			return nil, fmt.Errorf("the prefix %q is declared twice", prefix)
		case prefix == "xmlns" || a.Value == xmlnsURI || (prefix == "xml") != (a.Value == xmlURI) || declares && a.Value == "":
			return nil, fmt.Errorf("%q is declared as %q", prefix, a.Value)
		}
		here[prefix], scope[prefix] = true, a.Value
	}
	if _, err := resolve(e.Name, scope, true); err != nil {
		return nil, err
	}
	seen := map[xml.Name]bool{}
	for _, a := range e.Attr {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			continue
		}
		name, err := resolve(a.Name, scope, false)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("the attribute %v is there twice", name)
		}
		seen[name] = true
	}
	return scope, nil
}

// resolve replaces the prefix in n.Space by the namespace that scope binds; an unprefixed attribute
// has none. It fails for an unbound prefix or a local name that is no NCName.
func resolve(n xml.Name, scope map[string]string, element bool) (xml.Name, error) {
	uri, known := scope[n.Space]
	if n.Space == "" && !element {
		uri = ""
	}
	if !known || !ncName.MatchString(n.Local) {
		return n, fmt.Errorf("the name %q with the prefix %q", n.Local, n.Space)
	}
	return xml.Name{Space: uri, Local: n.Local}, nil
}

// expatLoop is a Python program that parses length-prefixed XML documents from standard input with
// expat and writes a verdict for each.
const expatLoop = `
import sys, struct, xml.parsers.expat
source, sink = sys.stdin.buffer, sys.stdout
while True:
    head = source.read(4)
    if len(head) < 4: break
    said = "ok"
    try: xml.parsers.expat.ParserCreate(namespace_separator=" ").Parse(source.read(struct.unpack(">I", head)[0]), True)
    except xml.parsers.expat.ExpatError as e: said = str(e)
    print(said, file=sink, flush=True)
`

// expat returns a function that parses a document by Python's expat, or nil without Python. The
// Python process ends with the test process.
var expat = sync.OnceValue(func() func(document string) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil
	}
	cmd := exec.Command(python, "-c", expatLoop) //nolint:noctx // it serves all tests of the process
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	said := bufio.NewReader(out)
	var mu sync.Mutex // one document at a time
	return func(document string) error {
		mu.Lock()
		defer mu.Unlock()
		head := binary.BigEndian.AppendUint32(nil, uint32(len(document)))
		if _, err := in.Write(append(head, document...)); err != nil {
			return err
		}
		line, err := said.ReadString('\n')
		if err != nil {
			return err
		}
		if line != "ok\n" {
			return errors.New(strings.TrimSpace(line))
		}
		return nil
	}
})
