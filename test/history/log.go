package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Log appends records to a file. It may be used by several goroutines.
type Log struct {
	mu     sync.Mutex
	f      *os.File
	recent []string
	err    error
}

// remembered is how many records Recent gives: what led to a failure.
const remembered = 25

// Create makes a log.
func Create(path string) (*Log, error) {
	f, err := os.Create(path)
	return &Log{f: f}, err
}

// Write appends a record and stamps it. It is in the file when Write returns: the clients are not
// killed, so no sync is needed.
func (l *Log) Write(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.At = time.Now().UnixMilli()
	line, err := json.Marshal(r)
	if err == nil {
		_, err = l.f.Write(append(line, '\n'))
	}
	l.err = errors.Join(l.err, err)
	if l.recent = append(l.recent, string(line)); len(l.recent) > remembered {
		l.recent = l.recent[1:]
	}
}

// Recent returns the last lines.
func (l *Log) Recent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.recent...)
}

// Close closes the file and returns the first error of any Write.
func (l *Log) Close() error { return errors.Join(l.err, l.f.Close()) }

// Read reads the logs, one after the other.
func Read(paths ...string) ([]Record, error) {
	var all []Record
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		records, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, records...)
	}
	return all, nil
}

// Parse reads the lines of one log. A last line that was cut off is left out.
func Parse(b []byte) (records []Record, err error) {
	in := bufio.NewReader(bytes.NewReader(b))
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		var r Record
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		records = append(records, r)
	}
}
