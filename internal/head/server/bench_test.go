package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// BenchmarkPart compares a part of 8 MiB through all middleware with the bare handler.
func BenchmarkPart(b *testing.B) {
	take := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, drive.MiB))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /part", take)
	for name, h := range map[string]http.Handler{"bare": http.HandlerFunc(take), "served": New(Options{Routes: mux})} {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewServer(h)
			defer s.Close()
			b.SetBytes(8 << 20)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPut, s.URL+"/part", io.LimitReader(zeros{}, 8<<20))
				if err != nil {
					b.Fatal(err)
				}
				req.ContentLength = 8 << 20
				resp, err := s.Client().Do(req)
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
	b.Run("chain only", func(b *testing.B) {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /x/{id}", func(http.ResponseWriter, *http.Request) {})
		s := New(Options{Routes: mux})
		r := httptest.NewRequest(http.MethodGet, "/x/1", nil)
		b.ReportAllocs()
		for b.Loop() {
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
}
