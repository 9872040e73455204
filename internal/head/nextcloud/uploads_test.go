package nextcloud_test

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/test/process"
)

const staged = "/remote.php/dav/uploads/ann/"

// read returns a file of ann's.
func (s *stack) read(t *testing.T, path string) string {
	t.Helper()
	return s.Do(t, "GET "+home+path).Want(t, 200).Body
}

func TestChunksOfUnequalSizeBecomeAFile(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first, second, third := strings.Repeat("a", 9<<20), strings.Repeat("b", 100), strings.Repeat("c", 8<<20+1)
	to := "Destination: https://drive.example.org" + home + "large.bin"
	s.Do(t, "MKCOL "+staged+"t1", to, "OC-Total-Length: 17825893").Want(t, 201)
	s.Do(t, "MKCOL "+staged+"t1", to, "OC-Total-Length: 17825893").Want(t, 405) // it is there
	s.Do(t, "PUT "+staged+"t1/00001", to, "", first).Want(t, 201)
	s.Do(t, "PUT "+staged+"t1/00001", to, "", first).Want(t, 201)
	s.Do(t, "PUT "+staged+"t1/00002", to, "", second).Want(t, 201)
	seen := s.Do(t, "PROPFIND "+staged+"t1", "Depth: 1").Want(t, 207).Has(t, staged+"t1/00001<", staged+"t1/00002<")
	if strings.Contains(seen.Body, "00003") {
		t.Error(seen.Body)
	}
	s.Do(t, "MOVE "+staged+"t1/.file", to, "OC-Total-Length: 17825893").Want(t, 400) // not all of it has come
	s.Do(t, "GET "+home+"large.bin").Want(t, 404)
	s.Do(t, "PUT "+staged+"t1/00003", to, "", third).Want(t, 201)
	made := s.Do(t, "MOVE "+staged+"t1/.file", to, "OC-Total-Length: 17825893", "X-OC-Mtime: 1000000001").Want(t, 201)
	if made.Header.Get("X-OC-Mtime") != "accepted" || made.Exact("OC-FileId") == "" || made.Exact("OC-ETag") == "" {
		t.Errorf("%v", made.Header)
	}
	if got := s.read(t, "large.bin"); got != first+second+third {
		t.Errorf("%d bytes of another content", len(got))
	}
	s.Do(t, "PROPFIND "+home+"large.bin", "Depth: 0").Want(t, 207).Has(t, "Sun, 09 Sep 2001 01:46:41 GMT")
	s.Do(t, "PROPFIND "+staged+"t1", "Depth: 1").Want(t, 404)
	s.CheckLedger(t, s.Who)
}

// Chunks that come before their time wait for those before them (N3).
func TestChunksInAnyOrder(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.Do(t, "MKCOL "+staged+"t2", to).Want(t, 201)
	var all sync.WaitGroup
	for _, n := range []string{"3", "2", "1"} {
		all.Go(func() {
			if got := s.Do(t, "PUT "+staged+"t2/"+n, to, "", strings.Repeat(n, 1000)); got.Status != http.StatusCreated {
				t.Errorf("chunk %s: %d %s", n, got.Status, got.Body)
			}
		})
	}
	all.Wait()
	s.Do(t, "MOVE "+staged+"t2/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("1", 1000)+strings.Repeat("2", 1000)+strings.Repeat("3", 1000) {
		t.Error("the chunks are in another order")
	}
}

// A chunk was refused because the one before it was missing. A MOVE without the file's size does
// not create a file from the stored chunks, because it would be incomplete.
func TestRefusedChunkPreventsIncompleteFile(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.early = time.Millisecond
	s.wire()
	to := "Destination: " + home + "f"
	for _, names := range [][3]string{{"00001", "00002", "00003"}, {"0-3", "3-6", "6-9"}} {
		s.Do(t, "MKCOL "+staged+"gap", to).Want(t, 201)
		s.Do(t, "PUT "+staged+"gap/"+names[0], to, "", "one").Want(t, 201)
		s.Do(t, "PUT "+staged+"gap/"+names[2], to, "", "six").Want(t, 503)
		s.Do(t, "MOVE "+staged+"gap/.file", to).Want(t, 400)
		s.Do(t, "PUT "+staged+"gap/"+names[1], to, "", "two").Want(t, 201)
		s.restart(t)
		s.Do(t, "MOVE "+staged+"gap/.file", to).Want(t, 400)
		s.Do(t, "PUT "+staged+"gap/"+names[2], to, "", "six").Want(t, 201)
		s.Do(t, "MOVE "+staged+"gap/.file", to, "X-OC-Mtime: -100")
		if got := s.read(t, "f"); got != "onetwosix" {
			t.Errorf("%q", got)
		}
	}
}

