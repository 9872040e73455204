package upload_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// raceAction is an action in a race.
type raceAction struct {
	name string
	in   string // the state it finds
	do   func(t *testing.T, on *upload.Sessions, c *raceUpload) error
}

// raceUpload is the state of an upload during a race.
type raceUpload struct {
	s    *uploadtest.Site
	who  drive.Who
	v    upload.View
	data []byte
	gen  int64
	kept drive.ByteSize // what an Append said is kept
}

const hours = 24 * 8 * time.Hour

var acts = []raceAction{
	{"park", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		return on.OnPark(t.Context(), timer.Fired{Key: timer.Key{Kind: timer.Park, ID: c.v.ID}, Gen: c.gen})
	}},
	{"resume", "parked", func(t *testing.T, on *upload.Sessions, c *raceUpload) error { return putOn(t, on, c, 0) }},
	{"late part", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error { return putOn(t, on, c, 0) }},
	{"complete", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		_, _, err := on.Complete(t.Context(), c.who, c.v.ID, upload.Complete{})
		return err
	}},
	{"complete parked", "parked", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		_, _, err := on.Complete(t.Context(), c.who, c.v.ID, upload.Complete{})
		return err
	}},
	{"complete wrong", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		_, _, err := on.Complete(t.Context(), c.who, c.v.ID, upload.Complete{Digests: blake([]byte("else"))})
		return err
	}},
	{"cancel", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		return on.Cancel(t.Context(), c.who, c.v.ID)
	}},
	{"cancel parked", "parked", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		return on.Cancel(t.Context(), c.who, c.v.ID)
	}},
	{"abandon", "parked", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		return on.OnAbandon(t.Context(), timer.Fired{Key: timer.Key{Kind: timer.Abandon, ID: c.v.ID}, Gen: c.gen})
	}},
	{"patch", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		_, err := on.Patch(t.Context(), c.who, c.v.ID, upload.Patch{Digests: blake(c.data)})
		return err
	}},
	{"append", "active", appendOn},
	{"append parked", "parked", appendOn},
	{"offset", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		p, err := on.Offset(t.Context(), c.who, c.v.ID)
		c.kept = p.Offset
		return err
	}},
	{"declare", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		return on.DeclareSize(t.Context(), c.who, c.v.ID, drive.ByteSize(len(c.data)))
	}},
	{"delete part", "active", func(t *testing.T, on *upload.Sessions, c *raceUpload) error {
		return on.DeletePart(t.Context(), c.who, c.v.ID, 0)
	}},
}

// begunBytes is the number of bytes that an upload filled by offset has when its act begins.
const begunBytes = 5000

// byOffset are the acts on such uploads.
func (a raceAction) byOffset() bool {
	return a.name == "append" || a.name == "append parked" || a.name == "offset" || a.name == "declare"
}

// appendOn sends the missing bytes in two requests.
func appendOn(t *testing.T, on *upload.Sessions, c *raceUpload) error {
	t.Helper()
	c.kept = begunBytes
	for c.kept < drive.ByteSize(len(c.data)) {
		body := c.data[c.kept:]
		if c.kept == begunBytes {
			body = c.data[c.kept : mib-100]
		}
		offset, err := on.Append(t.Context(), c.who, c.v.ID, upload.Append{Offset: c.kept, Size: drive.ByteSize(len(body))}, bytes.NewReader(body))
		c.kept = max(c.kept, offset)
		if err != nil {
			return err
		}
	}
	return nil
}

func putOn(t *testing.T, on *upload.Sessions, c *raceUpload, n int) error {
	t.Helper()
	part := uploadtest.Part(c.v, n, c.data)
	return on.Put(t.Context(), c.who, c.v.ID, upload.PutPart{N: n, Size: drive.ByteSize(len(part))}, bytes.NewReader(part))
}

