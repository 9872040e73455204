package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/head/problem"
)

// recoverPanic must be deferred directly. It turns a panic of a handler into a response with status
// 500, logs and counts it, so that a bug in one request does not end the process. If part of the
// response is sent already, it panics with http.ErrAbortHandler instead, which aborts the
// connection; it also passes that panic on.
func (s *Server) recoverPanic(rec *recorder, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { // a handler aborts the connection on purpose
		panic(v)
	}
	s.metrics.panics(1)
	s.log.Error("a request handler panicked; the request was answered with 500 or aborted",
		slog.String(telemetry.KeyRequest, rec.Header().Get(headerRequestID)),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		panic(http.ErrAbortHandler)
	}
	problem.Write(rec, r, fmt.Errorf("panic: %v", v))
}
