package upload_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkSmallFiles stores files of 10 KiB of one account, 16 at a time.
func BenchmarkSmallFiles(b *testing.B) {
	s := uploadtest.New(b, uploadtest.Options{})
	who := s.Account(b, 0)
	var next atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		body := random(10 << 10)
		for pb.Next() {
			n := next.Add(1)
			binary.LittleEndian.PutUint64(body, uint64(n))
			p := upload.PutFile{Path: uploadtest.Path(b, fmt.Sprintf("/%d/%d", n/1000, n)), Size: 10 << 10, Parents: true}
			if _, _, err := s.PutFile(context.Background(), who, p, bytes.NewReader(body)); err != nil {
				b.Error(err)
			}
		}
	})
	stats := s.DB.Stats()
	b.ReportMetric(float64(b.N)/float64(stats.Writes.Load()), "files/transaction")
	b.ReportMetric(float64(stats.Writes.Load())/float64(stats.Commits.Load()), "transactions/commit")
}
