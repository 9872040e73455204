package upload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"lukechampine.com/blake3"
	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// modelWorkers is the number of parallel tests that together run 2,000 random histories in a deep
// run, or SMARTDRIVE_SOAK, against the real Sessions on a real database and directory. -rapid.seed
// or -rapid.failfile repeats one.
const modelWorkers = 4

func TestMain(m *testing.M) {
	flag.Parse()
	if n, err := strconv.Atoi(os.Getenv("SMARTDRIVE_SOAK")); err == nil && n > 0 {
		if n == 1 {
			n = 100_000
		}
		_ = flag.Set("rapid.checks", strconv.Itoa(n/modelWorkers))
	}
	sqldbtest.SetRapidChecks(depth.Pick(120, 200, 2000) / modelWorkers) // rapid itself takes a fifth of them under -short
	code := m.Run()
	if err := sqldbtest.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := leaked(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// leaked waits until all goroutines have ended. Goroutines of connections end some time after
// Close, so it polls.
func leaked() (err error) {
	for range 120 {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}

// FuzzHistories lets the fuzzer choose the history.
func FuzzHistories(f *testing.F) {
	w := &world{t: f, keep: true}
	w.open()
	f.Fuzz(rapid.MakeFuzz(w.history))
}

func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for i := range modelWorkers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := &world{t: t}
			rapid.Check(t, w.history)
		})
	}
}

// world is shared by histories, because a site is expensive. A history that fails discards it.
type world struct {
	t       testing.TB
	sites   []*uploadtest.Site
	fates   []*uploadtest.Faults
	bad     bool
	keep    bool // a failed site too: the fuzzer cannot make another one
	told    int  // histories on this site
	several bool // two instances over one database and a shared staging
	shared  *uploadtest.Shared
}

// maxTold bounds the histories of one site: each takes days of the virtual clock, and after 236
// years nanoseconds since 1970 no longer fit their type.
const maxTold = 2000

func (w *world) open() {
	opt := uploadtest.Options{Dir: memoryDir(w.t), Upload: upload.Options{PartSize: drive.MiB, Abandon: 24 * time.Hour}}
	instances := 1
	if w.several {
		instances, w.shared = 2, uploadtest.NewShared()
		opt.Shared, opt.Upload.SealWait = w.shared, 30*time.Millisecond
	}
	w.sites, w.fates = nil, nil
	for range instances {
		opt.Faults = &uploadtest.Faults{}
		w.fates = append(w.fates, opt.Faults)
		w.sites = append(w.sites, uploadtest.New(w.t, opt))
	}
}

func (w *world) history(rt *rapid.T) {
	if w.sites == nil || !w.keep && (w.bad || w.told == maxTold) {
		w.open()
		w.told = 0
	}
	w.told++
	w.bad = true
	h := &history{world: w, Site: w.sites[0], fate: w.fates[0], rt: rt, items: map[drive.UploadID]*item{}}
	h.left = map[string]int{"staged": len(h.Staged(rt)), "blobs": len(h.CheckBlobs(rt))}
	for range 2 {
		h.who = append(h.who, h.Account(rt, 0))
	}
	h.used = make([]int64, len(h.who))
	actions := map[string]func(*rapid.T){
		"begin": h.begin, "part": h.part, "part again": h.part, "drop": h.drop, "quiet": h.quiet, "complete": h.complete, "claim": h.claim,
		"prove": h.prove, "cancel": h.cancel, "days": h.days, "quota": h.quota, "crash": h.crash, "get": h.get,
		"": h.check,
	}
	if w.several {
		actions["flush"] = h.flush
	}
	rt.Repeat(actions)
	h.drain()
	w.bad = false
}

// memoryDir returns a directory in memory if there is one, because histories make thousands of
// syncs.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "smartdrive-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// item is the model of an upload. The bytes of a part are one of two variants.
type item struct {
	id    drive.UploadID
	who   int
	path  string
	size  int
	open  bool // the size was not declared
	fills bool // it is filled by offset
	kept  int  // the greatest offset that was promised
	seed  byte
	want  digest.Set
	wrong bool // the declared digest is of something else
	acked map[int]int
	lost  map[int]bool         // parts that the journal has forgotten since: their bytes are unknown until the upload is sealed
	maybe map[int]map[int]bool // variants that a lost reply may have left
	state string
	gen   int64
	ask   *digest.Challenge
}

