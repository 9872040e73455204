package upload_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A: an upload that gets one byte per idle time stays active and is charged its declared size; the
// absolute limit ends it all the same.
func TestScenarioADripFeed(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{MaxAge: 2 * time.Hour}})
	who := s.Account(t, 0)
	v := s.Start(t, who, "/f", 2*drive.MiB)
	body, drip := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- s.Put(t.Context(), who, v.ID, upload.PutPart{N: 0, Size: 2 * drive.MiB}, body) }()
	for began := s.Clock.Now(); ; {
		if _, err := drip.Write([]byte{1}); err != nil {
			break
		}
		if state, _ := s.State(t, v.ID); state == "active" && s.Balance(t, who) != fmt.Sprintf("0/0/%d", 2*mib) {
			t.Fatalf("meanwhile the ledger is %s", s.Balance(t, who))
		}
		s.Clock.Advance(29 * time.Second)
		s.Fire(t)
		if s.Clock.Now().Sub(began) > 3*time.Hour {
			t.Fatal("it goes on for ever")
		}
	}
	if err := <-result; err == nil {
		t.Error("the part was accepted")
	}
	wantState(t, s, v, "gone")
	if got := s.Balance(t, who); got != "0/0/0" {
		t.Errorf("the ledger is %s", got)
	}
	checkClean(t, s, who)
}

// B: an upload that is never idle is charged from its beginning, not when it pauses.
func TestScenarioBNeverIdle(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 30*drive.MiB), random(25*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/g"), Size: 6 * drive.MiB}, nil)
	if e := wantKind(t, err, drive.Quota); fmt.Sprint(e.Args["available"]) != "5MiB" {
		t.Errorf("available: %v", e.Args["available"])
	}
	for n := range v.Parts {
		send(t, s, who, v, n, data)
		s.AdvanceAndFire(t, 20*time.Second)
	}
	if state, gen := s.State(t, v.ID); state != "active" || gen != 1 {
		t.Errorf("it was parked while it was busy: %s in gen %d", state, gen)
	}
	complete(t, s, who, v)
	checkClean(t, s, who)
}

// C: uploads that fit individually begin concurrently; the reserved bytes never exceed the quota.
func TestScenarioCParallelSessions(t *testing.T) {
	t.Parallel()
	for _, size := range []drive.ByteSize{3 * drive.MiB, blob.UnknownSize} {
		total := 10 * drive.MiB
		if size == blob.UnknownSize {
			total = 200 * drive.MiB
		}
		s := uploadtest.New(t, uploadtest.Options{})
		who := s.Account(t, total)
		var began, refused atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, fmt.Sprintf("/f%d", i)), Size: size}, nil)
				switch {
				case err == nil:
					began.Add(1)
				case drive.IsKind(err, drive.Quota):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if used, _ := s.Used(t, who); used > int64(total) {
			t.Errorf("%d bytes are reserved of %d", used, total)
		}
		if size > 0 && (began.Load() != 3 || refused.Load() != 17) {
			t.Errorf("%d began, %d were refused", began.Load(), refused.Load())
		}
		checkClean(t, s, who)
	}
}

// D: no upload receives more than its declared or granted bytes.
func TestScenarioDDeclareSmallSendBig(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 100*drive.MiB)
	v := s.Start(t, who, "/f", 1000)
	put := func(n int, size drive.ByteSize, body int) error {
		return s.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: size}, bytes.NewReader(random(body)))
	}
	wantKind(t, put(0, 2000, 2000), drive.PartSize)
	wantKind(t, put(0, 1000, 2000), drive.PartSize)
	wantKind(t, put(0, 1000, 500), drive.PartSize)
	wantKind(t, put(1, 1000, 1000), drive.PartRange)
	wantKind(t, put(-1, 1000, 1000), drive.PartRange)
	wantKind(t, put(0, -1, 1000), drive.LengthRequired)
	if got, err := s.Get(t.Context(), who, v.ID); err != nil || len(got.Received) > 0 {
		t.Errorf("received %v, %v", got.Received, err)
	}
	for _, size := range []drive.ByteSize{blob.UnknownSize, 1000} {
		body := io.LimitReader(zeros{}, 200<<20)
		_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/g"), Size: size}, body)
		if !drive.IsKind(err, drive.Quota, drive.PartSize) {
			t.Errorf("size %d: %v", size, err)
		}
	}
	if err := s.Cancel(t.Context(), who, v.ID); err != nil {
		t.Fatal(err)
	}
	if got := s.Balance(t, who); got != "0/0/0" {
		t.Errorf("the ledger is %s", got)
	}
	checkClean(t, s, who)
}

// D, second half: with unknown length, the last byte that fits is accepted and the next one
// refused; received bytes stay.
func TestScenarioDUnknownLengthUpToTheLastByte(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who := s.Account(t, 65*drive.MiB)
	v := s.Start(t, who, "/f", blob.UnknownSize)
	part := func(n int, size drive.ByteSize) error {
		return s.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: size}, io.LimitReader(zeros{}, int64(size)))
	}
	if err := part(0, 64*drive.MiB); err != nil {
		t.Fatal(err)
	}
	wantKind(t, part(1, drive.MiB+1), drive.Quota)
	if err := part(1, drive.MiB); err != nil {
		t.Fatal(err)
	}
	if err := part(0, 64*drive.MiB); err != nil {
		t.Errorf("a repeat needs no room: %v", err)
	}
	size := 65 * drive.MiB
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Size: &size}); err != nil {
		t.Fatal(err)
	}
	checkClean(t, s, who)
}