// A chunk waits for earlier ones as long as their bytes arrive, however slowly.
func TestChunksWaitForRunningChunk(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.early = 3 * time.Second
	s.wire()
	to := "Destination: " + home + "f"
	for _, id := range []string{"slow", "gap"} {
		s.Do(t, "MKCOL "+staged+id, to).Want(t, 201)
	}
	var all sync.WaitGroup
	send := func(n string, body io.Reader) {
		have := s.head.Waiting(s.Who.User, "slow")
		all.Go(func() {
			if got := s.Send(t, "PUT "+staged+"slow/"+n, http.Header{"Destination": {home + "f"}}, body); got.Status != http.StatusCreated {
				t.Errorf("chunk %s: %d %s", n, got.Status, got.Body)
			}
		})
		process.Eventually(t, time.Minute, "the chunk has come", func() error {
			if now := s.head.Waiting(s.Who.User, "slow"); now <= have {
				return fmt.Errorf("%d have", now)
			}
			return nil
		})
	}
	in, out := io.Pipe()
	send("1", in)
	if _, err := out.Write([]byte("1")); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"5", "4", "3", "2"} {
		send(n, strings.NewReader(n))
	}
	s.Do(t, "PUT "+staged+"gap/2", to, "", "two").Want(t, 503) // so those of the other have waited as long
	_ = out.Close()
	all.Wait()
	s.Do(t, "MOVE "+staged+"slow/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != "12345" {
		t.Errorf("%q", got)
	}
}

// A Destination on another host is refused.
func TestChunksForAnotherServer(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL "+staged+"x", "Destination: https://other.example"+home+"f").Want(t, 502)
	s.Do(t, "MKCOL "+staged+"x").Want(t, 201)
	s.Do(t, "PUT "+staged+"x/1", "", "one").Want(t, 201)
	s.Do(t, "MOVE "+staged+"x/.file", "Destination: https://other.example"+home+"f").Want(t, 502)
	s.Do(t, "GET "+home+"f").Want(t, 404)
	s.Do(t, "MOVE "+staged+"x/.file", "Destination: https://drive.example.org"+home+"f").Want(t, 201)
}

// A client that numbers its chunks from 0, as older ones do, and sends several at a time: chunk 1
// waits for chunk 0. One that numbers them from 1 and does not say so waits for a moment, once.
func TestChunksFromZeroAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.zero = time.Hour
	s.wire()
	s.Do(t, "MKCOL "+staged+"old").Want(t, 201)
	var all sync.WaitGroup
	for i, n := range []string{"2", "1", "0"} {
		all.Go(func() {
			if got := s.Do(t, "PUT "+staged+"old/"+n, "", strings.Repeat(n, 1000)); got.Status != http.StatusCreated {
				t.Errorf("chunk %s: %d %s", n, got.Status, got.Body)
			}
		})
		if n != "0" {
			process.Eventually(t, time.Minute, "the chunk has come", func() error {
				if have := s.head.Waiting(s.Who.User, "old"); have <= i {
					return fmt.Errorf("%d have", have)
				}
				return nil
			})
		}
	}
	all.Wait()
	to := "Destination: " + home + "f"
	s.Do(t, "MOVE "+staged+"old/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("0", 1000)+strings.Repeat("1", 1000)+strings.Repeat("2", 1000) {
		t.Error("the chunks are in another order")
	}
	s.zero = time.Millisecond
	s.wire()
	s.Do(t, "MKCOL "+staged+"one").Want(t, 201)
	s.Do(t, "PUT "+staged+"one/1", "", "one").Want(t, 201)
	s.Do(t, "PUT "+staged+"one/2", "", "two").Want(t, 201)
	s.Do(t, "MOVE "+staged+"one/.file", to).Want(t, 204)
	if got := s.read(t, "f"); got != "onetwo" {
		t.Errorf("%q", got)
	}
	s.CheckLedger(t, s.Who)
}