type history struct {
	*world
	*uploadtest.Site // the instance that acts
	fate             *uploadtest.Faults
	rt               *rapid.T
	who              []drive.Who
	used             []int64 // before the step
	items            map[drive.UploadID]*item
	order            []drive.UploadID
	n                int
	faulted          bool // something failed in this history: strays are allowed
	left             map[string]int
}

var modelSizes = []int{0, 1, 17, 3000, 3000, mib - 1, mib, mib + 5, 2*mib + 17}

// partSize returns the upload's part size, which is large if the file size is not declared.
func (it *item) partSize() int {
	if it.open {
		return 64 * mib
	}
	return mib
}

func (it *item) parts() int { return (it.size + it.partSize() - 1) / it.partSize() }

// part returns cheap content, different for each seed and variant.
func (it *item) part(n, variant int) []byte {
	data := bytes.Repeat([]byte{it.seed}, min(it.partSize(), it.size-n*it.partSize()))
	if variant == 1 && len(data) > 0 {
		data[len(data)-1] ^= 0x55
	}
	return data
}

func (it *item) file(variant func(n int) int) []byte {
	var all []byte
	for n := range it.parts() {
		all = append(all, it.part(n, variant(n))...)
	}
	return all
}

func original(int) int { return 0 }

func (it *item) isOpen() bool { return it.state == "active" || it.state == "parked" }

func (it *item) complete() bool { return len(it.acked) == it.parts() }

func (it *item) right() bool {
	for _, v := range it.acked {
		if v != 0 {
			return false
		}
	}
	return true
}

// under runs do under a randomly drawn fault. faulty reports that the result may differ from a run
// without faults.
func (h *history) under(rt *rapid.T, what string, do func() error) (faulty bool, err error) {
	h.turn(rt)
	rule := uploadtest.Rule{Effect: uploadtest.Pass}
	if rapid.IntRange(0, 3).Draw(rt, "fault") == 0 {
		rule.Effect = rapid.SampledFrom([]uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply, uploadtest.Die, uploadtest.DieAfter}).Draw(rt, "how")
		rule.N = rapid.IntRange(1, 12).Draw(rt, "n-th")
		if rule.Effect == uploadtest.Fail || rule.Effect == uploadtest.LoseReply {
			rule.Point = rapid.SampledFrom([]string{"tx.commit", "tx.commit", "read", "tx", "tx.exec", "staging", "store"}).Draw(rt, "point")
			if rule.Point == "tx.commit" {
				rule.N = min(rule.N, 2)
			}
		}
	}
	if rule.Effect != uploadtest.Pass {
		h.fate.Set(rule)
	}
	err = do()
	for _, s := range h.sites {
		s.Settle()
	}
	faulty = h.fate.Clear()
	h.faulted = h.faulted || faulty
	rt.Logf("%s: %v (fault: %v)", what, err, faulty)
	if faulty && (rule.Effect == uploadtest.Die || rule.Effect == uploadtest.DieAfter) {
		h.Restart(rt)
	}
	return faulty, err
}

