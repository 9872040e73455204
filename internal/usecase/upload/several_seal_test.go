package upload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func sha(data []byte) digest.Set {
	sum := sha256.Sum256(data)
	return digest.Set{digest.SHA256: sum[:]}
}

// If parts cannot be read earlier, declared digests are verified after the seal and before the file
// is visible.
func TestDigestReadAfterSeal(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(5*mib)
	bad := bytes.Clone(data)
	bad[3*mib] ^= 1
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.a.SendAll(t, who, v, bad)
	_, _, err := s.a.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(data)})
	wantKind(t, err, drive.DigestMismatch)
	wantState(t, s.b, v, "active")
	if _, err := s.b.Tree.Resolve(t.Context(), s.b.DB, who.Account, uploadtest.Path(t, "/f")); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("P3: a wrong file is visible: %v", err)
	}
	got, err := s.b.Get(t.Context(), who, v.ID)
	if err != nil || fmt.Sprint(got.Received) != "[[0 2]]" {
		t.Errorf("received %v, %v", got.Received, err)
	}
	if err := s.b.DeletePart(t.Context(), who, v.ID, 1); err != nil { // elsewhere: it finds the parts sealed
		t.Fatal(err)
	}
	send(t, s.a, who, v, 1, data)
	if _, _, err := s.b.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(data)}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s.a, who, "/f", data)
	found, err := s.a.Content.Candidates(t.Context(), s.a.DB, sha(data), drive.ByteSize(len(data)))
	if err != nil || len(found) != 1 {
		t.Errorf("the verified digest is not known: %v, %v", found, err)
	}
	s.clean(t, who)
}

// The content left by a failed seal is removed with the upload.
func TestContentOfFailedSealIsRemoved(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(3*mib)
	for i, end := range []func(upload.View) error{
		func(v upload.View) error { return s.b.Cancel(t.Context(), who, v.ID) },
		func(upload.View) error { s.b.AdvanceAndFire(t, 9*24*time.Hour); return nil },
	} {
		v := s.a.Start(t, who, fmt.Sprint("/", i), drive.ByteSize(len(data)))
		s.a.SendAll(t, who, v, data)
		_, _, err := s.a.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(nil)})
		wantKind(t, err, drive.DigestMismatch)
		if err := end(v); err != nil {
			t.Fatal(err)
		}
		wantState(t, s.a, v, "gone")
		s.clean(t, who)
	}
}

// After a loss of the journal, parts of unknown content are read once after the seal and verified.
func TestLostJournal(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"parts", "sealed"} {
		for name, declare := range map[string]func([]byte) digest.Set{"sha-256": sha, "blake3": blake, "none": nil} {
			s := twoInstances(t, upload.Options{})
			who, data := s.a.Account(t, 0), random(5*mib)
			c := upload.Complete{}
			if declare != nil {
				c.Digests = declare(data)
			}
			v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
			send(t, s.a, who, v, 0, data)
			send(t, s.a, who, v, 2, data)
			if at == "parts" {
				s.ForgetJournals()
			}
			send(t, s.b, who, v, 1, data)
			if at == "sealed" { // by a seal that came to nothing
				if err := s.Seal(t.Context(), v.Row().Ref(), v.Row().Size); err != nil {
					t.Fatal(err)
				}
				s.ForgetJournals()
			}
			if _, _, err := s.b.Complete(t.Context(), who, v.ID, c); err != nil {
				t.Fatalf("%s, %s: %v", at, name, err)
			}
			wantFile(t, s.a, who, "/f", data)
			// The recomputed digests equal the original ones: the same file links by them.
			again, err := s.a.Begin(t.Context(), who, upload.Begin{
				Path: uploadtest.Path(t, "/g"), Size: drive.ByteSize(len(data)), Digests: blake(data),
			}, nil)
			if err != nil || again.State != "done" {
				t.Errorf("%s: %s, %v", at, again.State, err)
			}
			s.clean(t, who)
		}
	}
}

// A part of unknown content is replaced when it is sent again.
func TestUnreadPartIsReplaced(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(3*mib)
	bad := bytes.Clone(data)
	bad[0] ^= 1
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.a.SendAll(t, who, v, bad)
	s.ForgetJournals()
	send(t, s.b, who, v, 0, data)
	complete(t, s.a, who, v)
	wantFile(t, s.a, who, "/f", data)
	s.clean(t, who)
}

// Two concurrent Completes at two instances create one file, and both report it.
func TestTwoInstancesCompleteAtOnce(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(3*mib)
	for i := range 20 {
		v := s.a.Start(t, who, fmt.Sprint("/", i), drive.ByteSize(len(data)))
		s.a.SendAll(t, who, v, data)
		type answer struct {
			v       upload.View
			created bool
			err     error
		}
		answers := make(chan answer, 2)
		for _, on := range []*uploadtest.Site{s.a, s.b} {
			go func() {
				v, created, err := on.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(data)})
				answers <- answer{v, created, err}
			}()
		}
		one, two := <-answers, <-answers
		if err := errors.Join(one.err, two.err); err != nil || one.created == two.created || one.v.Node == nil || two.v.Node == nil ||
			one.v.Node.ID != two.v.Node.ID {
			t.Fatalf("%v: %+v\n%+v", err, one, two)
		}
	}
	s.clean(t, who)
}

