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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
)

// count adds an answered request to the metrics under its route's pattern, or "none" if no route
// was found.
func (s *Server) count(rec *recorder, r *http.Request, start time.Time) {
	route := rec.route
	if route == "" {
		route = "none" // answered before routing, or no route
	}
	s.metrics.requests(1, route, strconv.Itoa(rec.code()))
	s.metrics.seconds(time.Since(start).Seconds(), route)
	s.metrics.received(float64(received(r)))
	s.metrics.sent(float64(rec.sent))
}

// logRequest logs an answered request. path is the escaped path as sent. The log contains no query,
// because queries carry the signatures of links, and no tokens in the path. The level is Info;
// Debug for health checks; for a status of 500 or more that of logLevel.
func (s *Server) logRequest(rec *recorder, r *http.Request, path string, start time.Time) {
	attrs := []slog.Attr{
		slog.String(telemetry.KeyRequest, rec.Header().Get(headerRequestID)),
		slog.String("client", addrOf(r.RemoteAddr).String()),
		slog.String("method", r.Method),
		slog.String("path", pathForLog(rec.route, path)),
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
			level = logLevel(rec.err)
			attrs = append(attrs, slog.Any(telemetry.KeyError, rec.err))
		}
	} else if rec.route == routeHealth || rec.route == routeReady {
		level = slog.LevelDebug // load balancers request it every few seconds
	}
	s.log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// pathForLog returns the path as it may be logged, without tokens, so that readers of the log
// cannot open shares. If a wildcard of the route may be a secret, it returns the route's pattern.
// For pages and unmatched paths it returns the first segment and "/...", or only "/..." if the
// segment is longer than maxPlainSegment and so may be a token.
func pathForLog(route, path string) string {
	if route == routePages || route == "" {
		first, _, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch {
		case len(first) > maxPlainSegment:
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
	// wildcard matches a path wildcard of a route pattern; its group is the name.
	wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)
	// plainWildcards are the wildcards of routes that are no secrets: ids, numbers, names and
	// paths. Any other may be a token of a link or of a login flow.
	plainWildcards = []string{"id", "n", "v", "key", "principal", "user", "name", "path"}
)

// maxPlainSegment is the longest segment in bytes that cannot be a token.
const maxPlainSegment = 15

// logLevel returns the log level for an error that was answered with a status of 500 or more.
// Unexpected failures are Error. An unavailable component or a full disk is Warn, because it is
// logged and counted elsewhere as well. A full quota, a stopping server and a disconnected client
// are no faults, so Info.
func logLevel(err error) slog.Level {
	switch {
	case drive.IsKind(err, drive.Quota, drive.Stopping), errors.Is(err, context.Canceled):
		return slog.LevelInfo
	case drive.IsKind(err, drive.Unavailable, drive.DiskFull):
		return slog.LevelWarn
	}
	return slog.LevelError
}

// received returns how many bytes of the request's body the handler has read; 0 if the request has
// no body.
func received(r *http.Request) int64 {
	if b, ok := r.Body.(*body); ok {
		return b.total
	}
	return 0
}

// recorder is a ResponseWriter that records status, size and error of the response for the access
// log and the metrics. It implements io.ReaderFrom, so that files are sent without a copy, and
// Unwrap, for http.ResponseController.
type recorder struct {
	http.ResponseWriter
	status    int
	sent      int64 // bytes of the response body
	route     string
	err       error
	translate func(error) error // nil: errors stay as they are
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// NoteError stores err for the access log.
func (rec *recorder) NoteError(err error) { rec.err = err }

// TranslateError returns err as the route's translator rewrites it for the client; unchanged
// without a translator.
func (rec *recorder) TranslateError(err error) error {
	if rec.translate == nil {
		return err
	}
	return rec.translate(err)
}

// WriteHeader records the first final status and sends the header. Informational statuses are not
// recorded.
func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

// Write sends p and counts the bytes sent.
func (rec *recorder) Write(p []byte) (int, error) {
	rec.begin()
	n, err := rec.ResponseWriter.Write(p)
	rec.sent += int64(n)
	rec.noteReader(err)
	return n, err
}

// ReadFrom copies src to the client and counts the bytes sent.
func (rec *recorder) ReadFrom(src io.Reader) (int64, error) {
	rec.begin()
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.sent += n
	rec.noteReader(err)
	return n, err
}

// noteReader records err if it says that the connection was aborted because the client did not read
// the response. It is needed because handlers ignore errors of Write.
func (rec *recorder) noteReader(err error) {
	if behind, ok := errors.AsType[*readerError](err); ok && rec.err == nil {
		rec.err = drive.Wrap(behind, drive.TooSlow)
	}
}

// begin records the implicit status 200 of a Write without WriteHeader.
func (rec *recorder) begin() {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
}

// code returns the status that the client received, or will receive if the handler wrote nothing.
func (rec *recorder) code() int {
	if rec.status == 0 {
		return http.StatusOK
	}
	return rec.status
}
