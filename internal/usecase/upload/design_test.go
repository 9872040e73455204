package upload_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/emmansun/gmsm/sm3"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// "No timer starts a reclaim within min(1 h, abandon) of an instance becoming ready or of a
// detected loss."
func TestNoReclaimSoonAfterStartOrLoss(t *testing.T) {
	t.Parallel()
	for _, abandon := range []time.Duration{0, 10 * time.Minute} {
		for _, event := range []string{"restart", "loss"} {
			s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{Abandon: abandon}})
			who, data := s.Account(t, 0), random(3*mib)
			v, cancelled := s.Start(t, who, "/f", drive.ByteSize(len(data))), s.Start(t, who, "/g", drive.ByteSize(len(data)))
			send(t, s, who, v, 0, data)
			send(t, s, who, cancelled, 0, data)
			s.Clock.Advance(31 * time.Second)
			s.Fire(t)
			wantState(t, s, v, "parked")
			s.Clock.Advance(8 * 24 * time.Hour)
			if event == "restart" {
				s.Restart(t)
			} else {
				s.SuspendReclaims()
				s.Queue.Forget()
				if err := s.Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			hold := time.Hour
			if abandon > 0 {
				hold = abandon
			}
			s.AdvanceAndFire(t, hold-time.Minute)
			wantState(t, s, v, "parked")
			if v, err := s.Get(t.Context(), who, v.ID); err != nil || v.ExpiresAt < drive.TimeOf(s.Clock.Now().Add(time.Minute)) {
				t.Errorf("it is kept for another minute and expires at %v: %v", v.ExpiresAt, err)
			}
			if err := s.Cancel(t.Context(), who, cancelled.ID); err != nil {
				t.Errorf("a cancel is not held back: %v", err)
			}
			s.AdvanceAndFire(t, 2*time.Minute)
			wantState(t, s, v, "gone")
			checkClean(t, s, who)
		}
	}
}

// "Aliases, verified when the client declares them": right ones pass and are kept, a wrong one
// keeps the parts.
func TestDeclaredDigests(t *testing.T) {
	t.Parallel()
	data := random(5*mib + 3)
	s256, m5, s3 := sha256.Sum256(data), md5.Sum(data), sm3.Sum(data)
	right := digest.Set{digest.SHA256: s256[:], digest.MD5: m5[:], digest.SM3: s3[:]}
	for _, algo := range []digest.Algo{digest.Blake3, digest.SHA256, digest.MD5, digest.SM3} {
		for _, when := range []string{"begin", "complete"} {
			for _, order := range []string{"forwards", "backwards"} {
				t.Run(fmt.Sprint(algo, " ", when, " ", order), func(t *testing.T) {
					t.Parallel()
					s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
					who := s.Account(t, 0)
					wrong := digest.Set{algo: bytes.Repeat([]byte{1}, algo.Size())}
					b := upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data))}
					c := upload.Complete{}
					if when == "begin" {
						b.Digests = wrong
					} else {
						c.Digests = wrong
					}
					v, err := s.Begin(t.Context(), who, b, nil)
					if err != nil {
						t.Fatal(err)
					}
					for i := range v.Parts {
						if order == "backwards" {
							i = v.Parts - 1 - i
						}
						send(t, s, who, v, i, data)
					}
					_, _, err = s.Complete(t.Context(), who, v.ID, c)
					wantKind(t, err, drive.DigestMismatch)
					got, err := s.Get(t.Context(), who, v.ID)
					if err != nil || got.State != "active" || fmt.Sprint(got.Received) != "[[0 2]]" {
						t.Fatalf("%+v, %v", got, err)
					}
					all := digest.Set{digest.Blake3: blake(data)[digest.Blake3]}
					maps.Copy(all, right)
					if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Digests: all}); err != nil {
						t.Fatal(err)
					}
					n, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, uploadtest.Path(t, "/f"))
					if err != nil {
						t.Fatal(err)
					}
					kept, err := s.Content.Aliases(t.Context(), s.DB, n.Blob)
					if err != nil || !kept.Equal(all) {
						t.Errorf("kept %v, %v", kept.Hex(), err)
					}
					checkClean(t, s, who)
				})
			}
		}
	}
}