// If the sealing instance dies, a timer makes another one redo the seal.
func TestSealIsRedoneByAnotherInstance(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Die, uploadtest.DieAfter} {
		sh, dir, fate := uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
		s := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: fate})
		other := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh})
		who, data := s.Account(t, 0), random(3*mib)
		v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
		s.SendAll(t, who, v, data)
		fate.Set(uploadtest.Rule{Point: "staging.Seal", N: 1, Effect: how})
		if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err == nil {
			t.Fatal("the dead answer")
		}
		other.AdvanceAndFire(t, 20*time.Second)
		other.Settle()
		wantState(t, other, v, "done")
		wantFile(t, other, who, "/f", data)
		checkClean(t, other, who)
		fate.Clear()
	}
}

// While a store assembles the parts for another instance, they are in neither place for a moment.
// The upload must not end because of that.
func TestBytesBeingAssembledAreNotLost(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"staging.Seal", "staging.Load"} {
		sh, dir, fate := uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
		s := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: fate})
		who, data := s.Account(t, 0), random(3*mib)
		v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
		s.SendAll(t, who, v, data)
		fate.Set(uploadtest.Rule{Point: "staging.Seal", N: 1, Effect: uploadtest.Fail}) // left in sealing
		if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err == nil {
			t.Fatal("the fault was not reported")
		}
		fate.Set(uploadtest.Rule{Point: point, N: 1, Effect: uploadtest.Always, Err: drive.Fail(drive.NotFound)})
		s.AdvanceAndFire(t, 20*time.Second)
		s.Settle()
		if got, err := s.Get(t.Context(), who, v.ID); err != nil || fmt.Sprint(got.Received) != "[[0 1]]" {
			t.Errorf("received %v, %v: all has arrived", got.Received, err)
		}
		if parts, err := s.ListParts(t.Context(), who, v.ID); len(parts) != 2 {
			wantKind(t, err, drive.InProgress)
		}
		if !fate.Clear() {
			t.Fatalf("%s was not asked", point)
		}
		wantState(t, s, v, "sealing")
		s.AdvanceAndFire(t, 20*time.Second)
		s.Settle()
		wantState(t, s, v, "done")
		wantFile(t, s, who, "/f", data)
		checkClean(t, s, who)
	}
}

// Bytes missing for a long time are lost: the upload ends and its charge is refunded.
func TestMissingBytesAreLostAfterTimeout(t *testing.T) {
	t.Parallel()
	sh, dir, fate := uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
	s := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Faults: fate})
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.SendAll(t, who, v, data)
	fate.Set(uploadtest.Rule{Point: "staging.Seal", N: 1, Effect: uploadtest.Always, Err: drive.Fail(drive.NotFound)})
	_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
	wantKind(t, err, drive.Unavailable)
	for range 40 { // 20 min
		s.AdvanceAndFire(t, 30*time.Second)
		s.Settle()
	}
	fate.Clear()
	wantState(t, s, v, "gone")
	checkClean(t, s, who)
}

// capsStaging is a staging with other Caps.
type capsStaging struct {
	blob.Staging
	caps blob.Caps
}

func (p capsStaging) Caps() blob.Caps { return p.caps }

func TestSmallestPartOfTheStore(t *testing.T) {
	t.Parallel()
	caps := blob.Caps{ReadableParts: true, MinPart: 5 * drive.MiB}
	s := uploadtest.New(t, uploadtest.Options{Staging: func(u blob.Staging) blob.Staging { return capsStaging{u, caps} }})
	who := s.Account(t, 0)
	_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.GiB, PartSize: 4 * drive.MiB}, nil)
	if e := wantKind(t, err, drive.BadRequest); e.Args["min"] != 8*drive.MiB {
		t.Errorf("the least is %v", e.Args["min"])
	}
	if v := s.Start(t, who, "/f", drive.GiB); v.PartSize != 8*drive.MiB {
		t.Errorf("parts of %v", v.PartSize)
	}
}

// An instance declared ended writes nothing more and leaves nothing.
func TestEndedInstanceWritesNothing(t *testing.T) {
	t.Parallel()
	ended := drive.Fail(drive.Stopping)
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{CheckInstance: func(context.Context, *sqldb.Tx) error { return ended }}})
	who := s.Account(t, 0)
	_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: 100}, bytes.NewReader(make([]byte, 100)))
	wantKind(t, err, drive.Stopping)
	_, err = s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: 100}, nil)
	wantKind(t, err, drive.Stopping)
	checkClean(t, s, who)
	if got := s.Balance(t, who); got != "0/0/0" {
		t.Errorf("the ledger is %s", got)
	}
}