// Clients of ownCloud name a chunk by where it begins, and send several at a time.
func TestChunksNamedByOffset(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	const size = 12_000
	s.Do(t, "MKCOL "+staged+"own").Want(t, 201)
	var all sync.WaitGroup
	for i, text := range []string{"2", "1", "0"} {
		all.Go(func() {
			if got := s.Do(t, fmt.Sprintf("PUT %sown/%016d", staged, (2-i)*size), "", strings.Repeat(text, size)); got.Status != http.StatusCreated {
				t.Errorf("chunk %s: %d %s", text, got.Status, got.Body)
			}
		})
	}
	all.Wait()
	again := fmt.Sprintf("PUT %sown/%016d", staged, size)
	s.Do(t, again, "", strings.Repeat("1", size)).Want(t, 201)
	if got := s.Do(t, again, "", strings.Repeat("x", size)); got.Status < 400 {
		t.Errorf("another content for a chunk that has come: %d", got.Status)
	}
	s.Do(t, "MOVE "+staged+"own/.file", "Destination: "+home+"f", fmt.Sprintf("OC-Total-Length: %d", 3*size)).Want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("0", size)+strings.Repeat("1", size)+strings.Repeat("2", size) {
		t.Error("the chunks are in another order")
	}
	s.CheckLedger(t, s.Who)
}

// broken is a body that ends in the middle.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// An interrupted chunk is discarded; the file consists of the complete chunks. The same holds for a
// client that names the destination only at the end and chunks by their range (version 1).
func TestInterruptedChunkLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT "+home+"f", "", "what was there").Want(t, 201)
	was := s.Do(t, "GET "+home+"f").Want(t, 200).Header.Get("ETag")
	s.Do(t, "MKCOL "+staged+"t3").Want(t, 201)
	half := s.Send(t, "PUT "+staged+"t3/000000000000000-000000000000010", http.Header{}, broken{strings.NewReader("01234")})
	if half.Status < 400 {
		t.Fatalf("%d", half.Status)
	}
	s.Do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"f").Want(t, 400)
	s.Do(t, "PUT "+staged+"t3/000000000000000-000000000000010", "", "0123456789").Want(t, 201)
	s.Do(t, "PUT "+staged+"t3/000000000000010-000000000000015", "", "abcde").Want(t, 201)
	s.Do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"f", `If: <`+home+`f> (["b3-other"])`).Want(t, 412)
	s.Do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"nowhere/f").Want(t, 409)
	s.Do(t, "MOVE "+staged+"t3/.file", "Destination: /remote.php/dav/files/bob/f").Want(t, 404)
	if got := s.read(t, "f"); got != "what was there" {
		t.Errorf("%q", got)
	}
	s.Do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"f", `If: <`+home+`f> ([`+was+`])`).Want(t, 204)
	if got := s.read(t, "f"); got != "0123456789abcde" {
		t.Errorf("%q", got)
	}
	s.CheckLedger(t, s.Who)
}

// The process dies after a chunk is stored and before its number is recorded. The client, which got
// no response, sends it again.
func TestUnrecordedChunkIsMatched(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.Do(t, "MKCOL "+staged+"t4", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"t4/1", to, "", "one ").Want(t, 201)
	all, err := s.List(t.Context(), upload.ListQuery{Account: s.Who.Account, Limit: 10, Open: true})
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	noted, err := upload.Metadata(t.Context(), s.Sessions, s.Who, all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "PUT "+staged+"t4/2", to, "", "two ").Want(t, 201)
	if err := upload.SetMetadata(t.Context(), s.Sessions, s.Who, all[0].ID, noted); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	s.Do(t, "PUT "+staged+"t4/2", to, "", "two ").Want(t, 201)
	s.Do(t, "PUT "+staged+"t4/3", to, "", "three").Want(t, 201)
	s.Do(t, "MOVE "+staged+"t4/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != "one two three" {
		t.Errorf("%q", got)
	}
}

