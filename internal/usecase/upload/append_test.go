package upload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// add appends b at offset; the test fails unless all of it is kept.
func add(t *testing.T, s *upload.Sessions, who drive.Who, id drive.UploadID, offset int, b []byte) {
	t.Helper()
	end, err := s.Append(t.Context(), who, id, upload.Append{Offset: drive.ByteSize(offset), Size: drive.ByteSize(len(b))}, bytes.NewReader(b))
	if err != nil || int(end) != offset+len(b) {
		t.Fatalf("append %d bytes at %d: %d, %v", len(b), offset, end, err)
	}
}

func wantOffset(t *testing.T, s *upload.Sessions, who drive.Who, id drive.UploadID, want int) upload.Position {
	t.Helper()
	p, err := s.Offset(t.Context(), who, id)
	if err != nil || int(p.Offset) != want {
		t.Fatalf("the offset is %d, %v, want %d", p.Offset, err, want)
	}
	return p
}

var errCut = errors.New("connection reset")

// cutAfter returns a reader that yields b and then fails.
func cutAfter(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b), errReader{}) }

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errCut }

// Appends of any size across fixed parts, with restarts between them, yield the file that was sent.
func TestAppendOfAnySize(t *testing.T) {
	t.Parallel()
	data := random(5*mib + 17)
	for _, step := range []int{1000, 300_000, 2 * mib, 2*mib + 1, 3 * mib, len(data)} {
		for _, size := range []drive.ByteSize{drive.ByteSize(len(data)), blob.UnknownSize} {
			t.Run(fmt.Sprint(step, size), func(t *testing.T) {
				t.Parallel()
				s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
				who := s.Account(t, 0)
				v := s.Start(t, who, "/f", size)
				for n, at := 0, 0; at < len(data); n, at = n+1, at+step {
					add(t, s.Sessions, who, v.ID, at, data[at:min(at+step, len(data))])
					if n == 2 {
						s.Restart(t)
						wantOffset(t, s.Sessions, who, v.ID, min(at+step, len(data)))
					}
				}
				if size == blob.UnknownSize {
					if err := s.DeclareSize(t.Context(), who, v.ID, drive.ByteSize(len(data))); err != nil {
						t.Fatal(err)
					}
				}
				s.CheckLedger(t, who)
				wantOffset(t, s.Sessions, who, v.ID, len(data))
				done, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Digests: blake(data)})
				if err != nil || done.State != "done" {
					t.Fatalf("complete: %s, %v", done.State, err)
				}
				if !bytes.Equal(s.Read(t, who, "/f"), data) {
					t.Error("the file has other bytes")
				}
				if p := wantOffset(t, s.Sessions, who, v.ID, len(data)); p.State != upload.Done || p.Node.IsZero() {
					t.Errorf("of a done upload: %+v", p)
				}
				checkClean(t, s, who)
			})
		}
	}
}

// The received bytes of a broken body are kept, also across parts and after kill -9.
func TestCutAppendKeepsReceivedBytes(t *testing.T) {
	t.Parallel()
	for _, came := range []int{0, 1, 4096, 2 * mib, 2*mib + 1, 5 * mib} {
		t.Run(fmt.Sprint(came), func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
			who, data := s.Account(t, 0), random(6*mib)
			v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
			for at, size := range []drive.ByteSize{drive.ByteSize(len(data)), blob.UnknownSize, drive.ByteSize(len(data))} {
				if at > 0 && came > 2*mib {
					break
				}
				a := upload.Append{Offset: drive.ByteSize(at * came), Size: size}
				if size > 0 {
					a.Size -= a.Offset
				}
				end, err := s.Append(t.Context(), who, v.ID, a, cutAfter(data[at*came:(at+1)*came]))
				if e := wantKind(t, err, drive.BadRequest); e.Args["reason"] != "cut" || int(end) != (at+1)*came {
					t.Fatalf("offset %d, %v", end, err)
				}
				wantOffset(t, s.Sessions, who, v.ID, (at+1)*came)
				s.Restart(t)
				wantOffset(t, s.Sessions, who, v.ID, (at+1)*came)
			}
			at := int(wantAny(t, s, who, v).Offset)
			add(t, s.Sessions, who, v.ID, at, data[at:])
			complete(t, s, who, v)
			if !bytes.Equal(s.Read(t, who, "/f"), data) {
				t.Error("the file has other bytes")
			}
			checkClean(t, s, who)
		})
	}
}

