package upload_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// partialUploads are partial uploads of one account and the content of the file that they form.
type partialUploads struct {
	who  drive.Who
	ids  []drive.UploadID
	data []byte
}

// cutPartials creates complete partial uploads of the given sizes.
func cutPartials(t *testing.T, s *uploadtest.Site, sizes ...int) partialUploads {
	t.Helper()
	p := partialUploads{who: s.Account(t, 0)}
	for _, n := range sizes {
		data := random(n)
		v, err := s.Begin(t.Context(), p.who, upload.Begin{Size: drive.ByteSize(n), Kind: upload.Partial, Protocol: upload.Tus}, nil)
		if err != nil {
			t.Fatal(err)
		}
		add(t, s.Sessions, p.who, v.ID, 0, data)
		p.ids, p.data = append(p.ids, v.ID), append(p.data, data...)
	}
	return p
}

func join(t *testing.T, on *upload.Sessions, p partialUploads, ids ...drive.UploadID) (upload.View, error) {
	t.Helper()
	if ids == nil {
		ids = p.ids
	}
	return on.Concat(t.Context(), p.who, upload.Begin{Path: uploadtest.Path(t, "/f"), Protocol: upload.Tus, Metadata: "m"}, ids, nil)
}

// checkJoined waits for the final upload and checks the file, the charges, and that the partial
// uploads are removed.
func checkJoined(t *testing.T, s *uploadtest.Site, p partialUploads, id drive.UploadID) {
	t.Helper()
	done, _, err := s.Complete(t.Context(), p.who, id, upload.Complete{})
	if err != nil || done.State != "done" {
		t.Errorf("the final is %s, %v", done.State, err)
		return
	}
	if !bytes.Equal(s.Read(t, p.who, "/f"), p.data) {
		t.Error("the file has other bytes")
	}
	if got := s.Balance(t, p.who); got != fmt.Sprintf("%d/0/0", len(p.data)) {
		t.Errorf("the ledger is %s", got)
	}
	pos, err := s.Offset(t.Context(), p.who, id)
	if err != nil || pos.Kind != upload.Final || pos.Metadata != "m" || !slices.Equal(pos.Partials, p.ids) || int(pos.Offset) != len(p.data) {
		t.Errorf("position %+v, %v", pos, err)
	}
}

func TestConcat(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][]int{{1}, {0}, {2 * mib, 2 * mib}, {1, 0, 3*mib + 5, 7}, {5 * mib, mib, mib}, {3*mib + 5, 2*mib + 9, 7}, {3*mib + 5}, {2*mib + 5, 0}} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprint(sizes, parked), func(t *testing.T) {
				t.Parallel()
				s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
				p := cutPartials(t, s, sizes...)
				if parked {
					s.AdvanceAndFire(t, time.Minute)
				}
				v, err := join(t, s.Sessions, p)
				if err != nil {
					t.Fatal(err)
				}
				s.CheckLedger(t, p.who)
				again, err := join(t, s.Sessions, p)
				if err != nil || !again.Found || again.ID != v.ID {
					t.Errorf("the same again: %+v, %v", again, err)
				}
				checkJoined(t, s, p, v.ID)
				if pos, err := s.Offset(t.Context(), p.who, p.ids[0]); err != nil || pos.State != upload.Gone {
					t.Errorf("a joined partial upload is %+v, %v", pos, err)
				}
				s.AdvanceAndFire(t, time.Minute) // old timers change nothing
				checkClean(t, s, p.who)
			})
		}
	}
}

