package fsck_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkPass measures a pass over 100,000 files with a content each, on a store with 20 ms per
// request: seconds of work, of which a background pass does 5 % of the time, and requests.
func BenchmarkPass(b *testing.B) {
	const files = 100_000
	r := &rig{Site: uploadtest.New(b, uploadtest.Options{})}
	r.audit = r.auditor(fsck.Options{})
	r.who = r.Account(b, 0)
	fake := r.bucketOf(b)
	r.fill(b, files, func(name string) {
		shard, _ := blob.ShardOf(name)
		fake.AddObject(blob.ShardPath(shard, name), 100)
	})
	fake.Latency = 20 * time.Millisecond
	var spent time.Duration
	for b.Loop() {
		lists, heads, begun := fake.Requests("list"), fake.Requests("head"), time.Now()
		report, err := r.audit.Check(b.Context(), fsck.Scope{Repair: true})
		spent += time.Since(begun)
		if err != nil || report.Total != 0 || report.Checked.Blobs != files || report.Checked.Files != files {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(float64(fake.Requests("list")-lists), "LIST")
		b.ReportMetric(float64(fake.Requests("head")-heads), "HEAD")
	}
	b.ReportMetric(spent.Seconds()/float64(b.N), "s/pass")
	b.ReportMetric(0, "ns/op")
}

// fill inserts rows of n files in the root folder, each with its own content of 100 bytes.
func (r *rig) fill(b *testing.B, n int, store func(name string)) {
	b.Helper()
	var root string
	if err := r.DB.QueryRow(b.Context(), `SELECT root_id FROM trees`).Scan(&root); err != nil {
		b.Fatal(err)
	}
	for begin := 0; begin < n; begin += 5000 {
		err := r.DB.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for i := begin; i < min(begin+5000, n); i++ {
				id := drive.NewID[drive.UploadID]().String()
				store(id)
				for _, row := range []struct {
					query string
					args  []any
				}{
					{`INSERT INTO blobs (id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts)
						VALUES (?, ?, 'blake3', ?, 100, 8388608, 0, 1, 1, 1, ?)`, []any{id, id, fmt.Sprintf("%064x", i), make([]byte, 36)}},
					{`INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at)
						VALUES (?, ?, ?, ?, ?, ?, 'file', ?, 1, 1, 1, 1, 1)`, []any{id, r.who.Account, root, id, id, id, id}},
					{`INSERT INTO versions (id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by)
						VALUES (?, ?, ?, ?, 100, 1, '', 1, '')`, []any{id, id, r.who.Account, id}},
				} {
					if _, err := tx.Exec(ctx, row.query, row.args...); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	err := r.DB.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE trees SET node_count = ?`, n)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE ledgers SET finished = ?`, 100*n)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