func wantAny(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) upload.Position {
	t.Helper()
	p, err := s.Offset(t.Context(), who, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An append stops at a part that was received before; the client continues after it.
func TestAppendStopsAtReceivedPart(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(5*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	add(t, s.Sessions, who, v.ID, 0, data[:4*mib])
	if err := s.DeletePart(t.Context(), who, v.ID, 0); err != nil {
		t.Fatal(err)
	}
	wantOffset(t, s.Sessions, who, v.ID, 0)
	end, err := s.Append(t.Context(), who, v.ID, upload.Append{Size: drive.ByteSize(len(data))}, bytes.NewReader(data))
	if wantKind(t, err, drive.OffsetMismatch); end != 4*drive.MiB {
		t.Errorf("it ends at %d, and the upload holds %d", end, 4*drive.MiB)
	}
	wantOffset(t, s.Sessions, who, v.ID, 4*mib)
	add(t, s.Sessions, who, v.ID, 4*mib, data[4*mib:])
	complete(t, s, who, v)
	checkClean(t, s, who)
}

func TestRefusedAppendChangesNothing(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	add(t, s.Sessions, who, v.ID, 0, data[:mib])
	for name, c := range map[string]struct {
		a    upload.Append
		kind drive.Kind
		who  drive.Who
	}{
		"before":   {upload.Append{Offset: drive.MiB - 1, Size: 10}, drive.OffsetMismatch, who},
		"behind":   {upload.Append{Offset: drive.MiB + 1, Size: 10}, drive.OffsetMismatch, who},
		"too long": {upload.Append{Offset: drive.MiB, Size: 2*drive.MiB + 1}, drive.TooLarge, who},
		"stranger": {upload.Append{Offset: drive.MiB, Size: 10}, drive.NotFound, s.Account(t, 0)},
	} {
		_, err := s.Append(t.Context(), c.who, v.ID, c.a, unread{t})
		if !drive.IsKind(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	end, err := s.Append(t.Context(), who, v.ID, upload.Append{Offset: drive.MiB, Size: blob.UnknownSize}, bytes.NewReader(append(bytes.Clone(data[mib:]), 'x')))
	if wantKind(t, err, drive.TooLarge); end != 3*drive.MiB {
		t.Errorf("a chunked body that is too long leaves %d", end)
	}
	complete(t, s, who, v)
	_, err = s.Append(t.Context(), who, v.ID, upload.Append{Offset: 3 * drive.MiB, Size: 0}, unread{t})
	wantKind(t, err, drive.WrongState)
	_, err = s.Append(t.Context(), who, drive.NewID[drive.UploadID](), upload.Append{}, unread{t})
	wantKind(t, err, drive.NotFound)
	checkClean(t, s, who)
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("a byte was read of a body that is refused")
	return 0, io.EOF
}

// A body with a digest counts only once it is complete: before that, a crash or another request
// drops it.
func TestVerifiedAppendOfAnyLength(t *testing.T) {
	t.Parallel()
	const size = 40 * mib
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who, data := s.Account(t, 0), random(size)
	v := s.Start(t, who, "/f", drive.ByteSize(size))
	add(t, s.Sessions, who, v.ID, 0, data[:1000])
	a := func() upload.Append {
		return upload.Append{Offset: 1000, Size: drive.ByteSize(size - 1000), Verify: verifierOf(t, data[1000:])}
	}
	for _, end := range []string{"head", "kill"} {
		reached, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		hangs := &hangingBody{Reader: bytes.NewReader(data[1000 : size-5]), reached: reached, leave: leave}
		go func() {
			_, err := s.Append(t.Context(), who, v.ID, a(), hangs)
			done <- err
		}()
		<-reached
		if end == "kill" {
			s.Restart(t)
			wantOffset(t, s.Sessions, who, v.ID, 1000)
			_ = hangs.Close()
			<-done
			continue
		}
		wantOffset(t, s.Sessions, who, v.ID, 1000) // ends it
		if err := <-done; !drive.IsKind(err, drive.InProgress) {
			t.Errorf("%s: %v", end, err)
		}
	}
	s.CheckLedger(t, who)
	if end, err := s.Append(t.Context(), who, v.ID, a(), bytes.NewReader(data[1000:])); err != nil || int(end) != size {
		t.Fatalf("%d, %v", end, err)
	}
	s.Restart(t)
	wantOffset(t, s.Sessions, who, v.ID, size)
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
}

// After a crash at any call of a verified append, either the whole body or a verified prefix
// counts.
func TestVerifiedAppendCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, open := range underFate {
		for _, how := range []uploadtest.Effect{uploadtest.Die, uploadtest.DieAfter, uploadtest.LoseReply, uploadtest.Fail} {
			t.Run(fmt.Sprint(name, how), func(t *testing.T) {
				t.Parallel()
				s, fate, left := open(t)
				who, data := s.Account(t, 0), random(3*mib+5)
				for n, came := 1, true; came && !t.Failed(); n += depth.Pick(9, 3, 1) {
					v := s.Start(t, who, fmt.Sprintf("/f%d", n), drive.ByteSize(len(data)))
					add(t, s.Sessions, who, v.ID, 0, data[:1000])
					fate.Set(uploadtest.Rule{N: n, Effect: how})
					_, _ = s.Append(t.Context(), who, v.ID, upload.Append{Offset: 1000, Size: -1, Verify: verifierOf(t, data[1000:])}, bytes.NewReader(data[1000:]))
					came = fate.Clear()
					if how == uploadtest.Die || how == uploadtest.DieAfter {
						s.Restart(t)
					}
					pos := wantAny(t, left, who, v)
					if at := int(pos.Offset); at != 1000 && at%mib != 0 && at != len(data) {
						t.Errorf("call %d: offset %d", n, at)
					}
					if int(pos.Offset) < len(data) {
						add(t, left.Sessions, who, v.ID, int(pos.Offset), data[pos.Offset:])
					}
					if _, _, err := left.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					left.Settle()
					if !bytes.Equal(left.Read(t, who, fmt.Sprintf("/f%d", n)), data) {
						t.Errorf("call %d: other bytes", n)
					}
					left.CheckLedger(t, who)
				}
			})
		}
	}
}

// hangingBody signals when all of it was read, and then blocks.
type hangingBody struct {
	io.Reader
	reached, leave chan struct{}
	once           sync.Once
}

func (b *hangingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		close(b.reached)
		<-b.leave
		return n, errors.New("the connection is gone")
	}
	return n, err
}

func (b *hangingBody) Close() error {
	b.once.Do(func() { close(b.leave) })
	return nil
}

func verifierOf(t *testing.T, b []byte) *digest.Verifier {
	t.Helper()
	sum := sha256.Sum256(b)
	declared, err := digest.ParseContentDigest("sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":")
	if err != nil {
		t.Fatal(err)
	}
	return digest.NewVerifier(declared)
}

// A body with a digest counts as a whole or not at all, however many parts it spans.
func TestVerifiedAppendIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(5*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	add(t, s.Sessions, who, v.ID, 0, data[:1000])
	rest := data[1000:]
	for name, c := range map[string]struct {
		sum  []byte
		body io.Reader
		kind drive.Kind
	}{
		"wrong": {data, bytes.NewReader(rest), drive.DigestMismatch},
		"cut":   {rest, cutAfter(rest[:3*mib]), drive.BadRequest},
		"short": {rest, bytes.NewReader(rest[:3*mib]), drive.BadRequest},
	} {
		a := upload.Append{Offset: 1000, Size: drive.ByteSize(len(rest)), Verify: verifierOf(t, c.sum)}
		end, err := s.Append(t.Context(), who, v.ID, a, c.body)
		if !drive.IsKind(err, c.kind) || end != 1000 {
			t.Errorf("%s: %d, %v", name, end, err)
		}
		wantOffset(t, s.Sessions, who, v.ID, 1000)
	}
	for _, size := range []drive.ByteSize{2 * drive.MiB, blob.UnknownSize} {
		at := wantAny(t, s, who, v).Offset
		b := data[at:min(int(at)+2*mib, len(data))]
		if size == blob.UnknownSize {
			b = data[at:]
		}
		end, err := s.Append(t.Context(), who, v.ID, upload.Append{Offset: at, Size: size, Verify: verifierOf(t, b)}, bytes.NewReader(b))
		if err != nil || end != at+drive.ByteSize(len(b)) {
			t.Fatalf("%d, %v", end, err)
		}
	}
	complete(t, s, who, v)
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, who)
}

// hanging yields b and then blocks until it is closed.
type hanging struct {
	b       *bytes.Reader
	reached chan struct{}
	closed  chan struct{}
	at      bool
}

func hang(b []byte) *hanging {
	return &hanging{b: bytes.NewReader(b), reached: make(chan struct{}), closed: make(chan struct{})}
}

func (h *hanging) Read(p []byte) (int, error) {
	if n, _ := h.b.Read(p); n > 0 {
		return n, nil
	}
	if !h.at {
		h.at = true
		close(h.reached)
	}
	<-h.closed
	return 0, errors.New("closed")
}

func (h *hanging) Close() error {
	close(h.closed)
	return nil
}

// A new request at once interrupts an append whose client has vanished; the received bytes are
// kept.
func TestNextRequestInterruptsAppend(t *testing.T) {
	t.Parallel()
	data := random(3 * mib)
	for name, next := range map[string]func(*testing.T, *uploadtest.Site, drive.Who, upload.View){
		"offset": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			wantOffset(t, s.Sessions, who, v.ID, 2*mib+5000)
		},
		"append": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			add(t, s.Sessions, who, v.ID, 2*mib+5000, data[2*mib+5000:])
		},
		"complete": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
			wantKind(t, err, drive.PartsMissing)
		},
		"cancel": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			if err := s.Cancel(t.Context(), who, v.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{})
			who := s.Account(t, 0)
			v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
			dead, ended := hang(data[:2*mib+5000]), make(chan error, 1)
			go func() {
				_, err := s.Append(t.Context(), who, v.ID, upload.Append{Size: 3 * drive.MiB}, dead)
				ended <- err
			}()
			<-dead.reached
			next(t, s, who, v)
			if err := <-ended; !drive.IsKind(err, drive.InProgress) {
				t.Errorf("the dead request ends with %v", err)
			}
			if name == "offset" {
				add(t, s.Sessions, who, v.ID, 2*mib+5000, data[2*mib+5000:])
			}
			if name == "offset" || name == "append" {
				complete(t, s, who, v)
				if !bytes.Equal(s.Read(t, who, "/f"), data) {
					t.Error("the file has other bytes")
				}
			}
			if name != "complete" {
				checkClean(t, s, who)
			}
		})
	}
}

