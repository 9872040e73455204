package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/head/problem"
)

// recoverPanic is deferred. It turns a panic into a 500, counts it and carries on: a broken
// invariant in one request must not end the uploads of everybody else. When part of an answer is
// already out the connection is broken off, so that nobody takes the part for the whole.
func (s *Server) recoverPanic(rec *recorder, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { // a handler's way to break off; not a fault
		panic(v)
	}
	s.metrics.panics(1)
	s.log.Error("panic",
		slog.String(telemetry.KeyRequest, rec.Header().Get(headerRequestID)),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		panic(http.ErrAbortHandler)
	}
	problem.Write(rec, r, fmt.Errorf("panic: %v", v))
}