func TestConcatIsRefused(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	p := cutPartials(t, s, mib, mib)
	stranger := cutPartials(t, s, mib)
	file := s.Start(t, p.who, "/g", 10)
	half, err := s.Begin(t.Context(), p.who, upload.Begin{Size: 10, Kind: upload.Partial}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ids  []drive.UploadID
		kind drive.Kind
	}{
		"none":         {[]drive.UploadID{}, drive.BadRequest},
		"twice":        {[]drive.UploadID{p.ids[0], p.ids[1], p.ids[0]}, drive.BadRequest},
		"a stranger's": {[]drive.UploadID{p.ids[0], stranger.ids[0]}, drive.BadRequest},
		"no partial":   {[]drive.UploadID{p.ids[0], file.ID}, drive.BadRequest},
		"unknown":      {[]drive.UploadID{p.ids[0], drive.NewID[drive.UploadID]()}, drive.BadRequest},
	} {
		if _, err := join(t, s.Sessions, p, c.ids...); !drive.IsKind(err, c.kind) && len(c.ids) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.CheckLedger(t, p.who)
	v, err := join(t, s.Sessions, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []drive.UploadID{file.ID, half.ID} {
		if err := s.Cancel(t.Context(), p.who, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := join(t, s.Sessions, p, p.ids[1], p.ids[0]); err == nil {
		t.Error("joined once more, in another order")
	}
	if _, err := join(t, s.Sessions, p, p.ids[0]); err == nil {
		t.Error("joined once more, alone")
	}
	checkJoined(t, s, p, v.ID)
	s.CheckLedger(t, stranger.who)
}

// Concat fails if a partial upload is incomplete or has no length, and does not interrupt its
// appends.
func TestConcatOfIncompleteUploads(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	p, last := cutPartials(t, s, 1000), random(2*mib+5)
	v, err := s.Begin(t.Context(), p.who, upload.Begin{Size: blob.UnknownSize, Kind: upload.Partial, Protocol: upload.Tus}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.ids, p.data = append(p.ids, v.ID), append(p.data, last...)
	refused := func(what string) {
		t.Helper()
		_, err := join(t, s.Sessions, p)
		if e := wantKind(t, err, drive.PartsMissing); e.Args["upload"] != v.ID {
			t.Errorf("%s: %v", what, err)
		}
		s.CheckLedger(t, p.who)
	}
	refused("empty")
	coming := &hookReader{Reader: bytes.NewReader(last), at: mib, do: func() { refused("while its bytes come") }}
	if n, err := s.Append(t.Context(), p.who, v.ID, upload.Append{Size: drive.ByteSize(len(last))}, coming); err != nil || int(n) != len(last) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	refused("without a length")
	if err := s.DeclareSize(t.Context(), p.who, v.ID, drive.ByteSize(len(last))); err != nil {
		t.Fatal(err)
	}
	final, err := join(t, s.Sessions, p)
	if err != nil {
		t.Fatal(err)
	}
	checkJoined(t, s, p, final.ID)
	checkClean(t, s, p.who)
}

// hookReader calls a function once the given number of bytes was read.
type hookReader struct {
	io.Reader
	at int
	do func()
}

func (b *hookReader) Read(p []byte) (int, error) {
	if b.do != nil && b.at <= 0 {
		b.do()
		b.do = nil
	}
	n, err := b.Reader.Read(p[:min(len(p), 64<<10)])
	b.at -= n
	return n, err
}

// olderFinal creates the row that older versions wrote for a final upload waiting for its partial
// ones.
func olderFinal(t *testing.T, s *uploadtest.Site, size drive.ByteSize) (partialUploads, upload.View) {
	t.Helper()
	p := cutPartials(t, s, 1000, mib)
	v, err := s.Begin(t.Context(), p.who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: size, Protocol: upload.Tus, Metadata: "m"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, 45*time.Second) // it is parked
	for _, q := range []struct {
		text string
		args []any
	}{
		{"UPDATE uploads SET reason = 'waiting' WHERE id = ? AND state = 'parked' AND held = 0", []any{v.ID}},
		{"UPDATE upload_heads SET kind = ?, partials = ? WHERE upload_id = ?", []any{upload.Final, fmt.Sprintf(`["%s","%s"]`, p.ids[0], p.ids[1]), v.ID}},
		{"UPDATE upload_heads SET final_id = ? WHERE upload_id IN (?, ?)", []any{v.ID, p.ids[0], p.ids[1]}},
	} {
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			n, err := tx.Exec(ctx, q.text, q.args...)
			if err == nil && n == 0 {
				t.Error("nothing is changed by " + q.text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Restart(t)
	return p, v
}

// A final upload left waiting by an older version is reclaimed when abandoned; its partial uploads
// stay usable.
func TestFinalUploadParkedByOldVersion(t *testing.T) {
	t.Parallel()
	for _, size := range []drive.ByteSize{blob.UnknownSize, drive.MiB + 1000} {
		s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
		p, v := olderFinal(t, s, size)
		if _, _, err := s.Complete(t.Context(), p.who, v.ID, upload.Complete{}); err == nil {
			t.Error("it is complete")
		}
		if pos, err := s.Offset(t.Context(), p.who, v.ID); err != nil || pos.Offset != 0 || pos.Kind != upload.Final || pos.State != upload.Parked {
			t.Errorf("position %+v, %v", pos, err)
		}
		final, err := join(t, s.Sessions, p)
		if err != nil || final.ID == v.ID {
			t.Fatalf("another: %+v, %v", final, err)
		}
		checkJoined(t, s, p, final.ID)
		s.AdvanceAndFire(t, 90*time.Minute) // after a start none is given up for an hour
		_, err = s.Get(t.Context(), p.who, v.ID)
		if e := wantKind(t, err, drive.Gone); e.Args["reason"] != upload.ReasonAbandoned {
			t.Errorf("it is gone because of %v", e.Args["reason"])
		}
		checkClean(t, s, p.who)

		p, v = olderFinal(t, s, size)
		if err := s.Send(t, p.who, v, 0, random(mib+1000)); err != nil {
			t.Errorf("whoever sends it bytes has an ordinary upload: %v", err)
		}
		if reason := s.Reason(t, v.ID); reason != "" {
			t.Errorf("it has the reason %q", reason)
		}
	}
}

// underFate lists pairs of a site that dies and the site that continues.
var underFate = map[string]func(t *testing.T) (*uploadtest.Site, *uploadtest.Faults, *uploadtest.Site){
	"alone": func(t *testing.T) (*uploadtest.Site, *uploadtest.Faults, *uploadtest.Site) {
		s, fate := siteUnderFate(t)
		return s, fate, s
	},
	"one of two": func(t *testing.T) (*uploadtest.Site, *uploadtest.Faults, *uploadtest.Site) {
		sh, dir, fate := uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
		s := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: fate, Upload: impatient})
		return s, fate, uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: &uploadtest.Faults{}, Upload: impatient})
	},
}

// After a crash at any call of Concat, nothing has happened or the timers finish it. Bytes are
// charged exactly once.
func TestConcatCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, open := range underFate {
		for i, how := range []uploadtest.Effect{uploadtest.Die, uploadtest.DieAfter, uploadtest.LoseReply, uploadtest.Fail} {
			t.Run(fmt.Sprint(name, how), func(t *testing.T) {
				t.Parallel()
				s, fate, left := open(t)
				for n, came := 1, true; came && !t.Failed(); n += depth.Pick(9, 3, 1) {
					p := cutPartials(t, s, [][]int{{1000, 2*mib + 5}, {2*mib + 5, mib}}[(n+i)%2]...)
					fate.Set(uploadtest.Rule{N: n, Effect: how})
					_, _ = join(t, s.Sessions, p)
					s.Settle()
					came = fate.Clear()
					if how == uploadtest.Die || how == uploadtest.DieAfter {
						s.Restart(t)
					}
					finishJoin(t, left, p)
					if t.Failed() {
						t.Logf("at call %d", n)
					}
				}
			})
		}
	}
}

// Concat holds disk space for its copies until they are written, and none afterwards.
func TestConcatReservesItsCopies(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	p := cutPartials(t, s, 3*mib+5, 2*mib)
	fate.Set(uploadtest.Rule{N: 1, Point: "staging.Write", Effect: uploadtest.RunBefore, Do: func() {
		// Parts 0 to 2 and the beginning of 3 were taken over, the rest of 3 is copied: 4 and 5 are
		// left.
		if got := s.Promised(); got != int64(mib+5) {
			t.Errorf("%d bytes are promised while part 4 is copied", got)
		}
	}})
	v, err := join(t, s.Sessions, p)
	if err != nil {
		t.Fatal(err)
	}
	s.Settle()
	if got := s.Promised(); got != 0 {
		t.Errorf("%d bytes are promised after the seal", got)
	}
	checkJoined(t, s, p, v.ID)
}

// passMinute lets a minute pass, in which interrupted work is redone.
func passMinute(t *testing.T, s *uploadtest.Site) {
	t.Helper()
	s.Settle()
	for range 3 {
		s.Clock.Advance(20 * time.Second)
		s.Fire(t)
		s.Settle()
	}
}

func finishJoin(t *testing.T, s *uploadtest.Site, p partialUploads) {
	t.Helper()
	s.CheckLedger(t, p.who)
	used, _ := s.Used(t, p.who)
	if used != int64(len(p.data)) {
		t.Errorf("charged %d bytes for %d", used, len(p.data))
	}
	passMinute(t, s)
	v, err := join(t, s.Sessions, p)
	if err != nil {
		t.Errorf("once more: %v", err)
		return
	}
	s.Settle()
	checkJoined(t, s, p, v.ID)
	s.CheckLedger(t, p.who)
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.CheckBlobs(t)
	for _, place := range s.Staged(t) { // what else a crash leaves, an auditor removes
		if slices.ContainsFunc(p.ids, func(id drive.UploadID) bool { return strings.HasSuffix(place, id.String()) }) {
			t.Errorf("the bytes of a joined upload stay at %s", place)
		}
	}
}
