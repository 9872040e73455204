package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// J: the disk is full. Uploads get a clear error, reads, cancels and reclaims continue, nothing is
// lost, and uploads continue when there is space again.
func TestScenarioJDiskFull(t *testing.T) {
	t.Parallel()
	full := drive.Fail(drive.DiskFull)
	for _, point := range []string{"staging.Write", "staging.Fence", "staging.Seal", "tx.exec", "tx.commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			fate := &uploadtest.Faults{}
			s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t), Faults: fate})
			who, data := s.Account(t, 0), random(5*mib)
			if _, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/old"), Size: 17}, bytes.NewReader(data[:17])); err != nil {
				t.Fatal(err)
			}
			v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
			idle := s.Start(t, who, "/idle", drive.ByteSize(len(data)))
			s.SendAll(t, who, v, data)
			fate.Set(uploadtest.Rule{Point: point, N: 1, Effect: uploadtest.Always, Err: full})
			if _, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/g"), Size: 1}, nil); err != nil {
				wantKind(t, err, drive.DiskFull)
			}
			if err := s.Send(t, who, idle, 0, data); err != nil {
				wantKind(t, err, drive.DiskFull)
			}
			if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
				wantKind(t, err, drive.DiskFull)
			}
			s.AdvanceAndFire(t, time.Minute)
			s.Settle() // or a seal that has met the full disk is still the one that complete waits for below
			if !bytes.Equal(s.Read(t, who, "/old"), data[:17]) {
				t.Error("reads do not go on")
			}
			if _, err := s.Get(t.Context(), who, v.ID); err != nil {
				t.Errorf("get: %v", err)
			}
			err := s.Cancel(t.Context(), who, idle.ID)
			if point[:2] != "tx" && err != nil {
				t.Errorf("cancel: %v", err)
			}
			if !fate.Clear() {
				t.Fatal("nothing failed")
			}
			if err := s.Cancel(t.Context(), who, idle.ID); err != nil {
				t.Fatal(err)
			}
			complete(t, s, who, v)
			if !bytes.Equal(s.Read(t, who, "/f"), data) {
				t.Error("the file has other bytes")
			}
			s.CheckLedger(t, who)
		})
	}
}

// J, the floor: space reserved for uploads never reduces the minimum of free space.
func TestScenarioJFloor(t *testing.T) {
	t.Parallel()
	room := 10 * drive.MiB
	s := uploadtest.New(t, uploadtest.Options{
		Upload: upload.Options{MinFree: drive.MiB}, Store: func(b blob.Store) blob.Store { return roomy{b, room} },
	})
	who := s.Account(t, 0)
	v := s.Start(t, who, "/a", 8*drive.MiB)
	_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/b"), Size: 2 * drive.MiB}, nil)
	wantKind(t, err, drive.DiskFull)
	s.AdvanceAndFire(t, time.Minute) // parked: it holds nothing any more
	w := s.Start(t, who, "/b", 2*drive.MiB)
	wantKind(t, s.Send(t, who, v, 0, random(8*mib)), drive.DiskFull) // its resume needs 8 MiB again
	for _, x := range []upload.View{v, w} {
		if err := s.Cancel(t.Context(), who, x.ID); err != nil {
			t.Fatal(err)
		}
	}
	if p := s.Promised(); p != 0 {
		t.Errorf("%d bytes are promised to nobody", p)
	}
	checkClean(t, s, who)
}

type roomy struct {
	blob.Store
	free drive.ByteSize
}

func (r roomy) Free(context.Context) (drive.ByteSize, error) { return r.free, nil }

func blake(data []byte) digest.Set {
	sum := blake3.Sum256(data)
	return digest.Set{digest.Blake3: sum[:]}
}

