package upload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// several is an installation of two instances.
type several struct {
	*uploadtest.Shared
	a, b *uploadtest.Site
}

func twoInstances(t *testing.T, opt upload.Options) several {
	t.Helper()
	sh, dir := uploadtest.NewShared(), memoryDir(t)
	one := func() *uploadtest.Site {
		return uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Upload: opt, Faults: &uploadtest.Faults{}})
	}
	return several{sh, one(), one()}
}

func (s several) clean(t *testing.T, who ...drive.Who) {
	t.Helper()
	s.a.Settle()
	checkClean(t, s.b, who...)
}

func wantFile(t *testing.T, s *uploadtest.Site, who drive.Who, path string, data []byte) {
	t.Helper()
	if !bytes.Equal(s.Read(t, who, path), data) {
		t.Errorf("%s has other bytes", path)
	}
}

// Two instances fill one upload in turns, and either may complete it.
func TestTwoInstancesFillOneUpload(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(11*mib)
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	for n := range v.Parts {
		send(t, []*uploadtest.Site{s.a, s.b}[n%2], who, v, n, data)
	}
	for _, on := range []*uploadtest.Site{s.a, s.b} {
		got, err := on.Get(t.Context(), who, v.ID)
		if err != nil || fmt.Sprint(got.Received) != "[[0 5]]" {
			t.Errorf("received %v, %v", got.Received, err)
		}
	}
	complete(t, s.b, who, v)
	wantFile(t, s.a, who, "/f", data)
	complete(t, s.a, who, v) // a repeat, at the one that still holds it for active
	s.clean(t, who)
}

// For a part received by another instance, the same bytes are accepted and others refused; a part
// dropped there is not confirmed.
func TestPartOfAnotherInstance(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(5*mib)
	other := bytes.Clone(data)
	other[1] ^= 1
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s.b, who, v, 1, data)
	send(t, s.a, who, v, 0, data)
	send(t, s.b, who, v, 0, data)
	wantKind(t, s.b.Send(t, who, v, 0, other), drive.PartDiffers)
	if err := s.a.DeletePart(t.Context(), who, v.ID, 0); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.b.Complete(t.Context(), who, v.ID, upload.Complete{})
	if e := wantKind(t, err, drive.PartsMissing); fmt.Sprint(e.Args["missing"]) != "[0 2]" {
		t.Errorf("missing %v", e.Args["missing"])
	}
	send(t, s.b, who, v, 0, data) // it remembers this part, and must not answer from memory
	send(t, s.b, who, v, 2, data)
	complete(t, s.a, who, v)
	wantFile(t, s.b, who, "/f", data)
	s.clean(t, who)
}

// An instance dies in the middle of a part; the other one finishes the upload.
func TestInstanceCrashDuringPart(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(5*mib)
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s.a, who, v, 0, data)
	s.LeaveLease(v.ID, 1)
	wantKind(t, s.b.Send(t, who, v, 1, data), drive.InProgress) // the other one may be alive
	s.Clock.Advance(15 * time.Second)
	if v, err := s.b.Get(t.Context(), who, v.ID); err != nil || v.State != "active" {
		t.Fatalf("%v, %v", v.State, err)
	}
	s.Clock.Advance(6 * time.Second)
	send(t, s.b, who, v, 1, data)
	send(t, s.b, who, v, 2, data)
	complete(t, s.b, who, v)
	wantFile(t, s.b, who, "/f", data)
	s.clean(t, who)
}