// A chunk that cannot become part of the file is refused rather than discarded.
func TestChunkIsNeverDiscarded(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.Do(t, "MKCOL "+staged+"a", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"a/00001", "", "BBBB").Want(t, 201)
	s.Do(t, "PUT "+staged+"a/00000", "", "AAAA").Want(t, 409)
	s.Do(t, "PUT "+staged+"a/00001", "", "BBBB").Want(t, 201)
	s.Do(t, "PUT "+staged+"a/00001", "", "bbbb").Want(t, 409)
	s.Do(t, "PUT "+staged+"a/00002", "", "CC").Want(t, 201)
	s.Do(t, "PUT "+staged+"a/00001", "", "bbbb").Want(t, 409)
	s.Do(t, "PUT "+staged+"a/00001", "", "BBB").Want(t, 409)
	s.Do(t, "PUT "+staged+"a/000000000000006-000000000000010", "", "dddd").Want(t, 409) // named in another way
	s.Do(t, "PUT "+staged+"a/00003").Want(t, http.StatusLengthRequired)
	s.Do(t, "MOVE "+staged+"a/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != "BBBBCC" {
		t.Errorf("%q", got)
	}

	// The client dies, its file changes, and it takes the same name for another transfer.
	s.Do(t, "MKCOL "+staged+"b", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"b/1", "", "AAAA").Want(t, 201)
	s.restart(t)
	s.Do(t, "MKCOL "+staged+"b", to).Want(t, 405)
	s.Do(t, "PUT "+staged+"b/1", "", "BBBB").Want(t, 409)
	s.Do(t, "DELETE "+staged+"b").Want(t, 204)
	s.Do(t, "MKCOL "+staged+"b", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"b/1", "", "BBBB").Want(t, 201)
	s.Do(t, "MOVE "+staged+"b/.file", to).Want(t, 204)
	if got := s.read(t, "f"); got != "BBBB" {
		t.Errorf("%q", got)
	}

	// Chunks that are named by their bytes.
	s.Do(t, "MKCOL "+staged+"c").Want(t, 201)
	s.Do(t, "PUT "+staged+"c/000000000000000-000000000000004", "", "AAAA").Want(t, 201)
	s.Do(t, "PUT "+staged+"c/000000000000000-000000000000004", "", "AAAA").Want(t, 201)
	s.Do(t, "PUT "+staged+"c/000000000000000-000000000000004", "", "BBBB").Want(t, 409)
	s.Do(t, "PUT "+staged+"c/000000000000002-000000000000006", "", "BBBB").Want(t, 409)
	s.Do(t, "PUT "+staged+"c/000000000000004-000000000000006", "", "CC").Want(t, 201)
	s.Do(t, "MOVE "+staged+"c/.file", to).Want(t, 204)
	if got := s.read(t, "f"); got != "AAAACC" {
		t.Errorf("%q", got)
	}
	s.CheckLedger(t, s.Who)
}

// With more chunks than checksums are kept, old chunks are refused, and the stored state stays
// within its limit.
func TestManyChunks(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.Do(t, "MKCOL "+staged+"m", to).Want(t, 201)
	for n := range 70 {
		s.Do(t, fmt.Sprintf("PUT %sm/%d", staged, n+1), "", "x").Want(t, 201)
	}
	s.Do(t, "PUT "+staged+"m/70", "", "x").Want(t, 201)
	s.Do(t, "PUT "+staged+"m/7", "", "x").Want(t, 201)
	s.Do(t, "PUT "+staged+"m/6", "", "x").Want(t, 409)
	s.Do(t, "MOVE "+staged+"m/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("x", 70) {
		t.Errorf("%q", got)
	}
}

// After a crash between a chunk and its record, a repeated older chunk is not mistaken for the
// unrecorded one.
func TestOlderChunkAfterUnrecordedChunk(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.Do(t, "MKCOL "+staged+"t", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"t/1", "", "one ").Want(t, 201)
	all, err := s.List(t.Context(), upload.ListQuery{Account: s.Who.Account, Limit: 10, Open: true})
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	before, err := upload.Metadata(t.Context(), s.Sessions, s.Who, all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "PUT "+staged+"t/2", "", "two ").Want(t, 201)
	if err := upload.SetMetadata(t.Context(), s.Sessions, s.Who, all[0].ID, before); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	s.Do(t, "PUT "+staged+"t/1", "", "one ").Want(t, 201)
	s.Do(t, "PUT "+staged+"t/2", "", "two ").Want(t, 201)
	s.Do(t, "MOVE "+staged+"t/.file", to).Want(t, 201)
	if got := s.read(t, "f"); got != "one two " {
		t.Errorf("%q", got)
	}
}