func (h *history) begin(rt *rapid.T) {
	if len(h.order) >= 8 {
		rt.Skip("enough")
	}
	h.n++
	it := &item{
		who: rapid.IntRange(0, 1).Draw(rt, "who"), path: fmt.Sprintf("/f%d", h.n), size: rapid.SampledFrom(modelSizes).Draw(rt, "size"),
		open: rapid.IntRange(0, 3).Draw(rt, "unknown") == 0, fills: rapid.IntRange(0, 2).Draw(rt, "by offset") == 0, seed: byte(rapid.IntRange(1, 2).Draw(rt, "seed")),
		acked: map[int]int{}, lost: map[int]bool{}, maybe: map[int]map[int]bool{}, want: digest.Set{},
	}
	b := upload.Begin{Path: uploadtest.Path(rt, it.path), Size: drive.ByteSize(it.size), Digests: digest.Set{}}
	if it.open {
		b.Size = blob.UnknownSize
	}
	switch rapid.SampledFrom([]string{"none", "none", "sha256", "blake3", "wrong"}).Draw(rt, "digest") {
	case "sha256":
		sum := sha256.Sum256(it.file(original))
		it.want = digest.Set{digest.SHA256: sum[:]}
	case "blake3":
		sum := blake3.Sum256(it.file(original))
		it.want = digest.Set{digest.Blake3: sum[:]}
	case "wrong":
		sum := blake3.Sum256([]byte(it.path))
		it.want, it.wrong = digest.Set{digest.Blake3: sum[:]}, true
	}
	b.Digests = it.want
	var v upload.View
	faulty, err := h.under(rt, "begin "+it.path, func() (err error) {
		v, err = h.Begin(rt.Context(), h.who[it.who], b, nil)
		return err
	})
	if err == nil {
		it.id, it.ask = v.ID, v.Challenge
		if v.State == "done" { // linked: there is no row
			h.checkFile(rt, it, original)
			return
		}
	} else {
		if !faulty && !drive.IsKind(err, drive.Quota) {
			rt.Fatalf("begin: %v", err)
		}
		if it.id = h.find(rt, it); it.id.IsZero() {
			return
		}
		if !faulty {
			rt.Fatalf("begin failed with %v and left a row", err)
		}
	}
	h.items[it.id], h.order = it, append(h.order, it.id)
}

// find returns the upload of a begin whose reply was lost.
func (h *history) find(rt *rapid.T, it *item) drive.UploadID {
	all, err := h.List(context.Background(), upload.ListQuery{Account: h.who[it.who].Account, Limit: 100})
	if err != nil {
		rt.Fatal(err)
	}
	for _, v := range all {
		if v.Path == it.path {
			return v.ID
		}
	}
	return drive.UploadID{}
}

// pick draws an upload, preferring ones that have not ended.
func (h *history) pick(rt *rapid.T) *item {
	var open []drive.UploadID
	for _, id := range h.order {
		if h.items[id].isOpen() {
			open = append(open, id)
		}
	}
	if len(open) == 0 || rapid.IntRange(0, 9).Draw(rt, "any") == 0 {
		open = h.order
	}
	if len(open) == 0 {
		rt.Skip("none")
	}
	return h.items[rapid.SampledFrom(open).Draw(rt, "upload")]
}

func (h *history) part(rt *rapid.T) {
	it := h.pick(rt)
	if it.parts() == 0 {
		rt.Skip("empty")
	}
	if it.fills {
		h.append(rt, it)
		return
	}
	n := rapid.IntRange(0, it.parts()-1).Draw(rt, "part")
	how := rapid.SampledFrom([]string{"good", "good", "good", "torn", "other"}).Draw(rt, "body")
	variant := 0
	if how == "other" {
		variant = 1
	}
	data := it.part(n, variant)
	var body io.Reader = bytes.NewReader(data)
	if how == "torn" {
		body = io.MultiReader(bytes.NewReader(data[:len(data)/2]), failing{})
	}
	fits := h.fits(rt, it)
	faulty, err := h.under(rt, fmt.Sprintf("put %s part %d %s", it.path, n, how), func() error {
		return h.Put(rt.Context(), h.who[it.who], it.id, upload.PutPart{N: n, Size: drive.ByteSize(len(data))}, body)
	})
	had, acked := it.acked[n]
	switch {
	case err == nil && how == "torn":
		rt.Fatalf("a torn part was accepted")
	case err == nil && acked && had != variant && !it.lost[n]:
		rt.Fatalf("other bytes were accepted over an acknowledged part")
	case err == nil && !it.isOpen():
		rt.Fatalf("a part was accepted in state %s", it.state)
	case err == nil:
		it.acked[n] = variant
		delete(it.lost, n)
	case drive.IsKind(err, drive.PartDiffers) && (acked && had != variant || it.maybe[n][1-variant]):
	case faulty:
		if how != "torn" && acked && it.lost[n] {
			it.mayHave(n, had)
			delete(it.acked, n)
			acked = false
		}
		if how != "torn" && !acked {
			it.mayHave(n, variant)
		}
	case how == "torn", !it.isOpen():
	case drive.IsKind(err, drive.Quota) && !fits:
	default:
		rt.Fatalf("put: %v", err)
	}
}

