package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
	"example.org/smartdrive/internal/testkit/depth"
)

const mib = 1 << 20

func TestPutSmallIsOneRequest(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	u := newUploader(t, s)
	content := randomBytes(1, 10_000)
	res, err := u.Put(t.Context(), newSource(t, content), "/new folder/ä #%?.bin", PutOptions{Parents: true})
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, s, "/new folder/ä #%?.bin", content)
	if res.State != StateSent || !res.Node.Mtime.Equal(mtime) {
		t.Errorf("state %s, mtime %s", res.State, res.Node.Mtime)
	}
	if n := s.CountRequests(func(string, string) bool { return true }); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestPutEmptyFile(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	res, err := newUploader(t, s).Put(t.Context(), newSource(t, nil), "/empty", PutOptions{})
	if err != nil || res.Node.Size != 0 || res.State != StateSent {
		t.Errorf("%+v, %v", res, err)
	}
}

// A lost reply must not cause a conflict with the own file, a second version or a second name.
func TestPutSmallLostReply(t *testing.T) {
	t.Parallel()
	for _, conflict := range []Conflict{Fail, Replace, Rename} {
		for _, fault := range []clienttest.Fault{clienttest.LoseReply, clienttest.TimeOut} {
			t.Run(fmt.Sprint(conflict, fault), func(t *testing.T) {
				t.Parallel()
				s := clienttest.New(t)
				s.Inject(once(1, fault, func(method, _ string) bool { return method == http.MethodPut }))
				content := randomBytes(2, 5000)
				res, err := newUploader(t, s).Put(t.Context(), newSource(t, content), "/f", PutOptions{Conflict: conflict})
				if err != nil || res.State != StateSent {
					t.Fatalf("%s, %v", res.State, err)
				}
				if _, versions := s.File("/f"); versions != 1 || len(s.Paths()) != 2 {
					t.Errorf("%d versions, paths %q", versions, s.Paths())
				}
			})
		}
	}
}

func TestPutConflicts(t *testing.T) {
	t.Parallel()
	for _, size := range []int{4000, 3*mib + 5} {
		content, other := randomBytes(3, size), randomBytes(4, size)
		for _, test := range []struct {
			conflict Conflict
			there    []byte
			want     string // state or code
			path     string
		}{
			{Fail, other, "name-taken", ""},
			{Fail, content, "skipped", "/f.bin"},
			{Replace, other, "sent", "/f.bin"},
			{Rename, other, "sent", "/f (2).bin"},
		} {
			t.Run(fmt.Sprint(size, test.conflict, test.want), func(t *testing.T) {
				t.Parallel()
				s := clienttest.New(t)
				s.Store("/f.bin", test.there, mtime)
				res, err := newUploader(t, s).Put(t.Context(), newSource(t, content), "/f.bin", PutOptions{Conflict: test.conflict})
				if got := string(res.State) + string(CodeOf(err)); got != test.want {
					t.Fatalf("%s, want %s: %v", got, test.want, err)
				}
				if err == nil {
					wantFile(t, s, test.path, content)
				} else {
					wantFile(t, s, "/f.bin", test.there)
				}
				if open := s.OpenUploads(); len(open) != 0 {
					t.Errorf("left open: %q", open)
				}
			})
		}
	}
}

// A large file whose mtime alone differs is hashed while parts are sent, and then its upload is
// cancelled.
func TestPutLargeSameContent(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(14, 4*mib)
	s.Store("/f", content, mtime.Add(time.Hour))
	u := newUploader(t, s)
	u.hashFirst = 0
	res, err := u.Put(t.Context(), newSource(t, content), "/f", PutOptions{Conflict: Replace, SkipSame: true})
	if err != nil || res.State != StateSkipped || res.Note != "same content" {
		t.Errorf("%s %s, %v", res.State, res.Note, err)
	}
	if _, versions := s.File("/f"); versions != 1 || len(s.OpenUploads()) != 0 {
		t.Errorf("%d versions, open %q", versions, s.OpenUploads())
	}
}

// A file with mtime 0, stored by the server as 1 ms, is not sent again.
func TestPutMtimeZero(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(15, 100)
	s.Store("/f", content, time.UnixMilli(1))
	src := newSource(t, content)
	src.Mtime = time.UnixMilli(0)
	res, err := newUploader(t, s).Put(t.Context(), src, "/f", PutOptions{Conflict: Replace, SkipSame: true})
	if err != nil || res.State != StateSkipped || res.Note != "same size and time" {
		t.Errorf("%s %s, %v", res.State, res.Note, err)
	}
}

