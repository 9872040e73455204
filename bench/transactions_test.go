//go:build linux

package bench

import (
	"bytes"
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkTransactions counts the write transactions of uploads of 1, 100 and 10,000 parts (10 GB
// in parts of 1 MiB), and the database calls while the parts arrive.
func BenchmarkTransactions(b *testing.B) {
	rows := [][]any{{"parts", "write transactions", "database calls on the parts path"}}
	for b.Loop() {
		for _, parts := range []int{1, 100, 10_000} {
			writes, calls := countUpload(b, parts)
			rows = append(rows, []any{parts, writes, calls})
			if writes != 3 || calls != 0 {
				b.Errorf("%d parts: %d transactions and %d calls, want 3 and 0", parts, writes, calls)
			}
		}
	}
	table(b, "database use of one upload", rows...)
	b.ReportMetric(0, "ns/op")
}

// countUpload returns the write transactions of an upload, and the database calls during its parts.
func countUpload(b *testing.B, parts int) (writes, partCalls int64) {
	b.Helper()
	var calls atomic.Int64
	site := uploadtest.New(b, uploadtest.Options{DB: sqldb.Options{Connector: func(dsn string) (driver.Connector, error) {
		inner, err := sqlite.NewConnector(dsn)
		return counting{inner, &calls}, err
	}}})
	who := site.Account(b, 0)
	before := site.DB.Stats().Writes.Load()
	size := drive.ByteSize(parts) * drive.MiB
	v, err := site.Begin(b.Context(), who, upload.Begin{Path: uploadtest.Path(b, "/f"), Size: size, PartSize: drive.MiB}, nil)
	must(b, err)
	body := noise(mib)
	begun := calls.Load()
	if begun == 0 {
		b.Fatal("the counting driver counts nothing")
	}
	for n := range parts {
		must(b, site.Put(b.Context(), who, v.ID, upload.PutPart{N: n, Size: drive.MiB}, bytes.NewReader(body)))
	}
	partCalls = calls.Load() - begun
	_, _, err = site.Complete(b.Context(), who, v.ID, upload.Complete{})
	must(b, err)
	return site.DB.Stats().Writes.Load() - before, partCalls
}

// counting is a connector that counts database calls.
type counting struct {
	driver.Connector
	calls *atomic.Int64
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return countingConn{conn, c.calls}, err
}

type countingConn struct {
	driver.Conn
	calls *atomic.Int64
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.calls.Add(1)
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return countingStmt{stmt, c.calls}, err
}

func (c countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.calls.Add(1)
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

type countingStmt struct {
	driver.Stmt
	calls *atomic.Int64
}

func (s countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.calls.Add(1)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.calls.Add(1)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
