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

// Log appends records to a file. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	f      *os.File
	recent []string
	err    error
}

// remembered is the number of records that Recent returns to explain a failure.
const remembered = 25

// Create creates a log file, replacing an existing one.
func Create(path string) (*Log, error) {
	f, err := os.Create(path)
	return &Log{f: f}, err
}

// Write stamps a record with the time and appends it. The line is written but not synced when Write
// returns, which is enough because clients are not killed. Close returns its error.
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

// Recent returns the last records as JSON lines.
func (l *Log) Recent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.recent...)
}

// Close closes the file and returns all errors of Write.
func (l *Log) Close() error { return errors.Join(l.err, l.f.Close()) }

// Read returns the records of several logs, one log after the other.
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

// Parse returns the records of one log. It skips a truncated last line.
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