func (it *item) mayHave(n, variant int) {
	if it.maybe[n] == nil {
		it.maybe[n] = map[int]bool{}
	}
	it.maybe[n][variant] = true
}

// fits reports whether the upload's bytes fit into the quota when it resumes.
func (h *history) fits(rt *rapid.T, it *item) bool {
	used, total := h.Used(rt, h.who[it.who])
	if total < 0 {
		return true
	}
	if it.open {
		return false // it may grow or not
	}
	return it.state == "active" || used-h.held(rt, it)+int64(it.size) <= total
}

func (h *history) held(rt *rapid.T, it *item) int64 {
	v, err := h.List(context.Background(), upload.ListQuery{Account: h.who[it.who].Account, Limit: 100})
	if err != nil {
		rt.Fatal(err)
	}
	for _, x := range v {
		if x.ID == it.id {
			return int64(x.Row().Held)
		}
	}
	return 0
}

func (h *history) drop(rt *rapid.T) {
	it := h.pick(rt)
	if it.parts() == 0 {
		rt.Skip("empty")
	}
	n := rapid.IntRange(0, it.parts()-1).Draw(rt, "part")
	fits := h.fits(rt, it)
	faulty, err := h.under(rt, fmt.Sprintf("delete %s part %d", it.path, n), func() error {
		return h.DeletePart(rt.Context(), h.who[it.who], it.id, n)
	})
	if err == nil || faulty {
		it.kept = min(it.kept, n*it.partSize())
	}
	switch {
	case err == nil:
		delete(it.acked, n)
		delete(it.maybe, n)
	case faulty:
		if v, ok := it.acked[n]; ok {
			it.mayHave(n, v)
		}
		delete(it.acked, n)
	case it.isOpen() && !(drive.IsKind(err, drive.Quota) && !fits):
		rt.Fatalf("delete part: %v", err)
	}
}

func (h *history) quiet(rt *rapid.T) {
	_, _ = h.under(rt, "quiet", func() error {
		h.Clock.Advance(time.Duration(rapid.SampledFrom([]int{5, 20, 31, 65}).Draw(rt, "seconds")) * time.Second)
		h.Fire(rt)
		return nil
	})
}

func (h *history) days(rt *rapid.T) {
	_, _ = h.under(rt, "days", func() error {
		for range 3 {
			h.Clock.Advance(20 * time.Hour)
			h.Fire(rt)
		}
		return nil
	})
}

func (h *history) complete(rt *rapid.T) {
	it := h.pick(rt)
	c := upload.Complete{}
	if it.open {
		size := drive.ByteSize(it.size)
		c.Size = &size
	}
	if it.wrong && rapid.Bool().Draw(rt, "repair the digest") {
		sum := blake3.Sum256(it.file(original))
		it.want, it.wrong = digest.Set{digest.Blake3: sum[:]}, false
	}
	c.Digests = it.want
	var v upload.View
	faulty, err := h.under(rt, "complete "+it.path, func() (err error) {
		v, _, err = h.Complete(rt.Context(), h.who[it.who], it.id, c)
		return err
	})
	mismatch := it.wrong || len(it.want) > 0 && !it.right()
	switch {
	case err == nil && v.State == "sealing" && h.several: // another instance is at it, or was
	case err == nil && v.State != "done" && !faulty:
		rt.Fatalf("complete answered %s", v.State)
	case err == nil, faulty:
	case it.state == "gone" && drive.IsKind(err, drive.Gone):
	case it.state == "reclaiming" && drive.IsKind(err, drive.Gone):
	case drive.IsKind(err, drive.PartsMissing) && !it.complete():
	case drive.IsKind(err, drive.DigestMismatch) && (mismatch || len(it.maybe) > 0 || it.state == "sealing"): // by an earlier complete
	default:
		rt.Fatalf("complete: %v", err)
	}
}
