package tus_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/tus"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// slowSeal is a staging whose seals block until gate is closed.
type slowSeal struct {
	blob.Staging
	gate chan struct{}
}

func (s slowSeal) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	<-s.gate
	return s.Staging.Seal(ctx, ref, size)
}

// HEAD of a new final upload waits for the file, because a client takes a missing offset for an
// unfinished upload.
func TestHeadOfFinalUploadWaitsForFile(t *testing.T) {
	t.Parallel()
	slow := slowSeal{gate: make(chan struct{})}
	var asked atomic.Bool // HEAD is on its way: the seal goes on once it has read that the upload is being sealed
	s := uploadtest.New(t, uploadtest.Options{
		Staging: func(in blob.Staging) blob.Staging { slow.Staging = in; return slow },
		DB: sqldb.Options{Connector: func(dsn string) (driver.Connector, error) {
			return sqldbtest.Connect(dsn, func(call sqldbtest.Call, do func() error) error {
				err := do()
				if sqldbtest.Reads(dsn) && call == sqldbtest.Query && asked.Swap(false) {
					close(slow.gate)
				}
				return err
			})
		}},
	})
	who := s.Account(t, 0)
	head := tus.New(tus.Options{
		Uploads:      s.Sessions,
		Authenticate: func(*http.Request) (tus.Caller, func(), error) { return tus.Caller{Who: who}, func() {}, nil },
	})
	mux := http.NewServeMux()
	head.Register(mux)
	send := func(method, at, body string, header ...string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, at, bytes.NewReader([]byte(body)))
		r.Header.Set("Tus-Resumable", tus.Version)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, at, w.Code, w.Body)
		}
		return w.Result()
	}
	part := send("POST", "/tus/", "", "Upload-Concat", "partial", "Upload-Length", "5").Header.Get("Location")
	send("PATCH", part, "bytes", "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream")
	id, err := drive.ParseID[drive.UploadID](path.Base(part))
	if err != nil {
		t.Fatal(err)
	}
	final, err := s.Concat(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/f"), Protocol: upload.Tus}, []drive.UploadID{id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked.Store(true)
	got := send("HEAD", "/tus/"+final.ID.String(), "")
	if offset, length := got.Header.Get("Upload-Offset"), got.Header.Get("Upload-Length"); offset != "5" || length != "5" {
		t.Errorf("the offset is %q of %q", offset, length)
	}
}