// An instance without the upload in its cache does not park it while parts or bytes arrive
// elsewhere.
func TestParkByInstanceWithoutUpload(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		s := twoInstances(t, upload.Options{})
		s.SkewJournal(skew)
		who, data := s.a.Account(t, 0), random(5*mib)
		v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
		park := func() error {
			_, gen := s.b.State(t, v.ID)
			return s.b.OnPark(t.Context(), timer.Fired{Key: timer.Key{Kind: timer.Park, ID: v.ID}, Gen: gen})
		}
		s.Clock.Advance(40 * time.Second)
		send(t, s.a, who, v, 0, data)
		if err := park(); err == nil {
			t.Errorf("skew %v: parked just after a part", skew)
		}
		s.Clock.Advance(25 * time.Second)
		s.LeaveLease(v.ID, 1)
		s.Clock.Advance(10 * time.Second)
		if err := park(); err == nil {
			t.Errorf("skew %v: parked while a part is being written", skew)
		}
		wantState(t, s.a, v, "active")
		s.Clock.Advance(31 * time.Second)
		if err := park(); err != nil {
			t.Errorf("skew %v: %v", skew, err)
		}
		wantState(t, s.a, v, "parked")
		send(t, s.a, who, v, 1, data) // the first one still takes it for active
		wantState(t, s.b, v, "active")
		send(t, s.b, who, v, 2, data)
		complete(t, s.b, who, v)
		s.clean(t, who)
	}
}

// Another instance changes the state during a part; the client gets an answer that lets it
// continue.
func TestStateChangeDuringPart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, s several, who drive.Who, v upload.View) error
		want   drive.Kind
	}{
		"cancelled": {func(t *testing.T, s several, who drive.Who, v upload.View) error {
			return s.b.Cancel(t.Context(), who, v.ID)
		}, drive.Gone},
		"completed": {func(t *testing.T, s several, who drive.Who, v upload.View) error {
			_, _, err := s.b.Complete(t.Context(), who, v.ID, upload.Complete{})
			return err
		}, drive.Gone},
		"reset": {func(t *testing.T, s several, who drive.Who, _ upload.View) error {
			_, err := s.b.ReclaimAll(t.Context(), who.Account)
			return err
		}, drive.Gone},
		"renamed": {func(t *testing.T, s several, who drive.Who, v upload.View) error {
			_, err := s.b.Patch(t.Context(), who, v.ID, upload.Patch{Name: "g"})
			return err
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := twoInstances(t, upload.Options{})
			who, data := s.a.Account(t, 0), random(3*mib)
			v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
			send(t, s.a, who, v, 1, data)
			if name == "completed" { // the part on its way is one more time the same
				send(t, s.a, who, v, 0, data)
			}
			slow, client := io.Pipe()
			result := make(chan error, 1)
			go func() {
				result <- s.a.Put(t.Context(), who, v.ID, upload.PutPart{N: 0, Size: 2 * drive.MiB}, slow)
			}()
			if _, err := client.Write(data[:1000]); err != nil {
				t.Fatal(err)
			}
			if err := c.change(t, s, who, v); err != nil {
				t.Fatal(err)
			}
			_, writeErr := client.Write(data[1000 : 2*mib])
			if err := errors.Join(writeErr, client.Close()); err != nil {
				t.Fatal(err)
			}
			switch err := <-result; {
			case name == "completed" || c.want == 0:
				if err != nil {
					t.Errorf("the part: %v", err)
				}
			default:
				wantKind(t, err, c.want)
			}
			if name == "renamed" {
				complete(t, s.a, who, v)
			}
			s.clean(t, who)
		})
	}
}

// The client of a part cut off by another instance's fence is told to retry, which resumes the
// upload.
func TestFencedPartIsSentAgain(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(3*mib)
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	slow, client := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- s.a.Put(t.Context(), who, v.ID, upload.PutPart{N: 0, Size: 2 * drive.MiB}, slow)
	}()
	if _, err := client.Write(data[:1000]); err != nil {
		t.Fatal(err)
	}
	for range 3 { // stalled: its lease runs out; it may have renewed it just before
		s.Clock.Advance(time.Minute)
		s.b.Fire(t)
	}
	wantState(t, s.b, v, "parked")
	_, writeErr := client.Write(data[1000 : 2*mib])
	if err := errors.Join(writeErr, client.Close()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, <-result, drive.InProgress)
	s.b.CheckLedger(t, who)
	send(t, s.a, who, v, 0, data)
	wantState(t, s.b, v, "active")
	send(t, s.b, who, v, 1, data)
	complete(t, s.b, who, v)
	s.clean(t, who)
}

