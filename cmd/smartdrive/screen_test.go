package main

import (
	"bytes"
	"sync"
)

// lockedBuffer is a terminal for tests; it may be read while it is written.
type lockedBuffer struct {
	mu     sync.Mutex
	b      bytes.Buffer
	notice chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notice != nil {
		close(l.notice)
		l.notice = nil
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// written is closed by the next Write.
func (l *lockedBuffer) written() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notice == nil {
		l.notice = make(chan struct{})
	}
	return l.notice
}
