package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/client"
	"example.org/smartdrive/client/clienttest"
)

func shaOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func status(t *testing.T, w *fixture) Status {
	t.Helper()
	s, err := ReadStatus(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompleteFilesAreSent(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "inv-1.xml", "<Invoice/>")
	w.drop(t, "inv-1.pdf", "%PDF")
	w.drop(t, "2026/10/all.ndjson", "{}\n\n{}\n{}")
	w.drop(t, "report.xlsx.part", "half")
	w.drop(t, ".hidden", "x")
	synctest.Test(t, func(t *testing.T) {
		for range 2 { // the second has nothing to do, and remembers
			if err := w.once(t, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	equal(t, "contents", w.contents(t), []string{"all.ndjson={}\n\n{}\n{}", "inv-1.pdf=%PDF", "inv-1.xml=<Invoice/>"})
	for _, m := range w.sealed(t) {
		if m.Declared() != 4 || m.Source != "acme" {
			t.Errorf("%d documents of %q are declared", m.Declared(), m.Source)
		}
	}
	equal(t, "sent", w.below(t, sentDir, 2), []string{"2026/10/all.ndjson", "inv-1.pdf", "inv-1.xml"})
	equal(t, "left", w.left(t), []string{".hidden", "report.xlsx.part"})
	s := status(t, w)
	if s.Running || s.Totals != (Totals{Bundles: 1, Files: 3, Documents: 4, Bytes: 23}) || len(s.Bundles) != 1 || s.Bundles[0].Outcome != Sent || s.Contact.IsZero() {
		t.Errorf("status %+v", s)
	}
}

func TestGrowingFileIsNotSent(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		w.drop(t, "other.xml", "<a/>")
		text := ""
		for range 100 { // always a bit more, every 9 seconds, for longer than anything waits
			text += "<line/>"
			w.drop(t, "slow.xml", text)
			time.Sleep(9 * time.Second)
		}
		equal(t, "while it was written", w.contents(t), []string{"other.xml=<a/>"})
		time.Sleep(6 * time.Minute)
		equal(t, "when it was complete", w.contents(t), []string{"other.xml=<a/>", "slow.xml=" + text})
		stop()
	})
	equal(t, "left", w.left(t), []string(nil))
}

// The agent crashes at each step, alone and with each kind of request's reply lost in the run
// before.
func TestCrashNeitherRepeatsNorLoses(t *testing.T) {
	t.Parallel()
	steps := 0
	for crashAt(t, steps) {
		steps++
	}
	if steps < 15 {
		t.Errorf("%d steps only: the seams are gone", steps)
	}
}

func crashAt(t *testing.T, n int) (crashed bool) {
	t.Helper()
	w := newFixture(t)
	w.opt.Parallel = 1 // so that the steps have an order
	w.drop(t, "a.xml", "<a/>")
	w.drop(t, "a.pdf", "A")
	w.drop(t, "b/b.xml", "<b/>")
	synctest.Test(t, func(t *testing.T) {
		count, where := 0, ""
		err := w.once(t, func(step string) bool {
			count++
			where = step
			return count == n+1
		})
		crashed = errors.Is(err, errCrash)
		if err != nil && !crashed {
			t.Fatal(err)
		}
		if err := w.once(t, nil); err != nil {
			t.Fatalf("after a crash at %s: %v", where, err)
		}
		equal(t, "contents after a crash at "+where, w.contents(t), []string{"a.pdf=A", "a.xml=<a/>", "b.xml=<b/>"})
		if got := len(w.sealed(t)); got != 1 {
			t.Errorf("after a crash at %s: %d bundles", where, got)
		}
		equal(t, "sent after a crash at "+where, w.below(t, sentDir, 2), []string{"a.pdf", "a.xml", "b/b.xml"})
		equal(t, "left after a crash at "+where, w.left(t), []string(nil))
		if s := status(t, w); s.Totals.Bundles != 1 || s.Totals.Files != 3 || s.Moving != 0 || s.Sending != nil {
			t.Errorf("status after a crash at %s: %+v", where, s)
		}
	})
	return crashed
}

func TestLostReplyIsRecognized(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		for _, fault := range []clienttest.Fault{clienttest.LoseReply, clienttest.CutBody, clienttest.TimeOut, clienttest.BadGateway} {
			w := newFixture(t)
			w.opt.Parallel = 1
			w.drop(t, "a.xml", "<a/>")
			w.drop(t, "b.xml", "<b/>")
			requests := 0
			w.server.Inject(func(*http.Request) clienttest.Fault {
				requests++
				if requests == n+1 {
					return fault
				}
				return clienttest.None
			})
			synctest.Test(t, func(t *testing.T) {
				if err := w.once(t, nil); err != nil {
					t.Fatal(err)
				}
			})
			equal(t, "contents", w.contents(t), []string{"a.xml=<a/>", "b.xml=<b/>"})
			if len(w.sealed(t)) != 1 {
				t.Errorf("fault %d at request %d: %d bundles", fault, n+1, len(w.sealed(t)))
			}
		}
	}
}

func TestAWeekOffline(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.wire.offline.Store(true)
	w.opt.Settle = 5 * time.Minute // fewer looks in a week
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		w.drop(t, "a.xml", "<a/>")
		time.Sleep(24 * time.Hour)
		before := status(t, w)
		if !before.Running || before.Sending == nil || before.Error == "" || before.NextTry.IsZero() {
			t.Errorf("offline: %+v", before)
		}
		w.drop(t, "b.xml", "<b/>")
		time.Sleep(6 * 24 * time.Hour)
		w.wire.offline.Store(false)
		time.Sleep(20 * time.Minute)
		equal(t, "contents", w.contents(t), []string{"a.xml=<a/>", "b.xml=<b/>"})
		if w.sealed(t)[before.Sending.ID] == nil {
			t.Error("the bundle that was frozen while offline is not the one that was sent")
		}
		stop()
	})
	if s := status(t, w); s.Error != "" || s.Running {
		t.Errorf("in the end: %+v", s)
	}
}

