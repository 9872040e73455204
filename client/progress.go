package client

import (
	"sync"
	"time"
)

// State is the state of a transfer.
type State string

// The states. Sent, Received, Instant, Skipped and Failed are final.
const (
	StateHashing   State = "hashing"
	StateSending   State = "sending"
	StateReceiving State = "receiving"
	StateVerifying State = "verifying"
	StateWaiting   State = "waiting" // backing off before a retry; Event.Err says why
	StateSent      State = "sent"
	StateReceived  State = "received"
	StateInstant   State = "instant" // the server had the content already
	StateSkipped   State = "skipped" // the target was the same already
	StateFailed    State = "failed"
)

// Final reports whether the transfer has ended: sent, received, instant, skipped or failed.
func (s State) Final() bool {
	switch s {
	case StateSent, StateReceived, StateInstant, StateSkipped, StateFailed:
		return true
	default:
		return false
	}
}

// Event is the progress of one transfer.
type Event struct {
	Path  string // remote
	Local string
	State State
	Bytes int64 // bytes transferred or found at the target
	Total int64
	Rate  float64 // recent bytes per second
	ETA   time.Duration
	Err   error
}

// Progress receives the events of a transfer, never concurrently: each change of state, and at most
// 10 updates a second per file.
type Progress func(Event)

// meter computes the progress events of one file. It is safe for concurrent use.
type meter struct {
	fn func(Event)

	mu          sync.Mutex
	ev          Event
	activeState State // state to return to after StateWaiting
	emittedAt   time.Time
	windowStart time.Time // start of the current rate window
	windowBytes int64
}

const (
	// progressInterval is the least time between two events of a running transfer.
	progressInterval = 100 * time.Millisecond
	rateWindow       = 500 * time.Millisecond // length of a rate window
	rateDecay        = 0.7                    // weight of the previous rate (exponential smoothing)
)

// newMeter returns a meter that starts with ev; fn may be nil.
func newMeter(fn func(Event), ev Event) *meter {
	return &meter{fn: fn, ev: ev, windowStart: time.Now()}
}

// add counts n bytes as transferred; a negative n undoes bytes. It may call the progress function,
// at most every progressInterval. It acquires mu.
func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.Bytes += n
	m.windowBytes += n
	now := time.Now()
	if d := now.Sub(m.windowStart); d >= rateWindow {
		rate := max(0, float64(m.windowBytes)/d.Seconds())
		if m.ev.Rate > 0 {
			rate = rateDecay*m.ev.Rate + (1-rateDecay)*rate
		}
		m.ev.Rate, m.windowStart, m.windowBytes = rate, now, 0
	}
	if m.ev.State == StateWaiting && n > 0 {
		m.ev.State, m.ev.Err = m.activeState, nil
	}
	if now.Sub(m.emittedAt) >= progressInterval {
		m.emitLocked(now)
	}
}

// setBytes sets the number of bytes that count as transferred, such as those of a resumed upload,
// and reports it at once. They do not count for the rate.
func (m *meter) setBytes(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.Bytes = n
	m.emitLocked(time.Now())
}

// setState changes the state, clears the error and emits an event. It acquires mu.
func (m *meter) setState(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.State, m.activeState, m.ev.Err = s, s, nil
	m.emitLocked(time.Now())
}

// retrying reports StateWaiting with the error of the failed attempt, and remembers the state to
// return to.
func (m *meter) retrying(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ev.State != StateWaiting {
		m.activeState = m.ev.State
	}
	m.ev.State, m.ev.Err = StateWaiting, err
	m.emitLocked(time.Now())
}

// finish reports the final state s, with err for StateFailed. Unless it is StateFailed, all bytes
// count as transferred.
func (m *meter) finish(s State, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.State, m.ev.Err = s, err
	if s != StateFailed {
		m.ev.Bytes = m.ev.Total
	}
	m.emitLocked(time.Now())
}

// emitLocked computes the ETA and calls the progress function. The caller holds m.mu, so the
// function must not call the meter.
func (m *meter) emitLocked(now time.Time) {
	m.emittedAt, m.ev.ETA = now, 0
	if m.ev.Rate > 0 {
		m.ev.ETA = time.Duration(float64(max(0, m.ev.Total-m.ev.Bytes)) / m.ev.Rate * float64(time.Second))
	}
	if m.fn != nil {
		m.fn(m.ev)
	}
}

// restart resets the counted bytes to 0 and sets the total. It reports nothing.
func (m *meter) restart(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.Total, m.ev.Bytes = total, 0
}