// Appends to an upload of unknown length are charged as bytes arrive and stop at the quota; bytes
// that fit are kept.
func TestAppendOfUnknownLengthStopsAtTheQuota(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who := s.Account(t, 70*drive.MiB)
	v := s.Start(t, who, "/f", blob.UnknownSize)
	end, err := s.Append(t.Context(), who, v.ID, upload.Append{Size: blob.UnknownSize}, io.LimitReader(zeros{}, 80<<20))
	if wantKind(t, err, drive.Quota); end > 70*drive.MiB || end < 69*drive.MiB {
		t.Errorf("%s are kept of a quota of 70 MiB", end)
	}
	wantOffset(t, s.Sessions, who, v.ID, int(end))
	s.CheckLedger(t, who)
	s.AdvanceAndFire(t, time.Minute)
	wantState(t, s, v, "parked")
	wantOffset(t, s.Sessions, who, v.ID, int(end))
	s.CheckLedger(t, who)
	if err := s.DeclareSize(t.Context(), who, v.ID, end-1); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a length that is less than what is there: %v", err)
	}
	for range 2 {
		if err := s.DeclareSize(t.Context(), who, v.ID, end); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeclareSize(t.Context(), who, v.ID, end+1); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("another length: %v", err)
	}
	if got := s.Balance(t, who); got != fmt.Sprintf("0/0/%d", int64(end)) {
		t.Errorf("the ledger is %s", got)
	}
	complete(t, s, who, v)
	checkClean(t, s, who)
}