// A single fault of any kind at any request of an upload leaves exactly one complete file.
func TestPutSurvivesEveryFaultAnywhere(t *testing.T) {
	t.Parallel()
	content := randomBytes(5, 5*mib+123)
	for fault := clienttest.LoseReply; fault <= clienttest.Stopping; fault++ {
		if fault == clienttest.TooLarge || fault == clienttest.CutReply {
			continue // has its own test; of no meaning here
		}
		for n := int64(1); n <= 9; n += int64(depth.Pick(4, 1, 1)) { // begin, 6 parts, complete, complete
			t.Run(fmt.Sprint(fault, n), func(t *testing.T) {
				t.Parallel()
				s := clienttest.New(t)
				s.Inject(once(n, fault, func(string, string) bool { return true }))
				u := newUploader(t, s)
				res, err := u.Put(t.Context(), newSource(t, content), "/a/f", PutOptions{Parents: true})
				if err != nil || res.State != StateSent {
					t.Fatalf("%s, %v", res.State, err)
				}
				wantFile(t, s, "/a/f", content)
				if _, versions := s.File("/a/f"); versions != 1 || len(s.OpenUploads()) != 0 {
					t.Errorf("%d versions, open %q", versions, s.OpenUploads())
				}
			})
		}
	}
}

func TestPutSurvivesFaultsEverywhere(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	faults := []clienttest.Fault{
		clienttest.LoseReply, clienttest.None, clienttest.CutBody, clienttest.Refuse, clienttest.None, clienttest.BadGateway,
		clienttest.TimeOut, clienttest.None, clienttest.Stopping,
	}
	var n atomic.Int64
	s.Inject(func(*http.Request) clienttest.Fault { return faults[n.Add(1)%int64(len(faults))] })
	content := randomBytes(6, 20*mib+1)
	u := newUploader(t, s)
	u.hashFirst = 0
	if _, err := u.Put(t.Context(), newSource(t, content), "/f", PutOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s, "/f", content)
}

func TestPutSurvivesRestart(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	down := make(chan struct{})
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isPart(r.Method, r.URL.Path) && strings.HasSuffix(r.URL.Path, "/4") {
			select {
			case <-down:
			default:
				close(down)
				return clienttest.LoseReply
			}
		}
		return clienttest.None
	})
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		<-down
		s.Stop()
		s.Start(t)
	}()
	content := randomBytes(7, 12*mib)
	if _, err := newUploader(t, s).Put(t.Context(), newSource(t, content), "/f", PutOptions{}); err != nil {
		t.Fatal(err)
	}
	<-restarted
	wantFile(t, s, "/f", content)
}

// interrupted uploads content and cancels once some parts have arrived.
func interrupted(t *testing.T, s *clienttest.Server, u *Uploader, src Source, parts int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen atomic.Int64
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isPart(r.Method, r.URL.Path) && seen.Add(1) > parts {
			cancel()
			return clienttest.Refuse
		}
		return clienttest.None
	})
	if _, err := u.Put(ctx, src, "/f", PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	s.Inject(nil)
}

func TestPutResumes(t *testing.T) {
	t.Parallel()
	for _, first := range []int64{0, hashFirstBytes} { // with the digest unknown and known at begin
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			content := randomBytes(8, 10*mib+1)
			src, u := newSource(t, content), newUploader(t, s)
			u.hashFirst = first
			interrupted(t, s, u, src, 6)
			missing := 11 - s.ReceivedParts()
			res, err := newUploader(t, s).Put(t.Context(), src, "/f", PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, s, "/f", content)
			if res.Moved > int64(missing)*mib || missing > 9 {
				t.Errorf("sent %d bytes for %d missing parts", res.Moved, missing)
			}
		})
	}
}

func TestPutResumeRepairsDamagedParts(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(9, 10*mib+1)
	src, u := newSource(t, content), newUploader(t, s)
	u.hashFirst = 0
	interrupted(t, s, u, src, 6)
	s.DamagePart(0)
	s.DamagePart(3)
	if _, err := u.Put(t.Context(), src, "/f", PutOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s, "/f", content)
}

// A part damaged after it was acknowledged is found by the file's digest and sent again.
func TestPutRepairsDamageBeforeSeal(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	damaged := atomic.Bool{}
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasSuffix(r.URL.Path, "/complete") && damaged.CompareAndSwap(false, true) {
			s.DamagePart(2)
		}
		return clienttest.None
	})
	content := randomBytes(10, 4*mib)
	if _, err := newUploader(t, s).Put(t.Context(), newSource(t, content), "/f", PutOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s, "/f", content)
}

func TestPutRestartsLostUpload(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	forgotten := atomic.Bool{}
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasSuffix(r.URL.Path, "/parts/3") && forgotten.CompareAndSwap(false, true) {
			s.DeleteUploads()
		}
		return clienttest.None
	})
	content := randomBytes(11, 6*mib)
	if _, err := newUploader(t, s).Put(t.Context(), newSource(t, content), "/f", PutOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s, "/f", content)
}

