package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/head/problem"
)

// recoverPanics turns a panic into a 500, counts it and carries on: a broken invariant in one
// request must not end the uploads of everybody else. When part of an answer is already out the
// connection is broken off, so that nobody takes the part for the whole.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { // a handler's way to break off; not a fault
				panic(v)
			}
			s.metrics.panics(1)
			s.log.Error("panic",
				slog.String(telemetry.KeyRequest, w.Header().Get(headerRequestID)),
				slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
			if rec, ok := w.(*recorder); ok && rec.status != 0 {
				panic(http.ErrAbortHandler)
			}
			problem.Write(w, r, fmt.Errorf("panic: %v", v))
		}()
		next.ServeHTTP(w, r)
	})
}
