package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// store is a Content with its database and clock.
type store struct {
	content.Content
	db  *sqldb.DB
	now time.Time
}

func newStore(t testing.TB) *store {
	t.Helper()
	s := &store{db: sqldbtest.Open(t), now: time.UnixMilli(1e12)}
	s.Now = func() time.Time { return s.now }
	return s
}

func (s *store) do(fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return s.db.Write(context.Background(), fn)
}

func fresh(sum byte, file string) content.NewContent {
	return content.NewContent{
		ID: drive.NewID[drive.BlobID](), File: file, Sum: digest.Sum{sum}, Size: 100, PartSize: drive.MiB,
		Parts: content.PackParts([]content.PartSum{{CV: digest.CV{sum}}}),
	}
}

func (s *store) attach(t testing.TB, n content.NewContent) (id drive.BlobID, reused bool) {
	t.Helper()
	err := s.do(func(ctx context.Context, tx *sqldb.Tx) (err error) {
		id, reused, err = s.Attach(ctx, tx, n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id, reused
}

// released returns the released files, sorted.
func (s *store) released(t testing.TB) []string {
	t.Helper()
	rows, err := s.db.Query(context.Background(), `SELECT file FROM released ORDER BY file`)
	files, err := sqldb.Scan(rows, err, func(file *string, scan func(...any) error) error { return scan(file) })
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestReferenceCountsMatchModel (B2): a blob is deleted with its last reference and never before,
// and every stored file belongs to a blob or is released.
func TestReferenceCountsMatchModel(t *testing.T) {
	t.Parallel()
	s := newStore(t) // for all histories: each has digests of its own
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.Byte().Draw(rt, "base")
		type blob struct {
			id   drive.BlobID
			file string
			refs int
		}
		blobs, released, dead, n := map[byte]*blob{}, map[string]bool{}, []drive.BlobID{}, 0
		run := drive.NewID[drive.BlobID]().String()
		sum := func(b byte) digest.Sum { return digest.Sum(sha256.Sum256(append([]byte(run), base, b))) }
		pick := func() byte { return rapid.SampledFrom([]byte{1, 2, 3}).Draw(rt, "content") }
		rt.Repeat(map[string]func(*rapid.T){
			"attach": func(rt *rapid.T) {
				b := pick()
				n++
				file := fmt.Sprintf("%s-%d", run, n)
				new := fresh(b, file)
				new.Sum = sum(b)
				id, reused := s.attach(t, new)
				switch have := blobs[b]; {
				case have == nil && (reused || id != new.ID):
					rt.Fatal("new content was taken for old")
				case have == nil:
					blobs[b] = &blob{id, file, 1}
				case !reused || id != have.id:
					rt.Fatal("equal content was stored twice")
				default:
					have.refs++
					released[file] = true
				}
			},
			"ref": func(rt *rapid.T) {
				b := blobs[pick()]
				if b == nil {
					rt.Skip("none")
				}
				if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.Ref(ctx, tx, b.id) }); err != nil {
					rt.Fatal(err)
				}
				b.refs++
			},
			"ref of the dead": func(rt *rapid.T) {
				if len(dead) == 0 {
					rt.Skip("none")
				}
				id := rapid.SampledFrom(dead).Draw(rt, "blob")
				if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.Ref(ctx, tx, id) }); !drive.IsKind(err, drive.NotFound) {
					rt.Fatalf("a reference to what has gone: %v", err)
				}
			},
			"release": func(rt *rapid.T) {
				c := pick()
				b := blobs[c]
				if b == nil {
					rt.Skip("none")
				}
				if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.Release(ctx, tx, drive.AccountID{}, b.id) }); err != nil {
					rt.Fatal(err)
				}
				if b.refs--; b.refs == 0 {
					released[b.file], dead = true, append(dead, b.id)
					delete(blobs, c)
				}
			},
			"": func(rt *rapid.T) {
				for _, b := range blobs {
					if got, err := s.Find(context.Background(), s.db, b.id); err != nil || got.Refs != int64(b.refs) || got.File != b.file {
						rt.Fatalf("%+v, %v; want %+v", got, err, b)
					}
				}
				var count int
				if err := s.db.QueryRow(context.Background(), `SELECT COUNT(*) FROM released WHERE file LIKE ?`, run+"%").Scan(&count); err != nil || count != len(released) {
					rt.Fatalf("%d files are released, want %d (%v)", count, len(released), err)
				}
			},
		})
	})
}

