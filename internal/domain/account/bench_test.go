package account

import (
	"testing"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// BenchmarkAuthenticateCached measures the cost per request.
func BenchmarkAuthenticateCached(b *testing.B) {
	p := newProcess(sqldbtest.Open(b), Options{Cost: cheap})
	p.add(b, "ann", false)
	bearer := p.login(b, "ann").Secret
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.auth.Authenticate(b.Context(), bearer); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkHash measures the cost per login.
func BenchmarkHash(b *testing.B) {
	h := newHasher(DefaultCost)
	b.ReportAllocs()
	for b.Loop() {
		h.hash(secret)
	}
}
