package upload_test

import (
	"io"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// silent is a body that yields some bytes and then blocks until it is closed.
type silent struct {
	left    int
	waits   chan struct{}
	closed  chan struct{}
	waiting sync.Once
	closing sync.Once
}

func (b *silent) Read(p []byte) (int, error) {
	if b.left > 0 {
		n := min(b.left, len(p))
		b.left -= n
		return n, nil
	}
	b.waiting.Do(func() { close(b.waits) })
	<-b.closed
	return 0, io.ErrUnexpectedEOF
}

func (b *silent) Close() error {
	b.closing.Do(func() { close(b.closed) })
	return nil
}

// Cancel of a large PUT does not wait for its client.
func TestCancelEndsHangingFile(t *testing.T) {
	t.Parallel()
	for _, size := range []drive.ByteSize{10 * drive.MiB, blob.UnknownSize} {
		s := uploadtest.New(t, uploadtest.Options{})
		who := s.Account(t, 0)
		body := &silent{left: int(9 * drive.MiB), waits: make(chan struct{}), closed: make(chan struct{})}
		var put sync.WaitGroup
		put.Go(func() {
			_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: size}, body)
			if err == nil {
				t.Error("a file was stored")
			}
		})
		<-body.waits
		var id drive.UploadID
		if err := s.DB.QueryRow(t.Context(), "SELECT id FROM uploads").Scan(&id); err != nil {
			t.Fatal(err)
		}
		if err := s.Cancel(t.Context(), who, id); err != nil {
			t.Error(err)
		}
		put.Wait()
		if got := s.Balance(t, who); got != "0/0/0" {
			t.Errorf("the balance is %s", got)
		}
	}
}
