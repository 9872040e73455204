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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload"
	"smartdrive/test/process"
)

const staged = "/remote.php/dav/uploads/ann/"

// read returns a file of ann's.
func (s *stack) read(t *testing.T, path string) string {
	t.Helper()
	return s.do(t, "GET "+home+path).want(t, 200).body
}

func TestChunksOfUnequalSizeBecomeAFile(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first, second, third := strings.Repeat("a", 9<<20), strings.Repeat("b", 100), strings.Repeat("c", 8<<20+1)
	to := "Destination: https://drive.example.org" + home + "large.bin"
	s.do(t, "MKCOL "+staged+"t1", to, "OC-Total-Length: 17825893").want(t, 201)
	s.do(t, "MKCOL "+staged+"t1", to, "OC-Total-Length: 17825893").want(t, 405) // it is there
	s.do(t, "PUT "+staged+"t1/00001", to, "", first).want(t, 201)
	s.do(t, "PUT "+staged+"t1/00001", to, "", first).want(t, 201)
	s.do(t, "PUT "+staged+"t1/00002", to, "", second).want(t, 201)
	seen := s.do(t, "PROPFIND "+staged+"t1", "Depth: 1").want(t, 207).has(t, staged+"t1/00001<", staged+"t1/00002<")
	if strings.Contains(seen.body, "00003") {
		t.Error(seen.body)
	}
	s.do(t, "MOVE "+staged+"t1/.file", to, "OC-Total-Length: 17825893").want(t, 400) // not all of it has come
	s.do(t, "GET "+home+"large.bin").want(t, 404)
	s.do(t, "PUT "+staged+"t1/00003", to, "", third).want(t, 201)
	made := s.do(t, "MOVE "+staged+"t1/.file", to, "OC-Total-Length: 17825893", "X-OC-Mtime: 1000000001").want(t, 201)
	if made.header.Get("X-OC-Mtime") != "accepted" || made.exact("OC-FileId") == "" || made.exact("OC-ETag") == "" {
		t.Errorf("%v", made.header)
	}
	if got := s.read(t, "large.bin"); got != first+second+third {
		t.Errorf("%d bytes of another content", len(got))
	}
	s.do(t, "PROPFIND "+home+"large.bin", "Depth: 0").want(t, 207).has(t, "Sun, 09 Sep 2001 01:46:41 GMT")
	s.do(t, "PROPFIND "+staged+"t1", "Depth: 1").want(t, 404)
	s.CheckLedger(t, s.who)
}

// Chunks that come before their time wait for those before them (N3).
func TestChunksInAnyOrder(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.do(t, "MKCOL "+staged+"t2", to).want(t, 201)
	var all sync.WaitGroup
	for _, n := range []string{"3", "2", "1"} {
		all.Go(func() {
			if got := s.do(t, "PUT "+staged+"t2/"+n, to, "", strings.Repeat(n, 1000)); got.status != http.StatusCreated {
				t.Errorf("chunk %s: %d %s", n, got.status, got.body)
			}
		})
	}
	all.Wait()
	s.do(t, "MOVE "+staged+"t2/.file", to).want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("1", 1000)+strings.Repeat("2", 1000)+strings.Repeat("3", 1000) {
		t.Error("the chunks are in another order")
	}
}