// With unknown length, each instance uses only its own grants, and the held bytes never exceed the
// reservation.
func TestUnknownLengthOnTwoInstances(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who := s.a.Account(t, 0)
	v := s.a.Start(t, who, "/f", blob.UnknownSize)
	const each = 40 * drive.MiB
	for n := range 6 {
		on := []*uploadtest.Site{s.a, s.b}[n%2]
		if err := on.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: each}, io.LimitReader(zeros{}, int64(each))); err != nil {
			t.Fatal(err)
		}
		staged, err := s.Load(t.Context(), v.Row().Ref())
		used, _ := s.a.Used(t, who)
		if err != nil || used < int64(staged.Held) {
			t.Errorf("after part %d %d bytes are held and %d reserved, %v", n, staged.Held, used, err)
		}
	}
	s.a.CheckLedger(t, who)
	s.Clock.Advance(time.Minute)
	s.b.Fire(t)
	if got := s.a.Balance(t, who); got != fmt.Sprintf("0/%d/0", 6*each) {
		t.Errorf("parked: %s", got)
	}
	if err := s.a.Cancel(t.Context(), who, v.ID); err != nil {
		t.Fatal(err)
	}
	s.clean(t, who)
}

// Any instance may get the answer to a challenge.
func TestChallengeAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	ann, bob, data := s.a.Account(t, 0), s.a.Account(t, 0), random(3*mib)
	v := s.a.Start(t, ann, "/f", drive.ByteSize(len(data)))
	s.a.SendAll(t, ann, v, data)
	complete(t, s.a, ann, v)
	claimed, err := s.a.Begin(t.Context(), bob, upload.Begin{
		Path: uploadtest.Path(t, "/g"), Size: drive.ByteSize(len(data)), Digests: blake(data),
	}, nil)
	if err != nil || claimed.Challenge == nil {
		t.Fatalf("%+v, %v", claimed, err)
	}
	seen, err := s.b.Get(t.Context(), bob, claimed.ID)
	if err != nil || seen.Challenge == nil {
		t.Fatalf("%+v, %v", seen, err)
	}
	answer, err := digest.Answer(t.Context(), bytes.NewReader(data), *seen.Challenge, digest.ProofHMAC)
	if err != nil {
		t.Fatal(err)
	}
	linked, err := s.b.AnswerChallenge(t.Context(), bob, claimed.ID, digest.ProofHMAC, answer)
	if err != nil || linked.State != "done" {
		t.Fatalf("%+v, %v", linked, err)
	}
	again, err := s.a.AnswerChallenge(t.Context(), bob, claimed.ID, digest.ProofHMAC, answer) // lost reply, other instance
	if err != nil || again.State != "done" {
		t.Errorf("%+v, %v", again, err)
	}
	s.clean(t, ann, bob)
}

// An upload finished elsewhere answers later parts like one finished here.
func TestPartsAfterUploadDoneElsewhere(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(3*mib)
	wrong := func() *digest.Verifier {
		return digest.NewVerifier([]digest.FieldDigest{{Algo: digest.FieldSHA256, Value: make([]byte, 32)}})
	}
	for name, p := range map[string]upload.PutPart{
		"the same":     {N: 0, Size: 2 * drive.MiB},
		"too short":    {N: 0, Size: 5},
		"no such part": {N: 7, Size: 2 * drive.MiB},
		"not declared": {N: 0, Size: 2 * drive.MiB, Verify: wrong()},
	} {
		v := s.a.Start(t, who, "/"+name, 3*drive.MiB)
		send(t, s.a, who, v, 0, data)
		send(t, s.b, who, v, 1, data)
		complete(t, s.b, who, v)
		err := s.a.Put(t.Context(), who, v.ID, p, bytes.NewReader(data[:p.Size]))
		if !drive.IsKind(err, drive.WrongState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.clean(t, who)
}
