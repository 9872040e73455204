package rest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkBatch stores batches of 250 files of 10 KiB with distinct content.
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

// BenchmarkSingles stores files of 10 KiB with distinct content by single requests, 16
// concurrently.
func BenchmarkSingles(b *testing.B) {
	const size = 10 << 10
	u := newStack(b, uploadtest.Options{}).newUser(b, "ann", drive.TiB)
	srv := httptest.NewServer(u.server)
	b.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	b.Cleanup(client.CloseIdleConnections)
	var next atomic.Uint64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		content := bytes.Repeat([]byte("x"), size)
		for pb.Next() {
			no := next.Add(1)
			binary.LittleEndian.PutUint64(content, no)
			req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s/api/v1/files/%d/%d?parents=true", srv.URL, no/1000, no), bytes.NewReader(content))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+u.token)
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Error(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusCreated {
				b.Error(resp.Status)
				return
			}
		}
	})
}
