package upload_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// damage is a kind of damage to stored bytes.
type damage struct {
	name string
	do   func(t *testing.T, path string, at, size int64)
}

var (
	gone = damage{"gone", func(t *testing.T, path string, _, _ int64) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}}
	shortened = damage{"cut", func(t *testing.T, path string, at, size int64) {
		if err := os.Truncate(path, at+size-1); err != nil {
			t.Fatal(err)
		}
	}}
	flipped = damage{"a bit flipped", func(t *testing.T, path string, at, size int64) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at+size/2); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b, at+size/2); err != nil {
			t.Fatal(err)
		}
	}}
)

// damageFile damages the stored bytes of a file, in a pack or alone.
func damageFile(t *testing.T, s *uploadtest.Site, who drive.Who, path string, d damage) {
	t.Helper()
	n, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, uploadtest.Path(t, path))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Content.Find(t.Context(), s.DB, n.Blob)
	if err != nil {
		t.Fatal(err)
	}
	name, at := b.File, int64(0)
	slot, packed := blob.SlotOf(name)
	if packed {
		name, at = slot.Pack, slot.First<<12+40
	}
	shard, _ := blob.ShardOf(name)
	file := filepath.Join(s.Dir, blob.ShardPath(shard, name))
	if packed {
		file += ".pack"
	}
	d.do(t, file, at, int64(b.Size))
}

// store stores a whole file.
func store(t *testing.T, s *uploadtest.Site, who drive.Who, path string, data []byte) {
	t.Helper()
	_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(data))}, bytes.NewReader(data))
	if err != nil {
		t.Fatalf("store %s: %v", path, err)
	}
}

// lay stores whole files as a batch does.
func lay(t *testing.T, s *uploadtest.Site, who drive.Who, files map[string][]byte) {
	t.Helper()
	var all []*upload.UnsyncedFile
	for path, data := range files {
		p := upload.PutFile{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(data))}
		l, err := s.PutUnsynced(t.Context(), who, p, nil, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	err := upload.SyncFiles(t.Context(), s.Sessions, all)
	if err == nil {
		err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return s.PublishSynced(ctx, tx, who.Account, all) })
	}
	if err = s.ReleaseUnsynced(t.Context(), err, all); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if _, _, err := l.Result(); err != nil {
			t.Fatal(err)
		}
	}
}

// An upload whose content is stored but lost or damaged replaces it, for every kind of upload.
func TestUploadReplacesDamagedContent(t *testing.T) {
	t.Parallel()
	const old = 61 * 24 * time.Hour
	sent := func(t *testing.T, s *uploadtest.Site, who drive.Who, data []byte) {
		v := s.Start(t, who, "/again", drive.ByteSize(len(data)))
		s.SendAll(t, who, v, data)
		complete(t, s, who, v)
	}
	put := func(t *testing.T, s *uploadtest.Site, who drive.Who, data []byte) { store(t, s, who, "/again", data) }
	batch := func(t *testing.T, s *uploadtest.Site, who drive.Who, data []byte) {
		lay(t, s, who, map[string][]byte{"/again": data, "/more": data, "/other": random(10)})
	}
	for _, c := range []struct {
		name  string
		size  int
		bring func(t *testing.T, s *uploadtest.Site, who drive.Who, data []byte)
		by    []damage
		after time.Duration // since the content was stored
	}{
		{"a small file", 3000, put, []damage{gone, shortened, flipped}, 0},
		{"a batch of small files", 3000, batch, []damage{gone, shortened, flipped}, 0},
		{"a file of one part", mib, put, []damage{gone, shortened}, 0},
		{"a batch of files of one part", mib, batch, []damage{gone, shortened}, 0},
		{"a file of parts", 5 * mib, sent, []damage{gone, shortened}, 0},
		{"an old file of one part", mib, put, []damage{flipped}, old},
		{"an old file of parts", 5 * mib, sent, []damage{flipped}, old},
	} {
		for _, d := range c.by {
			t.Run(c.name+" "+d.name, func(t *testing.T) {
				t.Parallel()
				s := uploadtest.New(t, uploadtest.Options{})
				ann, bob, data := s.Account(t, 0), s.Account(t, 0), random(c.size)
				store(t, s, ann, "/mine", data)
				s.Restart(t) // a pack that was written to is closed
				damageFile(t, s, ann, "/mine", d)
				s.Clock.Advance(c.after)
				c.bring(t, s, bob, data)
				for who, path := range map[drive.Who]string{ann: "/mine", bob: "/again"} {
					if !bytes.Equal(s.Read(t, who, path), data) {
						t.Errorf("%s has other bytes", path)
					}
				}
				s.CheckLedger(t, bob)
				if left := s.CheckBlobs(t); len(left) > 0 {
					t.Errorf("left are %v", left)
				}
			})
		}
	}
}

// Damaged content is not linked: the client sends the bytes, which repair it.
func TestDamagedContentIsNotLinked(t *testing.T) {
	t.Parallel()
	for _, d := range []damage{gone, shortened} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{})
			data := random(3 * mib)
			ann, bob := owner(t, s, data), s.Account(t, 0)
			damageFile(t, s, ann, "/mine", d)
			p := upload.PutFile{Path: uploadtest.Path(t, "/linked"), Size: drive.ByteSize(len(data)), Digests: blake(data)}
			if err := upload.CheckOwned(t.Context(), s.Sessions, ann, p); !drive.IsKind(err, drive.NotFound) {
				t.Errorf("a batch may link to it: %v", err)
			}
			if v := claimAt(t, s, bob, "/proof", data); v.Challenge != nil {
				t.Error("somebody else is asked about it")
			}
			v := claimAt(t, s, ann, "/again", data)
			if v.State != "active" || v.Challenge != nil {
				t.Fatalf("it is %s, asked %v", v.State, v.Challenge != nil)
			}
			s.SendAll(t, ann, v, data)
			complete(t, s, ann, v)
			if !bytes.Equal(s.Read(t, ann, "/mine"), data) {
				t.Error("the first one was not healed")
			}
			if err := upload.CheckOwned(t.Context(), s.Sessions, ann, p); err != nil {
				t.Errorf("once healed: %v", err)
			}
		})
	}
}