// A client that numbers its chunks from 0, as older ones do, and sends several at a time: chunk 1
// waits for chunk 0. One that numbers them from 1 and does not say so waits for a moment, once.
func TestChunksFromZeroAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.zero = time.Hour
	s.wire()
	s.do(t, "MKCOL "+staged+"old").want(t, 201)
	var all sync.WaitGroup
	for i, n := range []string{"2", "1", "0"} {
		all.Go(func() {
			if got := s.do(t, "PUT "+staged+"old/"+n, "", strings.Repeat(n, 1000)); got.status != http.StatusCreated {
				t.Errorf("chunk %s: %d %s", n, got.status, got.body)
			}
		})
		if n != "0" {
			process.Eventually(t, time.Minute, "the chunk has come", func() error {
				if have := s.head.Waiting(s.who.User, "old"); have <= i {
					return fmt.Errorf("%d have", have)
				}
				return nil
			})
		}
	}
	all.Wait()
	to := "Destination: " + home + "f"
	s.do(t, "MOVE "+staged+"old/.file", to).want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("0", 1000)+strings.Repeat("1", 1000)+strings.Repeat("2", 1000) {
		t.Error("the chunks are in another order")
	}
	s.zero = time.Millisecond
	s.wire()
	s.do(t, "MKCOL "+staged+"one").want(t, 201)
	s.do(t, "PUT "+staged+"one/1", "", "one").want(t, 201)
	s.do(t, "PUT "+staged+"one/2", "", "two").want(t, 201)
	s.do(t, "MOVE "+staged+"one/.file", to).want(t, 204)
	if got := s.read(t, "f"); got != "onetwo" {
		t.Errorf("%q", got)
	}
	s.CheckLedger(t, s.who)
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

// A chunk that breaks off has not come; the file is what the whole chunks are. A client that says
// no place before the end, and names chunks by their range (version 1), does the same.
func TestABrokenChunkLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "PUT "+home+"f", "", "what was there").want(t, 201)
	was := s.do(t, "GET "+home+"f").want(t, 200).header.Get("ETag")
	s.do(t, "MKCOL "+staged+"t3").want(t, 201)
	half := s.send(t, "PUT "+staged+"t3/000000000000000-000000000000010", http.Header{}, broken{strings.NewReader("01234")})
	if half.status < 400 {
		t.Fatalf("%d", half.status)
	}
	s.do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"f").want(t, 400)
	s.do(t, "PUT "+staged+"t3/000000000000000-000000000000010", "", "0123456789").want(t, 201)
	s.do(t, "PUT "+staged+"t3/000000000000010-000000000000015", "", "abcde").want(t, 201)
	s.do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"f", `If: <`+home+`f> (["b3-other"])`).want(t, 412)
	s.do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"nowhere/f").want(t, 409)
	s.do(t, "MOVE "+staged+"t3/.file", "Destination: /remote.php/dav/files/bob/f").want(t, 404)
	if got := s.read(t, "f"); got != "what was there" {
		t.Errorf("%q", got)
	}
	s.do(t, "MOVE "+staged+"t3/.file", "Destination: "+home+"f", `If: <`+home+`f> ([`+was+`])`).want(t, 204)
	if got := s.read(t, "f"); got != "0123456789abcde" {
		t.Errorf("%q", got)
	}
	s.CheckLedger(t, s.who)
}

