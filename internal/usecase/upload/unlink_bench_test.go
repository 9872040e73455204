package upload_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkUnlink measures how fast one instance deletes files after their grace period: it claims
// rows, deletes objects, and deletes rows and owed bytes. The store replies to each request after
// 20 ms.
func BenchmarkUnlink(b *testing.B) {
	const files = 10_000
	for _, single := range []bool{false, true} {
		b.Run(map[bool]string{false: "DeleteObjects", true: "one by one"}[single], func(b *testing.B) {
			fake := blobtest.NewBucket(b)
			fake.Latency, fake.Single = 20*time.Millisecond, single
			bucket, err := s3.New(s3.Options{
				Endpoint: fake.Host, Bucket: "bucket", AccessKey: "a", SecretKey: "s", Insecure: true, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				b.Fatal(err)
			}
			s := uploadtest.New(b, uploadtest.Options{Store: func(blob.Store) blob.Store { return bucket.Blobs }})
			benchUnlink(b, s, files, func(name string) {
				shard, _ := blob.ShardOf(name)
				fake.AddObject("blobs/"+shard+"/"+name, 100)
			})
			if left := fake.Keys(); len(left) > 0 {
				b.Errorf("%d objects are left", len(left))
			}
		})
	}
	b.Run("directory", func(b *testing.B) {
		s := uploadtest.New(b, uploadtest.Options{})
		benchUnlink(b, s, files, func(name string) {
			if _, err := s.Local.Blobs.Put(b.Context(), name, blobtest.BodyOf(0, 1, strings.NewReader("x"))); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func benchUnlink(b *testing.B, s *uploadtest.Site, files int, store func(name string)) {
	b.Helper()
	who := s.Account(b, 0)
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		releaseMany(b, s, who.Account, files, store)
		s.Clock.Advance(16 * time.Minute)
		b.StartTimer()
		begun := time.Now()
		if _, err := s.DeleteDue(b.Context()); err != nil {
			b.Fatal(err)
		}
		spent += time.Since(begun)
	}
	b.ReportMetric(float64(b.N*files)/spent.Seconds(), "objects/s(goal:1000)")
}

// releaseMany creates the rows that a large purge leaves.
func releaseMany(b *testing.B, s *uploadtest.Site, account drive.AccountID, n int, store func(name string)) {
	b.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = blobtest.PutName()
		store(names[i])
	}
	for begin := 0; begin < n; begin += 1000 {
		err := s.DB.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for _, name := range names[begin:min(begin+1000, n)] {
				if err := s.Content.ReleaseFile(ctx, tx, name, 100); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `INSERT INTO owed_files (file, account_id, size) VALUES (?, ?, 100)`, name, account); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, `DELETE FROM owed WHERE account_id = ?`, account)
			if err == nil {
				_, err = tx.Exec(ctx, `INSERT INTO owed (account_id, size) VALUES (?, ?)`, account, 100*(begin+1000))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