// A file becomes visible only if its content matches OC-Checksum.
func TestDeclaredChecksums(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	sha1Of := func(text string) string { return fmt.Sprintf("OC-Checksum: SHA1:%x", sha1.Sum([]byte(text))) }
	md5Of := func(text string) string { return fmt.Sprintf("OC-Checksum: MD5:%X", md5.Sum([]byte(text))) }
	sha256Of := func(text string) string { return fmt.Sprintf("OC-Checksum: SHA256:%x", sha256.Sum256([]byte(text))) }
	large := strings.Repeat("large", 2<<20)
	for _, sum := range []func(string) string{sha1Of, md5Of, sha256Of} {
		s.Do(t, "PUT "+home+"f", sum("other"), "", "text").Want(t, 422)
		s.Do(t, "PUT "+home+"f", sum("other"), "", large).Want(t, 422)
		s.Send(t, "PUT "+home+"f", http.Header{"Oc-Checksum": {strings.TrimPrefix(sum("other"), "OC-Checksum: ")}}, struct{ io.Reader }{strings.NewReader("text")}).Want(t, 422)
		s.Do(t, "GET "+home+"f").Want(t, 404)
		s.Do(t, "PUT "+home+"f", sum("text"), "", "text").Want(t, 201)
		s.Do(t, "PUT "+home+"f", sum(large), "", large).Want(t, 204)
		s.Do(t, "DELETE "+home+"f").Want(t, 204)
	}
	s.Do(t, "PUT "+home+"f", sha1Of(""), "Content-Length: 0", "", "").Want(t, 201)
	s.Do(t, "PUT "+home+"f", sha1Of("x"), "Content-Length: 0", "", "").Want(t, 422)
	s.Do(t, "PUT "+home+"f", "OC-Checksum: Adler32:00000001", "", "text").Want(t, 204)
	s.Do(t, "PUT "+home+"f", "OC-Checksum: MD5:00", "", "text").Want(t, 400)
	s.Do(t, "DELETE "+home+"f").Want(t, 204)

	to := "Destination: " + home + "f"
	s.Do(t, "MKCOL "+staged+"s", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"s/1", sha1Of("two"), "", "one").Want(t, 422)
	s.Do(t, "PUT "+staged+"s/1", sha1Of("one"), "", "one").Want(t, 201)
	s.Do(t, "PUT "+staged+"s/1", sha1Of("two"), "", "one").Want(t, 422) // again
	s.Do(t, "PUT "+staged+"s/2", sha256Of("two"), "", "two").Want(t, 201)
	s.Do(t, "MOVE "+staged+"s/.file", to, sha1Of("onetwo")).Want(t, 201)
	if got := s.read(t, "f"); got != "onetwo" {
		t.Errorf("%q", got)
	}
	for i, sum := range []func(string) string{md5Of, sha256Of} {
		id := fmt.Sprint("v", i)
		s.Do(t, "MKCOL "+staged+id, to).Want(t, 201)
		s.Do(t, "PUT "+staged+id+"/1", "", "three").Want(t, 201)
		s.Do(t, "MOVE "+staged+id+"/.file", to, sum("four")).Want(t, 422)
		if got := s.read(t, "f"); got != "onetwo" {
			t.Errorf("%q", got)
		}
		id += "again"
		s.Do(t, "MKCOL "+staged+id, to).Want(t, 201)
		s.Do(t, "PUT "+staged+id+"/1", "", "three").Want(t, 201)
		s.Do(t, "MOVE "+staged+id+"/.file", to, sum("three")).Want(t, 204)
		s.Do(t, "PUT "+home+"f", "", "onetwo").Want(t, 204)
	}
	s.CheckLedger(t, s.Who)
}

