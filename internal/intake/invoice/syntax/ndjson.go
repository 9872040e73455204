package syntax

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"example.org/smartdrive/internal/intake/invoice"
)

// lines decodes NDJSON and yields a document or an error per line. It skips blank lines.
func lines(from io.Reader, limits Limits, yield func(*invoice.Document, error) bool) {
	in := bufferedReaders.Get().(*bufio.Reader)
	in.Reset(from)
	defer func() { in.Reset(nil); bufferedReaders.Put(in) }()
	reader := jsonReader{codes: codes{}}
	var room []byte
	for number := 1; ; number++ {
		line, err := readLine(in, &room, limits.Kept)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended && !errors.Is(err, errLineTooLong) {
			yield(nil, err)
			return
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 || errors.Is(err, errLineTooLong) {
			if !yield(reader.line(line, number, err, limits)) {
				return
			}
		}
		if ended {
			return
		}
	}
}

// errLineTooLong reports that a line exceeds the limit of readLine.
var errLineTooLong = errors.New("a line is too long")

// readLine returns the next line, valid until the next call. If the line is longer than limit,
// readLine discards all of it and returns errLineTooLong. io.EOF may come with the last line.
func readLine(in *bufio.Reader, room *[]byte, limit int) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*room = append((*room)[:0], line...)
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		if tooLong = tooLong || len(*room)+len(line) > limit; !tooLong {
			*room = append(*room, line...)
		}
	}
	if tooLong && (err == nil || errors.Is(err, io.EOF)) {
		return nil, errLineTooLong
	}
	return *room, err
}

// bufferedReaders pools the readers of lines.
var bufferedReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

// line decodes one line; err is the error of readLine, of which only errLineTooLong matters here.
// It fails with an Error that names the line: Limit for a too long one, or the fault of the
// document.
func (r *jsonReader) line(line []byte, number int, err error, limits Limits) (*invoice.Document, error) {
	if errors.Is(err, errLineTooLong) || len(line) > limits.Kept {
		return nil, &Error{Kind: Limit, Line: number, Text: fmt.Sprintf("the line is longer than %d bytes", limits.Kept)}
	}
	d, err := r.document(line, limits)
	if err != nil {
		if ours, ok := errors.AsType[*Error](err); ok {
			ours.Line = number
		}
		return nil, err
	}
	plain(d)
	if err := checkProfile(d); err != nil {
		return nil, err
	}
	return d, nil
}
