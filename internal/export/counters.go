package export

import (
	"net/http"
	"sync/atomic"
)

// Counters counts events in this process since its start.
type Counters struct {
	Sealed  atomic.Int64 // sealed batches
	Aborted atomic.Int64 // failed tries of batches that are retried
	Failed  atomic.Int64 // batches that failed for good
	Late    atomic.Int64 // batches that ran longer than Options.LateAfter

	Collected     atomic.Int64 // entries that arrived
	FailedEntries atomic.Int64 // entries that failed
	Fetched       atomic.Int64 // fetched bytes of remote documents

	TakenOver  atomic.Int64 // batches and jobs claimed after the lease of their worker expired
	Lost       atomic.Int64 // batches and jobs that another worker claimed from this process
	HandedOver atomic.Int64 // batches returned because another machine asked for them

	FinishedJobs  atomic.Int64 // zips written into the drive or the bucket
	Sent          atomic.Int64 // bytes of zips sent to clients
	BrokenEntries atomic.Int64 // entries whose bytes could not be delivered as sealed
	FailedJobs    atomic.Int64 // jobs that failed for good
}

// Counters returns the counters of this process. They are updated concurrently.
func (e *Exports) Counters() *Counters { return &e.counters }

// EvictedDownloads returns how many downloads this process has cancelled to free memory for other
// clients.
func (e *Exports) EvictedDownloads() int64 { return e.sender.budget.Evicted() }

// countingWriter is a ResponseWriter that adds the bytes of the body to n.
type countingWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes p to the response and adds the bytes that were written to the counter n.
func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n.Add(int64(n))
	return n, err
}