func putOf(name string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+name)
	}
}

func refusing(which func(*http.Request) bool, status int, code client.Code) func(*http.Request) (int, string) {
	return func(r *http.Request) (int, string) {
		if which(r) {
			return status, string(code)
		}
		return 0, ""
	}
}

func TestTemporaryRefusalsAreRetried(t *testing.T) {
	t.Parallel()
	for code, status := range map[client.Code]int{
		client.CodeQuota: 507, client.CodeDiskFull: 507, client.CodeForbidden: 403, client.CodeUnauthenticated: 401, client.CodeUnavailable: 503,
		client.CodeTooManyOpen: 429, client.CodeInternal: 500,
	} {
		for _, name := range []string{"a.xml", "meta.json"} {
			w := newFixture(t)
			w.drop(t, "a.xml", "<a/>")
			w.wire.set(refusing(putOf(name), status, code))
			synctest.Test(t, func(t *testing.T) {
				if err := w.once(t, nil); client.CodeOf(err) != code {
					t.Errorf("%s of %s: got %v", code, name, err)
				}
				equal(t, "left", w.left(t), []string{"a.xml"})
				w.wire.set(nil)
				if err := w.once(t, nil); err != nil {
					t.Errorf("%s of %s is over: %v", code, name, err)
				}
			})
			equal(t, "contents", w.contents(t), []string{"a.xml=<a/>"})
			if len(w.sealed(t)) != 1 {
				t.Errorf("%s of %s: %d bundles", code, name, len(w.sealed(t)))
			}
		}
	}
}

func TestPermanentRefusalMovesToFailed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "a.xml", "<a/>")
	w.drop(t, "big.xml", "<big/>")
	w.drop(t, "big.pdf", "BIG")
	w.wire.set(refusing(putOf("big.pdf"), 413, client.CodeTooLarge))
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); !errors.Is(err, ErrUnsent) {
			t.Errorf("got %v", err)
		}
	})
	equal(t, "contents", w.contents(t), []string{"a.xml=<a/>"})
	equal(t, "failed", w.below(t, failedDir, 2), []string{"REASON.txt", "big.pdf", "big.xml"})
	equal(t, "left", w.left(t), []string(nil))
	hits, err := filepath.Glob(filepath.Join(w.dir, "failed/*/*/REASON.txt"))
	if err != nil || len(hits) != 1 {
		t.Fatal(hits, err)
	}
	text, err := os.ReadFile(hits[0])
	if err != nil || !strings.Contains(string(text), "too-large") || !strings.Contains(string(text), `"big.xml"`) {
		t.Errorf("the reason says %q (%v)", text, err)
	}
	for _, p := range w.server.Paths() {
		if strings.Contains(p, "big") {
			t.Errorf("%s is left on the server", p)
		}
	}
	s := status(t, w)
	if s.Totals.Failed != 2 || s.Totals.Bundles != 1 || !strings.Contains(s.Bundles[1].Reason, "big.pdf") || s.Bundles[1].Outcome != Refrozen {
		t.Errorf("status %+v", s)
	}
}

