package upload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const mib = int(drive.MiB)

// random returns n unique bytes.
func random(n int) []byte {
	data := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(rand.Int()), byte(rand.Int()), byte(rand.Int()), byte(rand.Int())})
	_, _ = src.Read(data)
	return data
}

func wantKind(t *testing.T, err error, kind drive.Kind) *drive.Error {
	t.Helper()
	var e *drive.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	return e
}

func TestUploadInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 2*mib - 1, 2 * mib, 2*mib + 1, 7*mib + 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{})
			who, data := s.Account(t, 0), random(size)
			v := s.Start(t, who, "/f", drive.ByteSize(size))
			if got := s.Balance(t, who); got != fmt.Sprintf("0/0/%d", size) {
				t.Errorf("after begin the ledger is %s", got)
			}
			s.SendAll(t, who, v, data)
			done, created, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
			if err != nil || !created || done.State != "done" {
				t.Fatalf("complete: %+v, %v, %v", done, created, err)
			}
			if !bytes.Equal(s.Read(t, who, "/f"), data) {
				t.Error("the file has other bytes")
			}
			if got := s.Balance(t, who); got != fmt.Sprintf("%d/0/0", size) {
				t.Errorf("at the end the ledger is %s", got)
			}
			if _, created, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil || created {
				t.Errorf("complete again: %v, %v", created, err)
			}
		})
	}
}

func TestQuietUploadIsParkedAndResumes(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 10*drive.MiB), random(7*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	if err := s.Send(t, who, v, 1, data); err != nil {
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, 31*time.Second)
	if got := s.Balance(t, who); got != fmt.Sprintf("0/%d/0", 2*mib) {
		t.Fatalf("after the idle time the ledger is %s", got)
	}
	got, err := s.Get(t.Context(), who, v.ID)
	if err != nil || got.State != "parked" || fmt.Sprint(got.Received) != "[[1 1]]" {
		t.Fatalf("parked upload: %+v, %v", got, err)
	}
	s.SendAll(t, who, v, data)
	if got := s.Balance(t, who); got != fmt.Sprintf("0/0/%d", 7*mib) {
		t.Fatalf("after the resume the ledger is %s", got)
	}
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
}

func TestAbandonedUploadRefundsEverything(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 10*drive.MiB), random(7*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	if err := s.Send(t, who, v, 0, data); err != nil {
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, 8*24*time.Hour)
	if got := s.Balance(t, who); got != "0/0/0" {
		t.Fatalf("the ledger is %s", got)
	}
	_, err := s.Get(t.Context(), who, v.ID)
	if e := wantKind(t, err, drive.Gone); e.Args["reason"] != upload.ReasonAbandoned {
		t.Errorf("reason %v", e.Args["reason"])
	}
	err = s.Local.Staging.ListStaged(t.Context(), func(x blob.Entry) error { return fmt.Errorf("%s is left", x.Path) })
	if err != nil {
		t.Error(err)
	}
}

func TestRestartInEveryState(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(7*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	if err := s.Send(t, who, v, 3, data); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if err := s.Send(t, who, v, 0, data); err != nil {
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, time.Minute)
	s.Restart(t)
	got, err := s.Get(t.Context(), who, v.ID)
	if err != nil || got.State != "parked" || fmt.Sprint(got.Received) != "[[0 0] [3 3]]" {
		t.Fatalf("after two restarts: %+v, %v", got, err)
	}
	s.SendAll(t, who, v, data)
	s.Restart(t)
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
}

func TestWholeFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		size  int
		known bool
	}{
		{"empty", 0, true},
		{"small", 10_000, true},
		{"one part", 2 * mib, true},
		{"larger", 5*mib + 3, true},
		{"small chunked", 10_000, false},
		{"larger chunked", 70*mib + 5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{})
			who, data := s.Account(t, 200*drive.MiB), random(c.size)
			p := upload.PutFile{Path: uploadtest.Path(t, "/a/b/f.txt"), Size: blob.UnknownSize, Parents: true}
			if c.known {
				p.Size = drive.ByteSize(c.size)
			}
			n, created, err := s.PutFile(t.Context(), who, p, bytes.NewReader(data))
			if err != nil || !created || n.Size != drive.ByteSize(c.size) {
				t.Fatalf("put: %+v, %v, %v", n, created, err)
			}
			if !bytes.Equal(s.Read(t, who, "/a/b/f.txt"), data) {
				t.Error("the file has other bytes")
			}
			n2, created, err := s.PutFile(t.Context(), who, p, bytes.NewReader(data))
			if err != nil || created || n2.ID != n.ID || n2.Version == n.Version {
				t.Fatalf("put again: %+v, %v, %v", n2, created, err)
			}
			if got := s.Balance(t, who); got != fmt.Sprintf("%d/0/0", 2*c.size) {
				t.Errorf("the ledger is %s", got)
			}
		})
	}
}

func TestCutWholeFileLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, size := range []drive.ByteSize{drive.MiB, 5 * drive.MiB, blob.UnknownSize} {
		s := uploadtest.New(t, uploadtest.Options{})
		who := s.Account(t, 0)
		body := io.MultiReader(bytes.NewReader(random(700_000)), failing{})
		_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: size}, body)
		if err == nil {
			t.Fatal("a cut body was accepted")
		}
		if got := s.Balance(t, who); got != "0/0/0" {
			t.Errorf("size %d: the ledger is %s", size, got)
		}
		none := func(x blob.Entry) error { return fmt.Errorf("%s is left", x.Path) }
		if err := errors.Join(s.Local.Staging.ListStaged(t.Context(), none), s.Local.Blobs.List(t.Context(), none)); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