// stage creates an upload in the state that action a needs: all parts received (except for "late
// part"), and its timers due.
func stage(t *testing.T, s *uploadtest.Site, a raceAction) *raceUpload {
	t.Helper()
	return stageBeside(t, s, a, nil)
}

// stageBeside is stage that also makes other cache the upload before its idle time passes.
func stageBeside(t *testing.T, s *uploadtest.Site, a raceAction, other *upload.Sessions) *raceUpload {
	t.Helper()
	c := &raceUpload{s: s, who: s.Account(t, 0), data: bytes.Repeat([]byte{7}, mib+17)}
	b := upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(c.data)), PartSize: drive.MiB}
	if a.name == "declare" {
		b.Size, b.PartSize = blob.UnknownSize, 0
	}
	v, err := s.Begin(t.Context(), c.who, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.v = v
	if a.byOffset() {
		come := c.data[:begunBytes]
		if a.name == "declare" {
			come = c.data
		}
		offset, err := s.Append(t.Context(), c.who, v.ID, upload.Append{Size: drive.ByteSize(len(come))}, bytes.NewReader(come))
		if err != nil || offset != drive.ByteSize(len(come)) {
			t.Fatalf("begin by offset: %d, %v", offset, err)
		}
		c.v.Parts = (len(c.data) + int(v.PartSize) - 1) / int(v.PartSize)
	}
	for n := range c.v.Parts {
		if !a.byOffset() && (a.name != "late part" || n > 0) {
			send(t, s, c.who, v, n, c.data)
		}
	}
	switch {
	case other != nil && a.byOffset():
		if _, err := other.Offset(t.Context(), c.who, v.ID); err != nil {
			t.Fatal(err)
		}
	case other != nil:
		if err := putOn(t, other, c, 1); err != nil {
			t.Fatal(err)
		}
	}
	s.Clock.Advance(31 * time.Second)
	if a.in == "parked" {
		s.Fire(t)
		s.Clock.Advance(hours)
	}
	wantState(t, s, v, a.in)
	_, c.gen = s.State(t, v.ID)
	return c
}

// finish brings the upload to its end and checks that it has exactly one complete outcome.
func finish(t *testing.T, c *raceUpload) {
	t.Helper()
	c.s.CheckLedger(t, c.who)
	c.s.Settle()
	state, _ := c.s.State(t, c.v.ID)
	if state == "sealing" || state == "reclaiming" { // somebody was stopped half way: timers go on
		for range 3 {
			c.s.Clock.Advance(20 * time.Second)
			c.s.Fire(t)
			c.s.Settle()
		}
		state, _ = c.s.State(t, c.v.ID)
	}
	if state == "active" || state == "parked" {
		size := drive.ByteSize(len(c.data)) // of the act that declares it
		for n := range c.v.Parts {
			if err := putOn(t, c.s.Sessions, c, n); err != nil {
				t.Errorf("part %d of an upload that is %s: %v", n, state, err)
			}
		}
		if _, _, err := c.s.Complete(t.Context(), c.who, c.v.ID, upload.Complete{Digests: blake(c.data), Size: &size}); err != nil {
			t.Errorf("complete an upload that was %s: %v", state, err)
		}
		c.s.Settle()
		state = "done"
	}
	wantState(t, c.s, c.v, state)
	switch balance := c.s.Balance(t, c.who); state {
	case "done":
		if !bytes.Equal(c.s.Read(t, c.who, "/f"), c.data) || balance != fmt.Sprintf("%d/0/0", len(c.data)) {
			t.Errorf("done: the ledger is %s, or the file has other bytes", balance)
		}
	case "gone":
		if balance != "0/0/0" {
			t.Errorf("gone: the ledger is %s", balance)
		}
	default:
		t.Errorf("it ends as %s", state)
	}
	c.s.CheckLedger(t, c.who)
	c.s.CheckBlobs(t)
	c.s.Staged(t)
}

// G: the process dies before or after each call of each act. There is one outcome, no acknowledged
// byte is lost, and nothing is refunded twice.
func TestScenarioGCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s, fate := siteUnderFate(t)
			crashAtEveryCall(t, a, s, fate, s)
		})
	}
}

