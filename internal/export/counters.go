package export

import (
	"net/http"
	"sync/atomic"
)

// Counters are what this process has done since its start.
type Counters struct {
	Sealed  atomic.Int64 // batches
	Aborted atomic.Int64 // tries of batches that failed and will be repeated
	Failed  atomic.Int64 // batches that failed for good
	Late    atomic.Int64 // batches that ran for longer than expected

	Collected atomic.Int64 // entries that have arrived
	Missing   atomic.Int64 // entries that could not be had
	Fetched   atomic.Int64 // bytes of documents elsewhere

	TakenOver  atomic.Int64 // batches and jobs whose worker let its lease end
	Lost       atomic.Int64 // batches and jobs that this process had, and that are another's
	HandedOver atomic.Int64 // batches that were given back because another machine asked

	Saved      atomic.Int64 // zips written into the drive or the bucket
	Sent       atomic.Int64 // bytes of zips sent to clients
	Broken     atomic.Int64 // entries that could not be delivered as they were sealed
	BrokenSave atomic.Int64 // jobs that failed for good
}

// Counters returns those of this process.
func (e *Exports) Counters() *Counters { return &e.counters }

// Displaced is how many zips were broken off on their way because others had less.
func (e *Exports) Displaced() int64 { return e.sender.windows.Evicted() }

// tally is a ResponseWriter that counts the bytes of the body.
type tally struct {
	http.ResponseWriter
	n *atomic.Int64
}

// Unwrap is for http.ResponseController.
func (t tally) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t tally) Write(p []byte) (int, error) {
	n, err := t.ResponseWriter.Write(p)
	t.n.Add(int64(n))
	return n, err
}