// The process dies after a chunk has come and before its number is noted; the client, which had no
// answer, sends it again.
func TestAChunkThatWasNotNoted(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.do(t, "MKCOL "+staged+"t4", to).want(t, 201)
	s.do(t, "PUT "+staged+"t4/1", to, "", "one ").want(t, 201)
	all, err := s.List(t.Context(), upload.ListQuery{Account: s.who.Account, Limit: 10, Open: true})
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	noted, err := upload.Metadata(t.Context(), s.Sessions, s.who, all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	s.do(t, "PUT "+staged+"t4/2", to, "", "two ").want(t, 201)
	if err := upload.SetMetadata(t.Context(), s.Sessions, s.who, all[0].ID, noted); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	s.do(t, "PUT "+staged+"t4/2", to, "", "two ").want(t, 201)
	s.do(t, "PUT "+staged+"t4/3", to, "", "three").want(t, 201)
	s.do(t, "MOVE "+staged+"t4/.file", to).want(t, 201)
	if got := s.read(t, "f"); got != "one two three" {
		t.Errorf("%q", got)
	}
}

// A chunk that the file cannot be made of is refused, not thrown away.
func TestAChunkIsNeverThrownAway(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.do(t, "MKCOL "+staged+"a", to).want(t, 201)
	s.do(t, "PUT "+staged+"a/00001", "", "BBBB").want(t, 201)
	s.do(t, "PUT "+staged+"a/00000", "", "AAAA").want(t, 409)
	s.do(t, "PUT "+staged+"a/00001", "", "BBBB").want(t, 201)
	s.do(t, "PUT "+staged+"a/00001", "", "bbbb").want(t, 409)
	s.do(t, "PUT "+staged+"a/00002", "", "CC").want(t, 201)
	s.do(t, "PUT "+staged+"a/00001", "", "bbbb").want(t, 409)
	s.do(t, "PUT "+staged+"a/00001", "", "BBB").want(t, 409)
	s.do(t, "PUT "+staged+"a/000000000000006-000000000000010", "", "dddd").want(t, 409) // named in another way
	s.do(t, "PUT "+staged+"a/00003").want(t, http.StatusLengthRequired)
	s.do(t, "MOVE "+staged+"a/.file", to).want(t, 201)
	if got := s.read(t, "f"); got != "BBBBCC" {
		t.Errorf("%q", got)
	}

	// The client dies, its file changes, and it takes the same name for another transfer.
	s.do(t, "MKCOL "+staged+"b", to).want(t, 201)
	s.do(t, "PUT "+staged+"b/1", "", "AAAA").want(t, 201)
	s.restart(t)
	s.do(t, "MKCOL "+staged+"b", to).want(t, 405)
	s.do(t, "PUT "+staged+"b/1", "", "BBBB").want(t, 409)
	s.do(t, "DELETE "+staged+"b").want(t, 204)
	s.do(t, "MKCOL "+staged+"b", to).want(t, 201)
	s.do(t, "PUT "+staged+"b/1", "", "BBBB").want(t, 201)
	s.do(t, "MOVE "+staged+"b/.file", to).want(t, 204)
	if got := s.read(t, "f"); got != "BBBB" {
		t.Errorf("%q", got)
	}

	// Chunks that are named by their bytes.
	s.do(t, "MKCOL "+staged+"c").want(t, 201)
	s.do(t, "PUT "+staged+"c/000000000000000-000000000000004", "", "AAAA").want(t, 201)
	s.do(t, "PUT "+staged+"c/000000000000000-000000000000004", "", "AAAA").want(t, 201)
	s.do(t, "PUT "+staged+"c/000000000000000-000000000000004", "", "BBBB").want(t, 409)
	s.do(t, "PUT "+staged+"c/000000000000002-000000000000006", "", "BBBB").want(t, 409)
	s.do(t, "PUT "+staged+"c/000000000000004-000000000000006", "", "CC").want(t, 201)
	s.do(t, "MOVE "+staged+"c/.file", to).want(t, 204)
	if got := s.read(t, "f"); got != "AAAACC" {
		t.Errorf("%q", got)
	}
	s.CheckLedger(t, s.who)
}

// More chunks than sums are kept of: the old ones are refused, and what is kept has room.
func TestManyChunks(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.do(t, "MKCOL "+staged+"m", to).want(t, 201)
	for n := range 70 {
		s.do(t, fmt.Sprintf("PUT %sm/%d", staged, n+1), "", "x").want(t, 201)
	}
	s.do(t, "PUT "+staged+"m/70", "", "x").want(t, 201)
	s.do(t, "PUT "+staged+"m/7", "", "x").want(t, 201)
	s.do(t, "PUT "+staged+"m/6", "", "x").want(t, 409)
	s.do(t, "MOVE "+staged+"m/.file", to).want(t, 201)
	if got := s.read(t, "f"); got != strings.Repeat("x", 70) {
		t.Errorf("%q", got)
	}
}

// After a crash behind a chunk and before its note, an older chunk that comes again is not taken
// for the one that is not noted.
func TestAnOlderChunkAfterOneThatWasNotNoted(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	to := "Destination: " + home + "f"
	s.do(t, "MKCOL "+staged+"t", to).want(t, 201)
	s.do(t, "PUT "+staged+"t/1", "", "one ").want(t, 201)
	all, err := s.List(t.Context(), upload.ListQuery{Account: s.who.Account, Limit: 10, Open: true})
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	before, err := upload.Metadata(t.Context(), s.Sessions, s.who, all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	s.do(t, "PUT "+staged+"t/2", "", "two ").want(t, 201)
	if err := upload.SetMetadata(t.Context(), s.Sessions, s.who, all[0].ID, before); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	s.do(t, "PUT "+staged+"t/1", "", "one ").want(t, 201)
	s.do(t, "PUT "+staged+"t/2", "", "two ").want(t, 201)
	s.do(t, "MOVE "+staged+"t/.file", to).want(t, 201)
	if got := s.read(t, "f"); got != "one two " {
		t.Errorf("%q", got)
	}
}

// What a client declares with OC-Checksum is what becomes visible, or nothing does.
func TestDeclaredChecksums(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	sha1Of := func(text string) string { return fmt.Sprintf("OC-Checksum: SHA1:%x", sha1.Sum([]byte(text))) }
	md5Of := func(text string) string { return fmt.Sprintf("OC-Checksum: MD5:%X", md5.Sum([]byte(text))) }
	sha256Of := func(text string) string { return fmt.Sprintf("OC-Checksum: SHA256:%x", sha256.Sum256([]byte(text))) }
	large := strings.Repeat("large", 2<<20)
	for _, sum := range []func(string) string{sha1Of, md5Of, sha256Of} {
		s.do(t, "PUT "+home+"f", sum("other"), "", "text").want(t, 422)
		s.do(t, "PUT "+home+"f", sum("other"), "", large).want(t, 422)
		s.send(t, "PUT "+home+"f", http.Header{"Oc-Checksum": {strings.TrimPrefix(sum("other"), "OC-Checksum: ")}}, struct{ io.Reader }{strings.NewReader("text")}).want(t, 422)
		s.do(t, "GET "+home+"f").want(t, 404)
		s.do(t, "PUT "+home+"f", sum("text"), "", "text").want(t, 201)
		s.do(t, "PUT "+home+"f", sum(large), "", large).want(t, 204)
		s.do(t, "DELETE "+home+"f").want(t, 204)
	}
	s.do(t, "PUT "+home+"f", sha1Of(""), "Content-Length: 0", "", "").want(t, 201)
	s.do(t, "PUT "+home+"f", sha1Of("x"), "Content-Length: 0", "", "").want(t, 422)
	s.do(t, "PUT "+home+"f", "OC-Checksum: Adler32:00000001", "", "text").want(t, 204)
	s.do(t, "PUT "+home+"f", "OC-Checksum: MD5:00", "", "text").want(t, 400)
	s.do(t, "DELETE "+home+"f").want(t, 204)

	to := "Destination: " + home + "f"
	s.do(t, "MKCOL "+staged+"s", to).want(t, 201)
	s.do(t, "PUT "+staged+"s/1", sha1Of("two"), "", "one").want(t, 422)
	s.do(t, "PUT "+staged+"s/1", sha1Of("one"), "", "one").want(t, 201)
	s.do(t, "PUT "+staged+"s/1", sha1Of("two"), "", "one").want(t, 422) // again
	s.do(t, "PUT "+staged+"s/2", sha256Of("two"), "", "two").want(t, 201)
	s.do(t, "MOVE "+staged+"s/.file", to, sha1Of("onetwo")).want(t, 201)
	if got := s.read(t, "f"); got != "onetwo" {
		t.Errorf("%q", got)
	}
	for i, sum := range []func(string) string{md5Of, sha256Of} {
		id := fmt.Sprint("v", i)
		s.do(t, "MKCOL "+staged+id, to).want(t, 201)
		s.do(t, "PUT "+staged+id+"/1", "", "three").want(t, 201)
		s.do(t, "MOVE "+staged+id+"/.file", to, sum("four")).want(t, 422)
		if got := s.read(t, "f"); got != "onetwo" {
			t.Errorf("%q", got)
		}
		id += "again"
		s.do(t, "MKCOL "+staged+id, to).want(t, 201)
		s.do(t, "PUT "+staged+id+"/1", "", "three").want(t, 201)
		s.do(t, "MOVE "+staged+id+"/.file", to, sum("three")).want(t, 204)
		s.do(t, "PUT "+home+"f", "", "onetwo").want(t, 204)
	}
	s.CheckLedger(t, s.who)
}

func TestATransferIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "MKCOL "+staged+"t5", "Destination: "+home+"f", "OC-Total-Length: 5").want(t, 201)
	s.do(t, "PUT "+staged+"t5/1", "", "12").want(t, 201)
	s.do(t, "DELETE "+staged+"t5").want(t, 204)
	s.do(t, "PUT "+staged+"t5/2", "", "345").want(t, 404)
	s.do(t, "MOVE "+staged+"t5/.file", "Destination: "+home+"f").want(t, 404)
	s.do(t, "GET "+home+"f").want(t, 404)
	s.SetTotal(t, s.who, 10*drive.KiB)
	s.do(t, "MKCOL "+staged+"t6", "Destination: "+home+"f", "OC-Total-Length: 99999").want(t, http.StatusInsufficientStorage)
	s.do(t, "MKCOL "+staged+"t6", "Destination: "+home+"nowhere/f").want(t, 409)
	s.CheckLedger(t, s.who)
}