func TestChangeAfterFreezeRefreezes(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"after freeze", "folder", "member"} {
		w := newFixture(t)
		w.server.EnableBatches(step != "member") // in a batch both have gone when the first is there
		w.opt.Parallel = 1
		w.drop(t, "a.xml", "<a/>")
		w.drop(t, "b.xml", "<b/>")
		changed := false
		synctest.Test(t, func(t *testing.T) {
			err := w.once(t, func(now string) bool {
				if now == step && !changed {
					changed = true
					w.drop(t, "b.xml", "<b>now longer</b>")
				}
				return false
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.once(t, nil); err != nil {
				t.Fatal(err)
			}
		})
		equal(t, "changed at "+step, w.contents(t), []string{"a.xml=<a/>", "b.xml=<b>now longer</b>"})
		for _, p := range w.server.Paths() {
			if content, _ := w.server.File(p); string(content) == "<b/>" {
				t.Errorf("changed at %s: %s is left", step, p)
			}
		}
	}
}

func TestChangeAfterSendIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "a.xml", "<a/>")
	w.drop(t, "b.xml", "<b/>")
	once := false
	synctest.Test(t, func(t *testing.T) {
		err := w.once(t, func(step string) bool {
			if step == "after end" && !once {
				once = true
				w.drop(t, "b.xml", "<b>second</b>")
			}
			return false
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.once(t, nil); err != nil {
			t.Fatal(err)
		}
	})
	equal(t, "contents", w.contents(t), []string{"a.xml=<a/>", "b.xml=<b/>", "b.xml=<b>second</b>"})
	equal(t, "sent", w.below(t, sentDir, 2), []string{"a.xml", "b.xml"})
}

// A bundle that may be sealed is never given up, even if its reply is lost, the agent dies, and a
// file has changed at the restart.
func TestSealingBundleIsNotRefrozen(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"after sealing", "sealed", "before end", "after end"} {
		w := newFixture(t)
		w.drop(t, "a.xml", "<a/>")
		w.drop(t, "b.xml", "<b/>")
		synctest.Test(t, func(t *testing.T) {
			if err := w.once(t, func(now string) bool { return now == step }); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			w.drop(t, "b.xml", "<b>second</b>")
			for range 2 {
				if err := w.once(t, nil); err != nil {
					t.Fatal(err)
				}
			}
		})
		equal(t, "contents after "+step, w.contents(t), []string{"a.xml=<a/>", "b.xml=<b/>", "b.xml=<b>second</b>"})
		if s := status(t, w); s.Totals.Bundles != 2 || len(s.Bundles) != 2 {
			t.Errorf("status after %s: %+v", step, s)
		}
	}
}

// Errors of this computer are reported, and cleared once they are over.
func TestStateWriteFailureIsRetried(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	temp := filepath.Join(w.dir, stateName+".tmp")
	if err := os.MkdirAll(temp, 0o777); err != nil { // a directory where the state is written first
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		w.drop(t, "a.xml", "<a/>")
		time.Sleep(time.Hour)
		if s := status(t, w); s.Error == "" || len(w.sealed(t)) != 0 || len(w.left(t)) != 1 {
			t.Errorf("what is not written down is not sent: %+v", s)
		}
		if err := os.Remove(temp); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
	})
	equal(t, "contents", w.contents(t), []string{"a.xml=<a/>"})
	if s := status(t, w); s.Error != "" || s.Totals.Bundles != 1 {
		t.Errorf("when it is over: %+v", s)
	}
}

// A bundle of many small files takes few requests; without batches the files are sent one by one.
func TestSmallMembersAreBatched(t *testing.T) {
	t.Parallel()
	const files = 300
	for _, able := range []bool{true, false} {
		w := newFixture(t)
		w.server.EnableBatches(able)
		var want []string
		for i := range files {
			name := fmt.Sprintf("%03d.xml", i)
			w.drop(t, name, "<"+name+"/>")
			want = append(want, name+"=<"+name+"/>")
		}
		synctest.Test(t, func(t *testing.T) {
			if err := w.once(t, nil); err != nil {
				t.Fatal(err)
			}
		})
		equal(t, "contents", w.contents(t), want)
		puts := w.server.CountRequests(func(method, _ string) bool { return method == http.MethodPut })
		if items := w.server.CountBatchItems("put"); able && (items != files || puts != 1) || !able && puts != files+1 {
			t.Errorf("batches %t: %d items and %d files one by one", able, items, puts)
		}
	}
}

// An expired login is replaced by one that a user makes while the agent runs.
func TestANewLoginIsUsed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	good := w.opt.Client
	var renewed atomic.Bool
	w.opt.Client = good.WithToken("one that was revoked")
	w.opt.Renew = func() (*client.Client, error) {
		if renewed.Load() {
			return good, nil
		}
		return w.opt.Client, nil
	}
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		w.drop(t, "a.xml", "<a/>")
		time.Sleep(time.Hour)
		if s := status(t, w); s.Error == "" || s.Sending == nil || s.Sending.Tries == 0 {
			t.Errorf("before somebody logs in: %+v", s)
		}
		renewed.Store(true)
		time.Sleep(manualBackoff + time.Minute)
		equal(t, "contents", w.contents(t), []string{"a.xml=<a/>"})
		stop()
	})
}