func TestTransferIsCanceled(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL "+staged+"t5", "Destination: "+home+"f", "OC-Total-Length: 5").Want(t, 201)
	s.Do(t, "PUT "+staged+"t5/1", "", "12").Want(t, 201)
	s.Do(t, "DELETE "+staged+"t5").Want(t, 204)
	s.Do(t, "PUT "+staged+"t5/2", "", "345").Want(t, 404)
	s.Do(t, "MOVE "+staged+"t5/.file", "Destination: "+home+"f").Want(t, 404)
	s.Do(t, "GET "+home+"f").Want(t, 404)
	s.SetTotal(t, s.Who, 10*drive.KiB)
	s.Do(t, "MKCOL "+staged+"t6", "Destination: "+home+"f", "OC-Total-Length: 99999").Want(t, http.StatusInsufficientStorage)
	s.Do(t, "MKCOL "+staged+"t6", "Destination: "+home+"nowhere/f").Want(t, 409)
	s.CheckLedger(t, s.Who)
}

const exclusive = `<d:lockinfo xmlns:d="DAV:"><d:lockscope><d:exclusive/></d:lockscope><d:locktype><d:write/></d:locktype></d:lockinfo>`

// A node locked by another program cannot be replaced, moved or deleted through this head without
// the lock token, nor by chunks.
func TestLocksApply(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL "+home+"d").Want(t, 201)
	s.Do(t, "PUT "+home+"d/f", "", "what was there").Want(t, 201)
	to := "Destination: " + home + "d/f"
	s.Do(t, "MKCOL "+staged+"t7", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"t7/1", to, "", "chunks").Want(t, 201)
	token := s.Do(t, "LOCK "+home+"d/f", "", exclusive).Want(t, 200).Header.Get("Lock-Token")
	s.Do(t, "PUT "+home+"d/f", "", "other").Want(t, http.StatusLocked)
	s.Do(t, "DELETE "+home+"d/f").Want(t, http.StatusLocked)
	s.Do(t, "DELETE "+home+"d").Want(t, http.StatusLocked)
	s.Do(t, "MOVE "+home+"d/f", "Destination: "+home+"g").Want(t, http.StatusLocked)
	s.Do(t, "MOVE "+staged+"t7/.file", to).Want(t, http.StatusLocked)
	if got := s.read(t, "d/f"); got != "what was there" {
		t.Errorf("%q", got)
	}
	s.Do(t, "MOVE "+staged+"t7/.file", to, "If: <"+home+"d/f> ("+token+")").Want(t, 204)
	if got := s.read(t, "d/f"); got != "chunks" {
		t.Errorf("%q", got)
	}

	s.Do(t, "UNLOCK "+home+"d/f", "Lock-Token: "+token).Want(t, 204)
	s.Do(t, "MKCOL "+staged+"t8", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"t8/1", to, "", "more").Want(t, 201)
	s.lockByOther(t, "d/f")
	s.Do(t, "PUT "+home+"d/g", "", "mine").Want(t, 201)
	s.Do(t, "PUT "+home+"d/f", "", "other").Want(t, http.StatusLocked)
	s.Do(t, "MOVE "+staged+"t8/.file", to).Want(t, http.StatusLocked)
	if got := s.read(t, "d/f"); got != "chunks" {
		t.Errorf("%q", got)
	}
	s.Do(t, "MOVE "+staged+"t8/.file", "Destination: "+home+"d/g", "Overwrite: F").Want(t, http.StatusPreconditionFailed)
	if got := s.read(t, "d/g"); got != "mine" {
		t.Errorf("%q", got)
	}
	s.Do(t, "MKCOL "+home+"e").Want(t, 201)
	s.Do(t, "MOVE "+staged+"t8/.file", "Destination: "+home+"e").Want(t, http.StatusMethodNotAllowed) // a folder
	s.Do(t, "MOVE "+staged+"t8/.file", "Destination: "+home+"h").Want(t, 201)
	s.CheckLedger(t, s.Who)
}

// lockByOther locks a file for an editor.
func (s *stack) lockByOther(t *testing.T, path string) {
	t.Helper()
	at, err := drive.ParsePath("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	n := s.must(t)(s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: at}))
	user := s.Editor(t, s.Who.Account, n.ID)
	err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := lock.Rules{Now: s.Clock.Now}.Acquire(ctx, tx, lock.Lock{
			Account: s.Who.Account, Node: n.ID, User: user, Exclusive: true, Timeout: time.Hour,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