const exclusive = `<d:lockinfo xmlns:d="DAV:"><d:lockscope><d:exclusive/></d:lockscope><d:locktype><d:write/></d:locktype></d:lockinfo>`

// What a program has locked nobody replaces, moves or deletes by this head without its token, nor
// by chunks.
func TestLocksHoldHere(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "MKCOL "+home+"d").want(t, 201)
	s.do(t, "PUT "+home+"d/f", "", "what was there").want(t, 201)
	to := "Destination: " + home + "d/f"
	s.do(t, "MKCOL "+staged+"t7", to).want(t, 201)
	s.do(t, "PUT "+staged+"t7/1", to, "", "chunks").want(t, 201)
	token := s.do(t, "LOCK "+home+"d/f", "", exclusive).want(t, 200).header.Get("Lock-Token")
	s.do(t, "PUT "+home+"d/f", "", "other").want(t, http.StatusLocked)
	s.do(t, "DELETE "+home+"d/f").want(t, http.StatusLocked)
	s.do(t, "DELETE "+home+"d").want(t, http.StatusLocked)
	s.do(t, "MOVE "+home+"d/f", "Destination: "+home+"g").want(t, http.StatusLocked)
	s.do(t, "MOVE "+staged+"t7/.file", to).want(t, http.StatusLocked)
	if got := s.read(t, "d/f"); got != "what was there" {
		t.Errorf("%q", got)
	}
	s.do(t, "MOVE "+staged+"t7/.file", to, "If: <"+home+"d/f> ("+token+")").want(t, 204)
	if got := s.read(t, "d/f"); got != "chunks" {
		t.Errorf("%q", got)
	}

	s.do(t, "UNLOCK "+home+"d/f", "Lock-Token: "+token).want(t, 204)
	s.do(t, "MKCOL "+staged+"t8", to).want(t, 201)
	s.do(t, "PUT "+staged+"t8/1", to, "", "more").want(t, 201)
	s.lockAs(t, "d/f", drive.NewID[drive.UserID]())
	s.do(t, "PUT "+home+"d/f", "", "other").want(t, http.StatusLocked)
	s.do(t, "MOVE "+staged+"t8/.file", to).want(t, http.StatusLocked)
	if got := s.read(t, "d/f"); got != "chunks" {
		t.Errorf("%q", got)
	}
	s.do(t, "MKCOL "+home+"e").want(t, 201)
	s.do(t, "MOVE "+staged+"t8/.file", "Destination: "+home+"e").want(t, http.StatusMethodNotAllowed) // a folder
	s.do(t, "MOVE "+staged+"t8/.file", "Destination: "+home+"h").want(t, 201)
	s.CheckLedger(t, s.who)
}

// lockAs locks a file for somebody.
func (s *stack) lockAs(t *testing.T, path string, user drive.UserID) {
	t.Helper()
	at, err := drive.ParsePath("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	n := s.must(t)(s.files.GetByPath(t.Context(), s.who, drive.Address{Path: at}))
	err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := lock.Take(ctx, tx, drive.TimeOf(s.Clock.Now()), lock.Lock{
			Account: s.who.Account, Node: n.ID, User: user, Exclusive: true, Lasts: time.Hour,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
