package rest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkBatch stores a batch of 250 files of 10 KiB, each with content of its own.
func BenchmarkBatch(b *testing.B) {
	const files, size = 250, 10 << 10
	u := newStack(b, uploadtest.Options{}).newUser(b, "ann", drive.TiB)
	content, no := bytes.Repeat([]byte("x"), size), uint64(0)
	for b.Loop() {
		var body bytes.Buffer
		for range files {
			fmt.Fprintf(&body, `{"op":"put","path":"/%d/%d","size":%d,"parents":true}`+"\n", no/1000, no, size)
			binary.LittleEndian.PutUint64(content, no)
			body.Write(content)
			no++
		}
		if got := u.send(b, "POST", "/batch", body.Bytes(), "Content-Type", batchType); got.StatusCode != 200 {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/file")
}
