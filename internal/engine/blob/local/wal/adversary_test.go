package wal

import (
	"fmt"
	"testing"
	"time"
)

// Segments that are settled for their age at any moment: under the race detector nothing is read
// that somebody writes.
func TestSegmentsOfAnyAge(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	l.limits.age = time.Microsecond
	for i := range 200 {
		d.put(l, fmt.Sprint("put-1-", i), make([]byte, 100))
	}
	noError(t, l.Close())
}
