package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/history"
)

const (
	maxStreams     = 16               // streams of one user: tabs and programs
	allStreams     = 10_000           // streams of this process
	heartbeatEvery = 25 * time.Second // proxies close idle connections after 30 to 60 s
	// hintEvery is the least interval between two messages of a stream.
	hintEvery    = 500 * time.Millisecond
	checkEvery   = 5 * time.Second  // interval of checking the login and the shares of the caller
	writeTimeout = 10 * time.Second // a client that takes longer to receive a hint is disconnected
	// reconnectTime is how long browsers shall wait before they reconnect.
	reconnectTime = 3 * time.Second
)

// events serves server-sent events (HTML standard §9.2), which tell clients what has changed. A
// lost event does no harm, since the feeds have the changes too.
type events struct {
	history *history.History
	mine    *server.Limiter[drive.UserID]
	all     *semaphore.Weighted
}

// newEvents returns the routes of the event stream with their limits, per user and in total.
func newEvents(h *history.History) events {
	return events{h, server.NewLimiter[drive.UserID](maxStreams), semaphore.NewWeighted(allStreams)}
}

// routes returns the declarations of the routes that events serves. It registers nothing.
func (e events) routes() []route {
	return []route{{
		id: "streamEvents", method: "GET", path: "/events", access: read, action: withoutBody(e.stream), longLived: true,
		header:   []string{"Last-Event-ID"},
		summary:  "Hear of what happens, while it does, in one's own drive, in one's spaces and in what is shared with one: server-sent events. `ready` comes first. `changed` says in which folders something is different, and not what: ask for it. Its data is a Hint. `reset` says that it is not known what happened since Last-Event-ID: look at everything. What is lost is no harm: GET /changes and GET /activity have it. A comment comes every 25 seconds. A user has up to 16 streams at a time (429); a reader that does not keep up is cut off, and one whose login ends.",
		outcomes: []outcome{{status: http.StatusOK, bytes: true, mediaType: eventStream, description: "the stream, which ends when the server does"}},
		errors:   []drive.Kind{drive.Rate},
	}}
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// closing has a channel that is closed once to end all event streams.
type closing struct {
	once sync.Once
	done chan struct{}
}

// EndStreams ends all event streams, so that a stopping server does not wait for them. Streams that
// begin later end at once.
func (a *API) EndStreams() {
	c := a.front.closing
	c.once.Do(func() { close(c.done) })
}

// stream serves GET /events. Beyond the errors common to all routes it fails with drive.Rate. It
// blocks until the client disconnects, falls behind or loses the login, or the server stops.
func (e events) stream(ctx context.Context, c *call) (reply, error) {
	release, err := e.mine.Acquire(c.limitKey())
	if err != nil {
		return reply{}, err
	}
	defer release()
	if !e.all.TryAcquire(1) {
		return reply{}, drive.Fail(drive.Rate, "limit", allStreams, "sent", allStreams+1, "retry_after", 60)
	}
	defer e.all.Release(1)
	l, hints, reset, err := e.history.Listen(ctx, c.who, c.r.Header.Get("Last-Event-ID"))
	if err != nil {
		return reply{}, err
	}
	defer l.Close()
	h := c.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store, no-transform") // a compressing proxy would buffer events
	h.Set("X-Accel-Buffering", "no")                 // nginx
	s := streamer{c: c, l: l, to: http.NewResponseController(c.w)}
	c.w.WriteHeader(http.StatusOK)
	fmt.Fprintf(&s.b, "retry: %d\n", reconnectTime.Milliseconds())
	s.event("ready", struct{}{})
	if reset {
		s.event("reset", struct{}{})
	}
	s.hints(hints)
	if s.flush() == nil {
		s.run(ctx)
	}
	return reply{}, nil
}

// streamer writes the events of one stream. It is used by one goroutine.
type streamer struct {
	c  *call
	l  *history.Listener
	to *http.ResponseController
	b  bytes.Buffer
}

// run sends events until the client disconnects, is too slow, loses its access, or the server
// stops.
func (s *streamer) run(ctx context.Context) {
	look, beat := time.NewTicker(checkEvery), time.NewTicker(heartbeatEvery)
	defer look.Stop()
	defer beat.Stop()
	for {
		ready := s.l.Ready() // replaced when the set of visible accounts changes
		select {
		case <-ctx.Done():
			return
		case <-s.c.closing.done:
			return
		case <-ready:
		case <-look.C:
			if !s.authorized() {
				return
			}
		case <-beat.C:
			s.b.WriteString(": beat\n\n")
		}
		hints, err := s.l.Next(ctx)
		if err != nil {
			return // the client reconnects with its Last-Event-ID
		}
		s.hints(hints)
		if s.b.Len() == 0 {
			continue
		}
		if s.flush() != nil || len(hints) > 0 && !s.pause(ctx) {
			return
		}
	}
}

// pause waits hintEvery, so that a burst of changes becomes one hint. It returns false if the
// stream must end.
func (s *streamer) pause(ctx context.Context) bool {
	t := time.NewTimer(hintEvery)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.c.closing.done:
	}
	return false
}

// authorized authenticates the request of the stream again, and reports whether it still has the
// same user. It is false also if that fails for another reason.
func (s *streamer) authorized() bool {
	if s.c.local != nil {
		return true
	}
	who, err := s.c.identify(s.c.r, s.c.route.access)
	return err == nil && who.User == s.c.who.User
}

// hints appends a "changed" event for each hint to the buffer; it sends nothing.
func (s *streamer) hints(all []history.Hint) {
	for _, h := range all {
		s.event("changed", h)
	}
}

// event appends an event with the listener's cursor as its id to the buffer; flush sends it.
func (s *streamer) event(name string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		return // ids and words always encode
	}
	fmt.Fprintf(&s.b, "id: %s\nevent: %s\ndata: %s\n\n", s.l.Cursor(), name, raw)
}

// flush sends the buffered events. It fails if the client is disconnected or takes longer than
// writeTimeout.
func (s *streamer) flush() error {
	if err := s.to.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.c.w.Write(s.b.Bytes())
	s.b.Reset()
	if err == nil {
		err = s.to.Flush()
	}
	if err == nil {
		err = s.to.SetWriteDeadline(time.Time{})
	}
	return err
}