// A partial upload is charged and reclaimed like any other, and has no place in the tree.
func TestPartialUpload(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	b := upload.Begin{Size: drive.ByteSize(len(data)), Kind: upload.Partial, Protocol: upload.Tus, Metadata: "filename Zg=="}
	v, err := s.Begin(t.Context(), who, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s.Sessions, who, v.ID, 0, data[:2*mib+1])
	s.Restart(t)
	p := wantOffset(t, s.Sessions, who, v.ID, 2*mib+1)
	if p.Kind != upload.Partial || p.Protocol != upload.Tus || p.Metadata != b.Metadata || p.Size != b.Size {
		t.Errorf("position %+v", p)
	}
	if _, err := s.Patch(t.Context(), who, v.ID, upload.Patch{Name: "g"}); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("patch: %v", err)
	}
	add(t, s.Sessions, who, v.ID, 2*mib+1, data[2*mib+1:])
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("complete: %v", err)
	}
	s.AdvanceAndFire(t, time.Minute)
	if got := s.Balance(t, who); got != fmt.Sprintf("0/%d/0", len(data)) {
		t.Errorf("parked, the ledger is %s", got)
	}
	s.AdvanceAndFire(t, 8*24*time.Hour)
	wantState(t, s, v, "gone")
	checkClean(t, s, who)
}