func answer(t *testing.T, data []byte, c digest.Challenge) []byte {
	t.Helper()
	a, err := digest.Answer(t.Context(), bytes.NewReader(data), c, digest.ProofHMAC)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// owner creates an account that has the file.
func owner(t *testing.T, s *uploadtest.Site, data []byte) drive.Who {
	t.Helper()
	who := s.Account(t, 0)
	v := s.Start(t, who, "/mine", drive.ByteSize(len(data)))
	s.SendAll(t, who, v, data)
	complete(t, s, who, v)
	return who
}

// L: a hash alone links nothing; the content does, and it is charged.
func TestScenarioLInstantUpload(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	data := random(3 * mib)
	ann, bob := owner(t, s, data), s.Account(t, 10*drive.MiB)
	begin := func(who drive.Who, path string, d digest.Set) upload.View {
		t.Helper()
		v, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(data)), Digests: d}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := begin(ann, "/again", blake(data)); v.State != "done" || s.Balance(t, ann) != fmt.Sprintf("%d/0/0", 6*mib) {
		t.Errorf("content of one's own: %s, %s", v.State, s.Balance(t, ann))
	}
	v := begin(bob, "/f", blake(data))
	if v.State != "active" || v.Challenge == nil {
		t.Fatalf("a claim got %s, challenge %v", v.State, v.Challenge)
	}
	// Right: linked and charged.
	done, err := s.AnswerChallenge(t.Context(), bob, v.ID, digest.ProofHMAC, answer(t, data, *v.Challenge))
	if err != nil || done.State != "done" || s.Balance(t, bob) != fmt.Sprintf("%d/0/0", 3*mib) {
		t.Fatalf("the right answer: %s, %v, %s", done.State, err, s.Balance(t, bob))
	}
	if !bytes.Equal(s.Read(t, bob, "/f"), data) {
		t.Error("the file has other bytes")
	}
	// Wrong: an ordinary upload, and no challenge for a day.
	carl := s.Account(t, 0)
	w := begin(carl, "/f", blake(data))
	wrong := answer(t, data, *w.Challenge)
	wrong[7] ^= 1
	refused, err := s.AnswerChallenge(t.Context(), carl, w.ID, digest.ProofHMAC, wrong)
	if err != nil || refused.State != "active" || refused.Challenge != nil {
		t.Fatalf("a wrong answer: %+v, %v", refused, err)
	}
	late, err := s.AnswerChallenge(t.Context(), carl, w.ID, digest.ProofHMAC, answer(t, data, *w.Challenge))
	if err != nil || late.State != "active" {
		t.Fatalf("the right answer after a wrong one: %s, %v", late.State, err)
	}
	if x := begin(carl, "/g", blake(data)); x.Challenge != nil {
		t.Error("a challenge for one who has just failed it")
	}
	s.SendAll(t, carl, w, data)
	complete(t, s, carl, w)
	checkClean(t, s, ann, bob, carl)
}

// L: unknown content and content that the user may not link get the same reply.
func TestScenarioLUnknownAndForbiddenLookAlike(t *testing.T) {
	t.Parallel()
	for _, scope := range []upload.Scope{upload.ScopeUser, upload.ScopeOff} {
		s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{InstantScope: func() upload.Scope { return scope }}})
		data, unknown := random(3*mib), random(3*mib)
		owner(t, s, data)
		bob := s.Account(t, 0)
		var answers []string
		for i, d := range [][]byte{data, unknown} {
			v, err := s.Begin(t.Context(), bob, upload.Begin{
				Path: uploadtest.Path(t, fmt.Sprint("/f", i)), Size: drive.ByteSize(len(d)), Digests: blake(d),
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, fmt.Sprintf("%s %v %v %v", v.State, v.Challenge, v.Received, v.Reserved))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: %q and %q", scope, answers[0], answers[1])
		}
	}
}

