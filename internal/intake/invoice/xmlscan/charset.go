package xmlscan

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// charsets maps the supported encodings, by name in lower case; nil needs no conversion.
var charsets = map[string]encoding.Encoding{
	"utf-8": nil, "utf8": nil, "us-ascii": nil, "ascii": nil,
	"iso-8859-1": charmap.ISO8859_1, "iso-8859-15": charmap.ISO8859_15, "windows-1252": charmap.Windows1252,
	"gbk": simplifiedchinese.GB18030, "gb2312": simplifiedchinese.GB18030, "gb18030": simplifiedchinese.GB18030,
	"utf-16":   unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf-16be": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
}

// declaredCharset matches the encoding in an XML declaration.
var declaredCharset = regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._-]*)["']`)

// begin detects the encoding from the first bytes (XML 1.0, appendix F). An unknown encoding gives
// an Error of kind Charset.
func (s *Scanner) begin() error {
	s.started = true
	if err := s.fillTo(256); err != nil {
		return err
	}
	head := s.buf[s.pos:s.end]
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		s.advance(3)
		head = head[3:]
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return s.transcode(charsets["utf-16"])
	case bytes.HasPrefix(head, []byte("<\x00")):
		return s.transcode(charsets["utf-16le"])
	case bytes.HasPrefix(head, []byte("\x00<")):
		return s.transcode(charsets["utf-16be"])
	}
	found := declaredCharset.FindSubmatch(head)
	if found == nil {
		return nil
	}
	name := strings.ToLower(string(found[1]))
	from, known := charsets[name]
	if !known {
		return s.fail(Charset, "the encoding %.40q", found[1])
	}
	// If the declaration reads as ASCII, the document is not in UTF-16, even if it declares
	// utf-16. .NET programs that build a document as a string and write it in UTF-8 declare
	// utf-16.
	if from == nil || strings.HasPrefix(name, "utf-16") {
		return nil
	}
	return s.transcode(from)
}

// transcode makes the scanner read its remaining bytes through a decoder. It always returns nil.
func (s *Scanner) transcode(from encoding.Encoding) error {
	rest := bytes.Clone(s.buf[s.pos:s.end])
	s.src = io.MultiReader(bytes.NewReader(rest), errReader{s.src, s.srcErr})
	s.src = from.NewDecoder().Reader(s.src)
	s.pos, s.end, s.read, s.srcErr, s.transcoded = 0, 0, 0, nil, true
	return nil
}

// errReader is a reader that returns err, if set, instead of reading.
type errReader struct {
	io.Reader
	err error
}

// Read returns err if it is set, else the bytes of the reader.
func (e errReader) Read(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	return e.Reader.Read(p)
}