func TestPutInstant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		first int64
		fault clienttest.Fault
	}{
		{"claimed at begin", hashFirstBytes, clienttest.None},
		{"claimed in the middle", 0, clienttest.None},
		{"reply to the proof lost", hashFirstBytes, clienttest.TimeOut},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			content := randomBytes(12, 8*mib)
			s.MakeClaimable(content)
			hold := make(chan struct{})
			var proofs atomic.Int64
			s.Inject(func(r *http.Request) clienttest.Fault {
				switch {
				case isPart(r.Method, r.URL.Path):
					<-hold // the network is slow
				case strings.HasSuffix(r.URL.Path, "/proof"):
					if proofs.Add(1) == 1 {
						return test.fault
					}
				}
				return clienttest.None
			})
			defer close(hold) // parts that came after the proof might be faster than it
			u := newUploader(t, s)
			u.hashFirst, u.minClaim = test.first, 0
			var last Event
			res, err := u.Put(t.Context(), newSource(t, content), "/f", PutOptions{Progress: func(ev Event) { last = ev }})
			if err != nil || res.State != StateInstant || last.State != StateInstant || last.Bytes != last.Total {
				t.Fatalf("%s, %v, last event %+v", res.State, err, last)
			}
			wantFile(t, s, "/f", content)
		})
	}
}

func TestPutDetectsChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"grows":   func(path string) error { return os.WriteFile(path, randomBytes(1, 4*mib), 0o666) },
		"shrinks": func(path string) error { return os.Truncate(path, mib/2) },
		"touched": func(path string) error { return os.Chtimes(path, mtime, mtime.Add(time.Second)) },
	} {
		for _, size := range []int{mib, 3 * mib} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				t.Parallel()
				s := clienttest.New(t)
				path := writeFile(t, filepath.Join(t.TempDir(), "log"), randomBytes(2, size))
				src, err := FileSource(path)
				if err != nil {
					t.Fatal(err)
				}
				changed := atomic.Bool{}
				src.Open = func() (ReadAtCloser, error) {
					f, err := os.Open(path)
					if err == nil && changed.CompareAndSwap(false, true) {
						err = change(path)
					}
					return f, err
				}
				_, err = newUploader(t, s).Put(t.Context(), src, "/f", PutOptions{})
				if !errors.Is(err, ErrChanged) {
					t.Errorf("got %v", err)
				}
				if open := s.OpenUploads(); len(open) != 0 {
					t.Errorf("left open: %q", open)
				}
			})
		}
	}
}

func TestPutReportsProxyRefusal(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isPart(r.Method, r.URL.Path) {
			return clienttest.TooLarge
		}
		return clienttest.None
	})
	_, err := newUploader(t, s).Put(t.Context(), newSource(t, randomBytes(1, 3*mib)), "/f", PutOptions{})
	var proxy *ProxyError
	if !errors.As(err, &proxy) || proxy.Status != http.StatusRequestEntityTooLarge {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{"nginx/1.26.0", "client_max_body_size", "--part-size", "1048576"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

func TestPutGivesUp(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.Inject(func(*http.Request) clienttest.Fault { return clienttest.BadGateway })
	u, err := newClient(t, s).Uploader(UploadOptions{RetryFor: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var waited bool
	_, err = u.Put(t.Context(), newSource(t, []byte("x")), "/f", PutOptions{Progress: func(ev Event) {
		waited = waited || ev.State == StateWaiting && ev.Err != nil
	}})
	var proxy *ProxyError
	if !errors.Is(err, ErrRetriesExhausted) || !errors.As(err, &proxy) || !waited {
		t.Errorf("got %v, told of waiting: %v", err, waited)
	}
}

// A file is read in pieces and never held in memory.
func TestPutReadsInSmallPieces(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(13, 3*mib)
	src := newSource(t, content)
	open := src.Open
	var most atomic.Int64
	src.Open = func() (ReadAtCloser, error) {
		f, err := open()
		return &watched{f, &most}, err
	}
	if _, err := newUploader(t, s).Put(t.Context(), src, "/f", PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if most.Load() > mib/2 || most.Load() == 0 {
		t.Errorf("read %d bytes at once", most.Load())
	}
}

type watched struct {
	ReadAtCloser
	most *atomic.Int64
}

func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	for old := w.most.Load(); int64(len(p)) > old && !w.most.CompareAndSwap(old, int64(len(p))); old = w.most.Load() {
	}
	return w.ReadAtCloser.ReadAt(p, off)
}

var _ io.ReaderAt = (*watched)(nil)
