//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const (
	folderFiles = 100_000
	folderPage  = 200
	folderTimes = 500
)

// BenchmarkLargeFolder measures operations on a folder of 100,000 files, on SQLite and on MariaDB:
// its first page and its page 500 of 200 entries by name, a rename, and the upload of a file of 10
// KiB with its sync. Goal: each below 20 ms at the 99th percentile.
func BenchmarkLargeFolder(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { largeFolder(b, uploadtest.New(b, uploadtest.Options{})) })
	b.Run("MariaDB", func(b *testing.B) { largeFolder(b, mysqlSite(b, &sqldbtest.Counter{})) })
}

func largeFolder(b *testing.B, s *uploadtest.Site) {
	who := s.Account(b, 0)
	folder := fillFolder(b, s, who)
	last := ""
	for n := 0; n < folderFiles-folderPage; {
		limit := min(tree.MaxLimit, folderFiles-folderPage-n)
		p, err := s.Tree.Children(b.Context(), s.DB, folder, tree.List{Limit: limit, Cursor: last})
		must(b, err)
		n, last = n+limit, p.Next
	}
	page := func(cursor string) func(int) error {
		return func(int) error {
			_, err := s.Tree.Children(b.Context(), s.DB, folder, tree.List{Limit: folderPage, Cursor: cursor})
			return err
		}
	}
	body := noise(smallSize)
	steps := []struct {
		name string
		do   func(i int) error
	}{
		{"first page", page("")},
		{"page 500", page(last)},
		{"rename", func(i int) error {
			return s.DB.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				if err := s.Ledger.Lock(ctx, tx, who.Account); err != nil {
					return err
				}
				n, err := s.Tree.Resolve(ctx, tx, who.Account, uploadtest.Path(b, fmt.Sprintf("/d/file-%06d", i)))
				if err == nil {
					_, err = s.Tree.Edit(ctx, tx, who.Account, n.ID, tree.Edit{Name: drive.Name(fmt.Sprintf("renamed-%06d", i))})
				}
				return err
			})
		}},
		{"one more file", func(i int) error {
			binary.LittleEndian.PutUint64(body, uint64(i))
			p := upload.PutFile{Path: uploadtest.Path(b, fmt.Sprintf("/d/more-%d", i)), Size: smallSize}
			_, _, err := s.PutFile(b.Context(), who, p, bytes.NewReader(body))
			return err
		}},
	}
	for b.Loop() {
		rows := [][]any{{"", "p50 ms", "p99 ms", "largest"}}
		for _, step := range steps {
			var took []time.Duration
			for i := range folderTimes {
				start := time.Now()
				must(b, step.do(i))
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			at := func(percent int) string { return digits(ms(took[(len(took)-1)*percent/100])) }
			rows = append(rows, []any{step.name, at(50), at(99), at(100)})
		}
		table(b, "a folder of 100,000 files", rows...)
	}
	b.ReportMetric(0, "ns/op")
}

// fillFolder creates /d with its files, which all have the same content.
func fillFolder(b *testing.B, s *uploadtest.Site, who drive.Who) drive.NodeID {
	b.Helper()
	one := upload.PutFile{Path: uploadtest.Path(b, "/d/file"), Size: 1, Parents: true}
	n, _, err := s.PutFile(b.Context(), who, one, bytes.NewReader([]byte{1}))
	must(b, err)
	const most = 1000
	for from := 0; from < folderFiles-1; from += most {
		var wanted []tree.BatchFile
		var files []tree.File
		for i := from; i < min(from+most, folderFiles-1); i++ {
			wanted = append(wanted, tree.BatchFile{Path: uploadtest.Path(b, fmt.Sprintf("/d/file-%06d", i))})
			files = append(files, tree.File{Blob: n.Blob, Size: 1, Mime: "text/plain"})
		}
		must(b, s.DB.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			targets, err := tree.NewFileBatch{Tree: s.Tree, Account: who.Account}.ResolveTargets(ctx, tx, wanted)
			if err == nil {
				_, err = tree.NewFileBatch{Tree: s.Tree, Account: who.Account}.Put(ctx, tx, targets, files)
			}
			return err
		}))
	}
	return n.Parent
}