// E: reservations that nothing backs are bounded in number and short in time.
func TestScenarioESquatting(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{MaxOpen: 5}})
	who := s.Account(t, 50*drive.MiB)
	s.Clock.Advance(2 * time.Hour) // a start holds reclaims back
	var all []upload.View
	for i := range 5 {
		all = append(all, s.Start(t, who, fmt.Sprintf("/f%d", i), 10*drive.MiB))
	}
	_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/g"), Size: 0}, nil)
	wantKind(t, err, drive.TooManyOpen)
	s.AdvanceAndFire(t, 31*time.Second)
	if got := s.Balance(t, who); got != "0/0/0" {
		t.Errorf("after the idle time the ledger is %s", got)
	}
	s.AdvanceAndFire(t, 121*time.Second)
	for _, v := range all {
		wantState(t, s, v, "gone")
	}
	checkClean(t, s, who)
}

// E, second half: a resume that brings nothing doubles the idle time, to 10 minutes; one part sets
// it back. Resumes are limited.
func TestScenarioEResumesThatBringNothing(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(5*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s, who, v, 0, data)
	park := func() time.Duration {
		for d := time.Duration(0); ; d += time.Second {
			if state, _ := s.State(t, v.ID); state == "parked" {
				return d
			}
			s.Clock.Advance(time.Second)
			s.Fire(t)
		}
	}
	near := func(want time.Duration) {
		t.Helper()
		if got := park(); got < want || got > want+3*time.Second {
			t.Errorf("parked after %v, want %v", got, want)
		}
	}
	near(30 * time.Second)
	for _, seconds := range []int{60, 120, 240, 480, 600, 600} {
		if err := s.DeletePart(t.Context(), who, v.ID, 1); err != nil { // wakes it, and brings nothing
			t.Fatal(err)
		}
		near(time.Duration(seconds) * time.Second)
	}
	send(t, s, who, v, 1, data)
	near(30 * time.Second)
	s.CheckLedger(t, who)
}

// E, third part: waking uploads again and again is limited to 20 a second after 200 at once.
func TestScenarioEResumesAreLimited(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who := s.Account(t, 0)
	var all []upload.View
	for i := range 220 {
		all = append(all, s.Start(t, who, fmt.Sprintf("/f%d", i), 10))
	}
	s.Clock.Advance(31 * time.Second)
	s.Fire(t)
	woken := 0
	for _, v := range all {
		if err := s.DeletePart(t.Context(), who, v.ID, 0); err == nil {
			woken++
		} else {
			wantKind(t, err, drive.Rate)
		}
	}
	if woken != 200 {
		t.Errorf("%d were woken at once", woken)
	}
	s.Clock.Advance(time.Second)
	if err := s.DeletePart(t.Context(), who, all[219].ID, 0); err != nil {
		t.Errorf("a second later: %v", err)
	}
}

// H: the last part first, a part again, with other bytes, at the same time, and two clients on one path.
func TestScenarioHPartsAndPaths(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(5*mib)
	one := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	two := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	if one.ID == two.ID {
		t.Fatal("two clients share an upload by path and size alone")
	}
	s.SendAll(t, who, one, data)
	other := bytes.Clone(data)
	other[0] ^= 1
	wantKind(t, s.Send(t, who, one, 0, other), drive.PartDiffers)
	send(t, s, who, one, 0, data)

	stalled, client := io.Pipe()
	first := make(chan error, 1)
	go func() { first <- s.Put(t.Context(), who, two.ID, upload.PutPart{N: 1, Size: 2 * drive.MiB}, stalled) }()
	if _, err := client.Write(data[:1000]); err != nil {
		t.Fatal(err)
	}
	send(t, s, who, two, 1, data) // ends the first
	wantKind(t, <-first, drive.InProgress)
	s.SendAll(t, who, two, data)

	complete(t, s, who, one)
	_, _, err := s.Complete(t.Context(), who, two.ID, upload.Complete{})
	wantKind(t, err, drive.NameTaken)
	wantState(t, s, two, "active")
	if _, _, err := s.Complete(t.Context(), who, two.ID, upload.Complete{Name: "g"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/f", "/g"} {
		if !bytes.Equal(s.Read(t, who, path), data) {
			t.Errorf("%s has other bytes", path)
		}
	}
	checkClean(t, s, who)
}

// Many concurrent requests for the same parts, half of them broken: each part exists exactly once
// in the end.
func TestScenarioHSamePartAtOnce(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(5*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			n := i % v.Parts
			part := uploadtest.Part(v, n, data)
			var body io.Reader = bytes.NewReader(part)
			if i%2 == 0 {
				body = io.MultiReader(bytes.NewReader(part[:len(part)/2]), failing{})
			}
			_ = s.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: drive.ByteSize(len(part))}, body)
		})
	}
	all.Wait()
	s.SendAll(t, who, v, data)
	complete(t, s, who, v)
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, who)
}

// I: the process is killed after each acknowledged part, and while the next one comes.
func TestScenarioIKillAfterAck(t *testing.T) {
	t.Parallel()
	fate := &uploadtest.Faults{}
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t), Faults: fate})
	who, data := s.Account(t, 0), random(9*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	for n := range v.Parts {
		send(t, s, who, v, n, data)
		if n+1 < v.Parts {
			half := io.MultiReader(bytes.NewReader(uploadtest.Part(v, n+1, data)[:mib]), failing{})
			if err := s.Put(t.Context(), who, v.ID, upload.PutPart{N: n + 1, Size: drive.ByteSize(len(uploadtest.Part(v, n+1, data)))}, half); err == nil {
				t.Fatal("a torn part was accepted")
			}
		}
		s.Restart(t)
		got, err := s.Get(t.Context(), who, v.ID)
		if err != nil || fmt.Sprint(got.Received) != fmt.Sprintf("[[0 %d]]", n) {
			t.Fatalf("after part %d: %v, %v", n, got.Received, err)
		}
	}
	complete(t, s, who, v)
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, who)
}
