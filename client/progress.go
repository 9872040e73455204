package client

import (
	"sync"
	"time"
)

// State is what a transfer is doing.
type State string

// The states. Sent, Instant, Skipped, Received and Failed are how it may end.
const (
	StateHashing   State = "hashing"
	StateSending   State = "sending"
	StateReceiving State = "receiving"
	StateVerifying State = "verifying"
	StateWaiting   State = "waiting" // before another attempt; Event.Err says why
	StateSent      State = "sent"
	StateReceived  State = "received"
	StateInstant   State = "instant" // the server had the content already
	StateSkipped   State = "skipped" // nothing to do
	StateFailed    State = "failed"
)

// Final reports whether the transfer has ended.
func (s State) Final() bool {
	switch s {
	case StateSent, StateReceived, StateInstant, StateSkipped, StateFailed:
		return true
	default:
		return false
	}
}

// Event tells how far a transfer is.
type Event struct {
	Path  string // remote
	Local string
	State State
	Bytes int64 // of the file that need not be moved any more
	Total int64
	Rate  float64 // bytes per second, lately
	ETA   time.Duration
	Err   error
}

// Progress is told of events, one at a time, at most 10 a second for each file besides changes of
// state.
type Progress func(Event)

// meter turns moved bytes into events for one file.
type meter struct {
	fn func(Event)

	mu     sync.Mutex
	ev     Event
	moving State // what to return to after waiting
	shown  time.Time
	mark   time.Time // since when markBytes have been counted for the rate
	marked int64
}

const (
	showEvery = 100 * time.Millisecond
	rateEvery = 500 * time.Millisecond // the window of one rate sample
	rateKeep  = 0.7                    // weight of what the rate was before the sample
)

func newMeter(fn func(Event), ev Event) *meter { return &meter{fn: fn, ev: ev, mark: time.Now()} }

// add counts n bytes that moved, or were taken back.
func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.Bytes += n
	m.marked += n
	now := time.Now()
	if d := now.Sub(m.mark); d >= rateEvery {
		rate := max(0, float64(m.marked)/d.Seconds())
		if m.ev.Rate > 0 {
			rate = rateKeep*m.ev.Rate + (1-rateKeep)*rate
		}
		m.ev.Rate, m.mark, m.marked = rate, now, 0
	}
	if m.ev.State == StateWaiting && n > 0 {
		m.ev.State, m.ev.Err = m.moving, nil
	}
	if now.Sub(m.shown) >= showEvery {
		m.showLocked(now)
	}
}

// has says how much is there before anything moves, such as what a resumed upload holds.
func (m *meter) has(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.Bytes = n
	m.showLocked(time.Now())
}

func (m *meter) state(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.State, m.moving, m.ev.Err = s, s, nil
	m.showLocked(time.Now())
}

// waiting tells of an attempt that failed.
func (m *meter) waiting(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ev.State != StateWaiting {
		m.moving = m.ev.State
	}
	m.ev.State, m.ev.Err = StateWaiting, err
	m.showLocked(time.Now())
}

// end tells how it ended. What succeeded is there to the last byte.
func (m *meter) end(s State, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.State, m.ev.Err = s, err
	if s != StateFailed {
		m.ev.Bytes = m.ev.Total
	}
	m.showLocked(time.Now())
}

func (m *meter) showLocked(now time.Time) {
	m.shown, m.ev.ETA = now, 0
	if m.ev.Rate > 0 {
		m.ev.ETA = time.Duration(float64(max(0, m.ev.Total-m.ev.Bytes)) / m.ev.Rate * float64(time.Second))
	}
	if m.fn != nil {
		m.fn(m.ev)
	}
}

// resize begins again with another size.
func (m *meter) resize(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ev.Total, m.ev.Bytes = total, 0
}
