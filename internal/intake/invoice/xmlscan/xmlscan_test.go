package xmlscan

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

var testLimits = Limits{Bytes: 1 << 20, Depth: 20, Attributes: 8}

// transcript scans a document to its end and returns its tokens as text.
func transcript(src io.Reader, limits Limits) (string, error) {
	s := New(src, limits, "urn:one", "urn:two")
	defer s.Close()
	var out strings.Builder
	var text strings.Builder
	for {
		token, err := s.Next()
		if token != Text && text.Len() > 0 {
			fmt.Fprintf(&out, "%q", text.String())
			text.Reset()
		}
		if err != nil || token == EOF {
			return out.String(), err
		}
		switch token {
		case Start:
			fmt.Fprintf(&out, "<%d:%s", s.Name().Space, s.Name().Local)
			for _, a := range s.Attrs() {
				fmt.Fprintf(&out, " %d:%s=%q", a.Name.Space, a.Name.Local, a.Value)
			}
			out.WriteString(">")
		case End:
			fmt.Fprintf(&out, "</%d:%s>", s.Name().Space, s.Name().Local)
		case Text:
			text.Write(s.Text())
		case EOF:
		}
	}
}

func TestWhatIsRead(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`<a/>`: `<0:a></0:a>`,
		"\ufeff<?xml version=\"1.0\"?>\n<!-- c --><a>b</a>\n<!-- d -->": `<0:a>"b"</0:a>`,
		`<a x="1" y='2>"'>t</a >`:                               `<0:a 0:x="1" 0:y="2>\"">"t"</0:a>`,
		`<a>1 &lt; 2 &amp;&#65;&#x4e2d;</a>`:                    `<0:a>"1 < 2 &A中"</0:a>`,
		`<a><![CDATA[<b>&amp;]]]]><![CDATA[>]]></a>`:            `<0:a>"<b>&amp;]]>"</0:a>`,
		`<p:a xmlns:p="urn:one" p:x="&quot;"><b/></p:a>`:        `<1:a 1:x="\""><0:b></0:b></1:a>`,
		`<a xmlns="urn:two"><b xmlns=""><c/></b><d/></a>`:       `<2:a><0:b><0:c></0:c></0:b><2:d></2:d></2:a>`,
		`<a xmlns="urn:three" xml:lang="de"><?pi ?>中</a>`:       `<-1:a -1:lang="de">"中"</-1:a>`,
		`<p:a xmlns:p="urn:one"><p:a xmlns:p="urn:two"/></p:a>`: `<1:a><2:a></2:a></1:a>`,
	} {
		for name, src := range map[string]io.Reader{
			"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)), "with EOF": iotest.DataErrReader(strings.NewReader(in)),
		} {
			if got, err := transcript(src, testLimits); err != nil || got != want {
				t.Errorf("%s, %s:\ngot  %s, error %v\nwant %s", in, name, got, err, want)
			}
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Kind{
		"": Malformed, "text": Malformed, "<a>": Malformed, "<a></b>": Malformed, "<a/><b/>": Malformed, "<a/>x": Malformed, "</a>": Malformed,
		"<a": Malformed, "<a x>": Malformed, "<a x=1/>": Malformed, `<a x="1"y="2"/>`: Malformed, `<a x="1" x="2"/>`: Malformed, "<a x='<'/>": Malformed,
		"<1a/>": Malformed, "< a/>": Malformed, "<a:b/>": Malformed, "<a>\x00</a>": Malformed, "<a>\xff</a>": Malformed, "<a>]]></a>": Malformed,
		"<a>&#0;</a>": Malformed, "<a>&#xd800;</a>": Malformed, "<a>&#x110000;</a>": Malformed, "<a><![CDATA[": Malformed, "<!-- ": Malformed,
		"<a>\uffff</a>": Malformed, `<a xmlns:p=""/>`: Malformed, `<a xmlns:p="x" xmlns:p="y"/>`: Malformed, "<a:b:c xmlns:a='x'/>": Malformed,
		"<a>\x1b</a>": Malformed, "<a>中\xe4\xb8</a>": Malformed, "<a>&amp</a>": Refused,

		`<!DOCTYPE a><a/>`: Refused, `<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`: Refused, "<a>&b;</a>": Refused, `<a x="&b;"/>`: Refused,
		`<a><!ELEMENT b></a>`: Refused,

		strings.Repeat("<a>", 21): Limit, `<a a="" b="" c="" d="" e="" f="" g="" h="" i=""/>`: Limit,
		"<a>" + strings.Repeat("b", 1<<20) + "</a>": Limit, "<a b='" + strings.Repeat("c", 1<<17) + "'/>": Limit,
		"<!--" + strings.Repeat(" ", 1<<20) + "--><a/>": Limit,

		`<?xml version="1.0" encoding="EBCDIC-US"?><a/>`: Charset,
	} {
		_, err := transcript(strings.NewReader(in), testLimits)
		var bad *Error
		if !errors.As(err, &bad) || bad.Kind != want {
			t.Errorf("%.60q: error %v, want one of kind %d", in, err, want)
		}
	}
}

// TestUTF8ThatDeclaresUTF16 scans a document in UTF-8 that declares utf-16.
func TestUTF8ThatDeclaresUTF16(t *testing.T) {
	t.Parallel()
	const plain = `<?xml version="1.0" encoding="utf-8"?><a>Größe 中</a>`
	want, err := transcript(strings.NewReader(plain), testLimits)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range []string{"utf-16", "UTF-16", "utf-16LE"} {
		got, err := transcript(strings.NewReader(strings.Replace(plain, "utf-8", declared, 1)), testLimits)
		if err != nil || got != want {
			t.Errorf("%s: %v, error %v", declared, got, err)
		}
	}
}

func TestErrorsOfTheReaderStayThemselves(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for n := range 40 {
		src := io.MultiReader(strings.NewReader(`<?xml version="1.0"?><a b="c">d<!-- e --></a>`[:n]), iotest.ErrReader(broken))
		if _, err := transcript(src, testLimits); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestTextIsReadInPieces(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("中文&", 100_000)
	got, err := transcript(strings.NewReader("<a>"+strings.ReplaceAll(long, "&", "&amp;")+"</a>"), Limits{Bytes: 1 << 22, Depth: 1})
	if want := fmt.Sprintf("<0:a>%q</0:a>", long); err != nil || got != want {
		t.Errorf("%d bytes, want %d, error %v", len(got), len(want), err)
	}
}

func TestCharsets(t *testing.T) {
	t.Parallel()
	const document = `<?xml version="1.0" encoding="%s"?><a>中文 €</a>`
	gb, err := simplifiedchinese.GB18030.NewEncoder().String(fmt.Sprintf(document, "GBK"))
	if err != nil {
		t.Fatal(err)
	}
	for name, endian := range map[string]unicode.Endianness{"UTF-16LE": unicode.LittleEndian, "UTF-16BE": unicode.BigEndian} {
		for _, bom := range []unicode.BOMPolicy{unicode.UseBOM, unicode.IgnoreBOM} {
			text, err := unicode.UTF16(endian, bom).NewEncoder().String(fmt.Sprintf(document, "UTF-16"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := transcript(strings.NewReader(text), testLimits); err != nil || got != `<0:a>"中文 €"</0:a>` {
				t.Errorf("%s: %s, error %v", name, got, err)
			}
		}
	}
	for text, want := range map[string]string{
		gb: `<0:a>"中文 €"</0:a>`, "<?xml version='1.0' encoding='windows-1252'?><a>\x80\xe4</a>": `<0:a>"€ä"</0:a>`,
		"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe4</a>": `<0:a>"ä"</0:a>`,
	} {
		if got, err := transcript(strings.NewReader(text), testLimits); err != nil || got != want {
			t.Errorf("%q: %s, error %v", text, got, err)
		}
	}
	var bad *Error
	if _, err := transcript(strings.NewReader("<?xml version='1.0' encoding='GBK'?><a>\xff\xff</a>"), testLimits); !errors.As(err, &bad) || bad.Kind != Malformed {
		t.Errorf("bytes that are not GBK: %v", err)
	}
}

// FuzzScanner compares the scanner with encoding/xml: documents that the scanner accepts are
// well-formed and give the same texts, however the reader splits them.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`<a/>`, `<a x="1">t<b y='2'/>&lt;<![CDATA[c]]></a>`, `<p:a xmlns:p="urn:one"><p:b p:x=""/></p:a>`, `<!DOCTYPE a><a/>`,
		`<?xml version="1.0" encoding="UTF-8"?><a xmlns="urn:two"><!-- c -->中</a>`, `<a>&#65;&unknown;</a>`, `<a b="c`, `<a></b>`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := transcript(bytes.NewReader(in), testLimits)
		pieces, err2 := transcript(iotest.OneByteReader(bytes.NewReader(in)), testLimits)
		if whole != pieces && err == nil || (err == nil) != (err2 == nil) {
			t.Errorf("in one: %s, error %v\nbyte by byte: %s, error %v", whole, err, pieces, err2)
		}
		if err != nil || bytes.Contains(in, []byte("<?")) || bytes.Contains(in, []byte("<!--")) || !bytes.HasPrefix(in, []byte("<")) || in[1] == 0 {
			return // encoding/xml differs from the scanner in these
		}
		if theirs, err := standard(in); err != nil {
			if !strings.Contains(err.Error(), "invalid XML name") && !strings.Contains(err.Error(), "expected ") {
				t.Errorf("%q is read as %s; encoding/xml: %v", in, whole, err)
			}
		} else if theirs != text(whole) {
			t.Errorf("%q is read as %s; encoding/xml: %s", in, text(whole), theirs)
		}
	})
}

// standard scans a document with encoding/xml and returns its texts.
func standard(in []byte) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(in))
	var out strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			out.WriteString("<" + token.Name.Local + ">")
		case xml.EndElement:
			out.WriteString("</" + token.Name.Local + ">")
		}
	}
}

// text reduces a transcript to the form of standard's result.
func text(transcript string) string {
	var out strings.Builder
	for rest := transcript; rest != ""; {
		i := strings.IndexAny(rest, `<"`)
		if i < 0 {
			break
		}
		if rest = rest[i:]; rest[0] == '"' {
			rest = afterQuoted(rest)
			continue
		}
		slash := ""
		rest = rest[1:]
		if strings.HasPrefix(rest, "/") {
			slash, rest = "/", rest[1:]
		}
		_, rest, _ = strings.Cut(rest, ":")
		end := strings.IndexAny(rest, " >")
		out.WriteString("<" + slash + rest[:end] + ">")
		for rest = rest[end:]; rest[0] != '>'; {
			if rest[0] == '"' {
				rest = afterQuoted(rest)
			} else {
				rest = rest[1:]
			}
		}
		rest = rest[1:]
	}
	return out.String()
}

func afterQuoted(s string) string {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[i+1:]
		}
	}
	return ""
}