// A part that is deleted and sent again is hashed again, even if it was already hashed.
func TestDigestOfAPartSentAgain(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who, first, data := s.Account(t, 0), random(5*mib), random(5*mib)
	sum := sha256.Sum256(data)
	v, err := s.Begin(t.Context(), who, upload.Begin{
		Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Digests: digest.Set{digest.SHA256: sum[:]},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range v.Parts {
		send(t, s, who, v, n, first)
		s.Settle()
	}
	for n := range v.Parts {
		if err := s.DeletePart(t.Context(), who, v.ID, n); err != nil {
			t.Fatal(err)
		}
		send(t, s, who, v, n, data)
	}
	complete(t, s, who, v)
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, who)
}

// "MD5 alone never links content: a file whose MD5 equals another blob's but whose BLAKE3 differs
// is simply a second blob."
func TestMD5CollisionIsASecondBlob(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	other, data := random(3*mib), random(3*mib)
	ann, bob := owner(t, s, other), s.Account(t, 0)
	sum := md5.Sum(data)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // as if other collided with data
		_, err := tx.Exec(ctx, `INSERT INTO aliases (algo, digest, blob_id) SELECT 'md5', ?, id FROM blobs`, hex.EncodeToString(sum[:]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, who := range []drive.Who{bob, ann} { // not even where the collision is one's own
		v, err := s.Begin(t.Context(), who, upload.Begin{
			Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Digests: digest.Set{digest.MD5: sum[:]},
		}, nil)
		if err != nil || v.State != "active" || v.Challenge == nil {
			t.Fatalf("%s, %v, %v", v.State, v.Challenge, err)
		}
		got, err := s.AnswerChallenge(t.Context(), who, v.ID, digest.ProofHMAC, answer(t, data, *v.Challenge))
		if want := []string{"active", "done"}[i]; err != nil || got.State != want { // by now the right one is there too
			t.Fatalf("a proof of the other file: %s, %v", got.State, err)
		}
		if got.State == "active" {
			s.SendAll(t, who, v, data)
			complete(t, s, who, v)
		}
		if !bytes.Equal(s.Read(t, who, "/f"), data) {
			t.Error("the file has other bytes")
		}
	}
	checkClean(t, s, ann, bob)
}

// "Replace acts only on the version that begin saw, else 409", and complete may choose again.
func TestReplaceOfAChangedVersion(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	put := func(size int) error {
		_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(size)}, bytes.NewReader(data[:size]))
		return err
	}
	if err := put(10); err != nil {
		t.Fatal(err)
	}
	v, err := s.Begin(t.Context(), who, upload.Begin{
		Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Conflict: drive.ConflictReplace,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SendAll(t, who, v, data)
	if err := put(20); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Complete(t.Context(), who, v.ID, upload.Complete{})
	wantKind(t, err, drive.VersionChanged)
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Conflict: drive.ConflictReplace}); err != nil {
		t.Fatalf("on the version that is there now: %v", err)
	}
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, who)
}

// "Where more than one session sent parts, complete must carry a strong digest (428)."
func TestPartsOfTwoSessionsNeedADigest(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s, who, v, 0, data)
	elsewhere := who
	elsewhere.Session = drive.NewID[drive.SessionID]()
	send(t, s, elsewhere, v, 1, data)
	_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
	wantKind(t, err, drive.DigestRequired)
	weak := md5.Sum(data)
	_, _, err = s.Complete(t.Context(), who, v.ID, upload.Complete{Digests: digest.Set{digest.MD5: weak[:]}})
	wantKind(t, err, drive.DigestRequired)
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Digests: blake(data)}); err != nil {
		t.Fatal(err)
	}
	checkClean(t, s, who)
}

// With a total below the usage, reads, deletes, parks and seals of charged uploads continue, and
// growth is refused.
func TestTotalBelowUsageRefusesGrowth(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 50*drive.MiB), random(5*mib)
	sealed, parked, half := s.Start(t, who, "/a", 5*drive.MiB), s.Start(t, who, "/b", 5*drive.MiB), s.Start(t, who, "/c", 5*drive.MiB)
	s.SendAll(t, who, sealed, data)
	s.SendAll(t, who, parked, data)
	send(t, s, who, half, 0, data)
	s.SetTotal(t, who, 1)
	complete(t, s, who, sealed)
	s.AdvanceAndFire(t, time.Minute)
	wantState(t, s, parked, "parked")
	complete(t, s, who, parked)
	wantKind(t, s.Send(t, who, half, 1, data), drive.Quota)
	_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/d"), Size: 1}, nil)
	wantKind(t, err, drive.Quota)
	if err := s.Cancel(t.Context(), who, half.ID); err != nil {
		t.Fatal(err)
	}
	checkClean(t, s, who)
}

// A begin for an open upload returns it with its received parts; a merely similar begin gets a new
// upload.
func TestBeginFindsOpenUpload(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	b := upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Fingerprint: "dev-1-2"}
	v, err := s.Begin(t.Context(), who, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, who, v, 1, data)
	for _, state := range []string{"active", "parked"} {
		if state == "parked" {
			s.AdvanceAndFire(t, time.Minute)
		}
		again, err := s.Begin(t.Context(), who, b, nil)
		if err != nil || again.ID != v.ID || again.State != state || fmt.Sprint(again.Received) != "[[1 1]]" {
			t.Fatalf("%s: %+v, %v", state, again, err)
		}
	}
	for _, other := range []upload.Begin{
		{Path: b.Path, Size: b.Size},
		{Path: b.Path, Size: b.Size - 1, Fingerprint: b.Fingerprint},
		{Path: uploadtest.Path(t, "/g"), Size: b.Size, Fingerprint: b.Fingerprint},
	} {
		if w, err := s.Begin(t.Context(), who, other, nil); err != nil || w.ID == v.ID {
			t.Errorf("%+v: %v, %v", other, w.ID, err)
		}
	}
	checkClean(t, s, who)
}
