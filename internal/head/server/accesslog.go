package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
)

func (s *Server) count(rec *recorder, r *http.Request, start time.Time) {
	route := rec.route
	if route == "" {
		route = "none" // answered before the routes, or by none
	}
	s.metrics.requests(1, route, strconv.Itoa(rec.code()))
	s.metrics.seconds(time.Since(start).Seconds(), route)
	s.metrics.received(float64(received(r)))
	s.metrics.sent(float64(rec.sent))
}

// writeLine logs a request that has been answered. The path comes without the query, in which
// signed links carry their signature, and is written without tokens.
func (s *Server) writeLine(rec *recorder, r *http.Request, path string, start time.Time) {
	attrs := []slog.Attr{
		slog.String(telemetry.KeyRequest, rec.Header().Get(headerRequestID)),
		slog.String("client", addrOf(r.RemoteAddr).String()),
		slog.String("method", r.Method),
		slog.String("path", loggable(rec.route, path)),
		slog.String("route", rec.route),
		slog.Int("status", rec.code()),
		slog.Int64("received", received(r)),
		slog.Int64("sent", rec.sent),
		slog.Duration("took", time.Since(start)),
	}
	level := slog.LevelInfo
	if rec.err != nil {
		attrs = append(attrs, slog.String("code", drive.KindOf(rec.err).String()))
		if rec.code() >= 500 {
			level = gravity(rec.err)
			attrs = append(attrs, slog.Any(telemetry.KeyError, rec.err))
		}
	} else if rec.route == routeHealth || rec.route == routeReady {
		level = slog.LevelDebug // every few seconds, from every load balancer
	}
	s.log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// loggable hides the token in an address: who reads the log shall not be able to open what is
// shared. Of a route with a segment that may be a secret its pattern is said; of pages, and of what
// no route has (an address that was mistyped, a method that there is not), the first segment,
// unless that might be a token itself.
func loggable(route, path string) string {
	if route == routePages || route == "" {
		first, _, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch {
		case len(first) > longestPlain:
			return "/..."
		case more:
			return "/" + first + "/..."
		}
	}
	if _, pattern, ok := strings.Cut(route, " "); ok {
		for _, w := range wildcard.FindAllStringSubmatch(pattern, -1) {
			if !slices.Contains(plainWildcards, w[1]) {
				return pattern
			}
		}
	}
	return path
}

var (
	wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)
	// plainWildcards are the segments of routes that open nothing: ids, numbers, names and paths.
	// Any other one may be a secret: a token of a link, a page of a login flow.
	plainWildcards = []string{"id", "n", "v", "key", "principal", "user", "name", "path"}
)

// longestPlain is the length in bytes from which on a segment may be a token; all that tell
// something are shorter.
const longestPlain = 15

// gravity returns the level of the line of a 5xx: an error is what the program did not expect. A
// component that is away and a full disk have lines and figures of their own, and a full quota, a
// stop and a client that went away are nobody's fault.
func gravity(err error) slog.Level {
	switch {
	case drive.IsKind(err, drive.Quota, drive.Stopping), errors.Is(err, context.Canceled):
		return slog.LevelInfo
	case drive.IsKind(err, drive.Unavailable, drive.DiskFull):
		return slog.LevelWarn
	}
	return slog.LevelError
}

// received is how much of the body the handler has read, in bytes.
func received(r *http.Request) int64 {
	if b, ok := r.Body.(*body); ok {
		return b.total
	}
	return 0
}

// recorder notes what goes out. It keeps the short cuts of the writer below: ReadFrom, by which
// files are sent without a copy, and through Unwrap all that an http.ResponseController can do.
type recorder struct {
	http.ResponseWriter
	status    int
	sent      int64 // bytes of the body
	route     string
	err       error
	translate func(error) error // nil: errors stay as they are
}

func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// NoteError implements problem.Noter.
func (rec *recorder) NoteError(err error) { rec.err = err }

// TranslateError implements problem.Translator.
func (rec *recorder) TranslateError(err error) error {
	if rec.translate == nil {
		return err
	}
	return rec.translate(err)
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	rec.began()
	n, err := rec.ResponseWriter.Write(p)
	rec.sent += int64(n)
	rec.noteReader(err)
	return n, err
}

func (rec *recorder) ReadFrom(src io.Reader) (int64, error) {
	rec.began()
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.sent += n
	rec.noteReader(err)
	return n, err
}

// noteReader notes that the answer was broken off because the client did not read it. Handlers look
// at no error of a Write.
func (rec *recorder) noteReader(err error) {
	if behind, ok := errors.AsType[*readerError](err); ok && rec.err == nil {
		rec.err = drive.Wrap(behind, drive.TooSlow)
	}
}

func (rec *recorder) began() {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
}

// code is the status that the client got, or gets when the handler wrote nothing.
func (rec *recorder) code() int {
	if rec.status == 0 {
		return http.StatusOK
	}
	return rec.status
}