// crashAtEveryCall crashes s at each call, then finishes the upload at left, which is s restarted
// or another instance.
func crashAtEveryCall(t *testing.T, a raceAction, s *uploadtest.Site, fate *uploadtest.Faults, left *uploadtest.Site) {
	t.Helper()
	s.Clock.Advance(2 * time.Hour)
	for _, how := range []uploadtest.Effect{uploadtest.Die, uploadtest.DieAfter} {
		for n := 1; ; n += depth.Pick(9, 3, 1) {
			c := stage(t, s, a)
			fate.Set(uploadtest.Rule{N: n, Effect: how})
			err := a.do(t, s.Sessions, c)
			s.Settle()
			came := fate.Clear()
			s.Restart(t)
			s.Clock.Advance(2 * time.Hour) // reclaims are held back after a start
			c.s = left
			acked := err == nil && (a.name == "late part" || a.name == "resume")
			if acked {
				wantPart(t, c, 0)
			}
			if a.byOffset() {
				wantKept(t, c)
			}
			finish(t, c)
			if t.Failed() {
				t.Fatalf("died at call %d (%d)", n, how)
			}
			if !came {
				break
			}
		}
	}
}

// wantKept checks that promised offsets are kept, and that the upload continues from there.
func wantKept(t *testing.T, c *raceUpload) {
	t.Helper()
	p, err := c.s.Offset(t.Context(), c.who, c.v.ID)
	if err != nil || p.Offset < c.kept {
		t.Errorf("P2: the offset is %d, %v; it was %d", p.Offset, err, c.kept)
		return
	}
	if p.State != upload.Active && p.State != upload.Parked {
		return
	}
	rest := c.data[p.Offset:]
	if end, err := c.s.Append(t.Context(), c.who, c.v.ID, upload.Append{Offset: p.Offset, Size: drive.ByteSize(len(rest))}, bytes.NewReader(rest)); err != nil || end != drive.ByteSize(len(c.data)) {
		t.Errorf("append from %d: %d, %v", p.Offset, end, err)
	}
	if err := c.s.DeclareSize(t.Context(), c.who, c.v.ID, drive.ByteSize(len(c.data))); err != nil {
		t.Errorf("declare the length: %v", err)
	}
}

func wantPart(t *testing.T, c *raceUpload, n int) {
	t.Helper()
	parts, err := c.s.ListParts(t.Context(), c.who, c.v.ID)
	if err != nil {
		t.Errorf("P2: %v", err)
	}
	for _, p := range parts {
		if p.N == n {
			return
		}
	}
	t.Errorf("P2: part %d was acknowledged and is not there", n)
}

// G: two instances do two things to one upload; the second does its whole one between any two calls of the first. Nothing in
// memory is shared: rows and fences decide.
func TestScenarioGTwoInstancesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s, fate := siteUnderFate(t)
			s.Clock.Advance(2 * time.Hour)
			for _, b := range acts {
				if b.in != a.in {
					continue
				}
				for n := 1; ; n += depth.Pick(9, 3, 1) {
					c := stage(t, s, a)
					twin := s.SecondInstance()
					var other error
					fate.Set(uploadtest.Rule{N: n, Effect: uploadtest.RunBefore, Do: func() { other = b.do(t, twin, c) }})
					err := a.do(t, s.Sessions, c)
					s.Settle()
					twin.Settle()
					came := fate.Clear()
					if closeErr := twin.Close(); closeErr != nil {
						t.Fatal(closeErr)
					}
					s.CheckLedger(t, c.who)
					s.Restart(t)
					s.Clock.Advance(2 * time.Hour)
					finish(t, c)
					if t.Failed() {
						t.Fatalf("%s at call %d of %s: %v and %v", b.name, n, a.name, other, err)
					}
					if !came {
						break
					}
				}
			}
		})
	}
}