// TestDamagedBlobIsHealed: the next upload of the same bytes replaces the damaged file, which is
// released.
func TestDamagedBlobIsHealed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id, _ := s.attach(t, fresh(1, "old"))
	err := s.do(func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = 7 WHERE id = ?`, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	claim := digest.Set{digest.Blake3: bytes.Clone((&digest.Sum{1})[:])}
	if found, err := s.Candidates(t.Context(), s.db, claim, 100); err != nil || len(found) > 0 {
		t.Errorf("a damaged blob is offered: %v, %v", found, err)
	}
	again, reused := s.attach(t, fresh(1, "new"))
	b, err := s.Find(t.Context(), s.db, id)
	if err != nil || again != id || reused || b.File != "new" || b.Damaged != 0 || b.Refs != 2 {
		t.Errorf("%v %v: %+v, %v", again, reused, b, err)
	}
	if got := s.released(t); !slices.Equal(got, []string{"old"}) {
		t.Errorf("released %v", got)
	}
}

// TestCandidates: a strong digest decides alone, MD5 may match several, a differing known digest
// excludes a blob, and the size must match.
func TestCandidates(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	sha := func(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }
	md := bytes.Repeat([]byte{9}, 16)
	var ids []drive.BlobID
	for i := byte(1); i <= 3; i++ {
		n := fresh(i, fmt.Sprint("file", i))
		n.Aliases = digest.Set{digest.SHA256: sha(i), digest.MD5: md}
		id, _ := s.attach(t, n)
		ids = append(ids, id)
	}
	blake := func(b byte) []byte { sum := digest.Sum{b}; return sum[:] }
	for _, c := range []struct {
		name  string
		claim digest.Set
		size  drive.ByteSize
		want  []drive.BlobID
	}{
		{"blake3", digest.Set{digest.Blake3: blake(2)}, 100, ids[1:2]},
		{"sha256", digest.Set{digest.SHA256: sha(3)}, 100, ids[2:3]},
		{"md5 alone", digest.Set{digest.MD5: md}, 100, ids},
		{"md5 and sha256", digest.Set{digest.MD5: md, digest.SHA256: sha(1)}, 100, ids[:1]},
		{"sha256 that disagrees", digest.Set{digest.Blake3: blake(1), digest.SHA256: sha(2)}, 100, nil},
		{"another size", digest.Set{digest.Blake3: blake(1)}, 101, nil},
		{"unknown", digest.Set{digest.Blake3: blake(7)}, 100, nil},
		{"nothing", nil, 100, nil},
	} {
		found, err := s.Candidates(t.Context(), s.db, c.claim, c.size)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range found {
			got = append(got, b.ID.String())
		}
		var want []string
		for _, id := range c.want {
			want = append(want, id.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if c.name == "sha256 that disagrees" { // the next digest of the claim is asked too, and rules its blob out as well
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func FuzzUnpackParts(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 35))
	f.Add(content.PackParts([]content.PartSum{{CV: digest.CV{1, 2}, CRC32: math.MaxUint32}, {CRC32: 1}}))
	f.Fuzz(func(t *testing.T, packed []byte) {
		parts, err := content.UnpackParts(packed)
		if err != nil {
			if len(packed)%36 == 0 {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(content.PackParts(parts), packed) {
			t.Fatal("packed again it differs")
		}
	})
}