// L: the last owner deletes the content during another user's challenge. That upload continues as
// an ordinary one and is not linked to deleted content: a reference is added only while refs > 0.
func TestScenarioLDeletedDuringChallenge(t *testing.T) {
	t.Parallel()
	fate := &uploadtest.Faults{}
	s := uploadtest.New(t, uploadtest.Options{Faults: fate})
	data := random(3 * mib)
	ann, bob := owner(t, s, data), s.Account(t, 0)
	v, err := s.Begin(t.Context(), bob, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Digests: blake(data)}, nil)
	if err != nil || v.Challenge == nil {
		t.Fatalf("%v, %v", v.Challenge, err)
	}
	right := answer(t, data, *v.Challenge)
	fate.Set(uploadtest.Rule{Point: "staging.Fence", N: 1, Effect: uploadtest.RunBefore, Do: func() { deleteVersions(t, s, ann, "/mine") }})
	got, err := s.AnswerChallenge(t.Context(), bob, v.ID, digest.ProofHMAC, right) // verified, and then it has gone
	if err != nil || got.State != "active" {
		t.Fatalf("proof: %s, %v", got.State, err)
	}
	if !fate.Clear() {
		t.Fatal("nothing was deleted")
	}
	s.SendAll(t, bob, v, data)
	complete(t, s, bob, v)
	if !bytes.Equal(s.Read(t, bob, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, ann, bob)
}

// deleteVersions deletes a file for good, but only its rows.
func deleteVersions(t *testing.T, s *uploadtest.Site, who drive.Who, path string) {
	t.Helper()
	n, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, uploadtest.Path(t, path))
	if err != nil {
		t.Error(err)
		return
	}
	err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, e1 := tx.Exec(ctx, `DELETE FROM versions WHERE node_id = ?`, n.ID)
		_, e2 := tx.Exec(ctx, `DELETE FROM nodes WHERE id = ?`, n.ID)
		_, e3 := tx.Exec(ctx, `UPDATE ledgers SET finished = finished - ? WHERE account_id = ?`, n.Size, who.Account)
		return errors.Join(e1, e2, e3, s.Content.Release(ctx, tx, who.Account, n.Blob))
	})
	if err != nil {
		t.Error(err)
	}
}

// L: a user without quota cannot link content either, and can after freeing some.
func TestScenarioLQuota(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	data := random(3 * mib)
	ann, bob := owner(t, s, data), s.Account(t, 4*drive.MiB)
	v, err := s.Begin(t.Context(), bob, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Digests: blake(data)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, time.Minute)
	s.SetTotal(t, bob, drive.MiB)
	_, err = s.AnswerChallenge(t.Context(), bob, v.ID, digest.ProofHMAC, answer(t, data, *v.Challenge))
	wantKind(t, err, drive.Quota)
	s.SetTotal(t, bob, 4*drive.MiB)
	done, err := s.AnswerChallenge(t.Context(), bob, v.ID, digest.ProofHMAC, answer(t, data, *v.Challenge))
	if err != nil || done.State != "done" {
		t.Fatalf("%s, %v", done.State, err)
	}
	checkClean(t, s, ann, bob)
}

// M: a seal does the same at every size: it reads no byte again and executes the same number of
// statements.
func TestScenarioMSealReadsNothing(t *testing.T) {
	t.Parallel()
	var calls []int
	for _, parts := range []int{2, 9, 33} {
		fate := &uploadtest.Faults{}
		s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t), Faults: fate, Upload: upload.Options{PartSize: drive.MiB}})
		who, data := s.Account(t, 0), random(parts*mib)
		v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
		s.SendAll(t, who, v, data)
		fate.Set(uploadtest.Rule{Point: "staging.OpenStaged", Effect: uploadtest.Pass})
		complete(t, s, who, v)
		if n := fate.Matched(); n != 0 {
			t.Errorf("%d parts: the bytes were opened %d times", parts, n)
		}
		w := s.Start(t, who, "/g", drive.ByteSize(len(data)))
		data[0] ^= 1
		s.SendAll(t, who, w, data)
		fate.Set(uploadtest.Rule{Point: "", Effect: uploadtest.Pass})
		complete(t, s, who, w)
		calls = append(calls, fate.Matched())
	}
	if calls[0] != calls[1] || calls[1] != calls[2] {
		t.Errorf("calls by size: %v", calls)
	}
}
