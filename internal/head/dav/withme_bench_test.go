//go:build unix

package dav_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/dav/davtest"
)

// BenchmarkSharedWithMe lists the items shared with bob, in an installation with 10,000 members of
// 1,000 groups and 10,000 grants. Half of the grants are for bob, some of those by his 20 groups.
// It requests pages as the API does, and the whole list as a WebDAV client does. Goal: p99 below 50
// ms a page.
func BenchmarkSharedWithMe(b *testing.B) {
	const members, groups, grants, page = 10_000, 1000, 10_000, 100
	s := newStack(b)
	bob := s.CreateUser(b, "bob")
	root, err := s.Files.GetByPath(b.Context(), s.Who, drive.Address{Path: drive.Path{}})
	if err != nil {
		b.Fatal(err)
	}
	s.CreateFolders(b, s.Who, root.ID, 0, grants/2, bob.User)
	s.CreateFolders(b, s.Who, root.ID, grants/2, grants, drive.UserID{})
	ids := make([]drive.GroupID, groups)
	insert := func(query string, rows [][]any) {
		b.Helper()
		for some := range slices.Chunk(rows, 500) {
			if err := s.DB.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return tx.InsertRows(ctx, query, some) }); err != nil {
				b.Fatal(err)
			}
		}
	}
	var teams, in, given [][]any
	for i := range ids {
		ids[i] = drive.NewID[drive.GroupID]()
		teams = append(teams, []any{ids[i], fmt.Sprint("g", i), fmt.Sprint("g", i), 0, 0})
		if i%(groups/20) == 0 {
			in = append(in, []any{ids[i], bob.User, 0})
		}
	}
	for i := range members {
		in = append(in, []any{ids[i%groups], drive.NewID[drive.UserID](), 0})
	}
	kids, err := s.Tree.ChildIDs(b.Context(), s.DB, root.ID)
	if err != nil || len(kids) != grants {
		b.Fatalf("%d folders (%v)", len(kids), err)
	}
	for i, node := range kids[:grants/2] {
		given = append(given, []any{node, ids[i%groups], s.Who.Account, "group", "viewer", s.Who.User.String(), "", 0, 0, 0})
	}
	insert("INSERT INTO user_groups (id, name, slot, created_at, updated_at)", teams)
	insert("INSERT INTO group_members (group_id, user_id, created_at)", in)
	insert("INSERT INTO grants (node_id, principal_id, account_id, kind, role, granted_by, note, created_at, updated_at, expires_at)", given)
	b.Run("a page of 100", func(b *testing.B) {
		defer processorTime(b)()
		var took []time.Duration
		after := drive.NodeID{}
		for b.Loop() {
			start := time.Now()
			some, err := s.Spaces.ListSharedWithMe(b.Context(), bob, after, page+1, false)
			took = append(took, time.Since(start))
			if err != nil {
				b.Fatal(err)
			}
			if after = (drive.NodeID{}); len(some) > page {
				after = some[page-1].Node
			}
		}
		percentiles(b, took)
	})
	b.Run("all, by WebDAV", func(b *testing.B) {
		var took []time.Duration
		s.Do(b, "PROPFIND /dav/shared/", "Depth: 1", davtest.AuthHeader("bob")).Want(b, 207) // which gives names
		defer processorTime(b)()
		for b.Loop() {
			start := time.Now()
			s.Do(b, "PROPFIND /dav/shared/", "Depth: 1", davtest.AuthHeader("bob")).Want(b, 207)
			took = append(took, time.Since(start))
		}
		percentiles(b, took)
	})
	b.Run("a name that nobody has", func(b *testing.B) {
		defer processorTime(b)()
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			if _, err := s.Spaces.MountedAs(b.Context(), bob, "nobody has this"); !drive.IsKind(err, drive.NotFound) {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		percentiles(b, took)
	})
}

// processorTime reports the CPU time of an iteration, which does not depend on the load of the
// machine.
func processorTime(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op") }
}

func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for name, at := range map[string]int{"p50-ms": len(took) / 2, "p99-ms": len(took) * 99 / 100} {
		b.ReportMetric(float64(took[at])/float64(time.Millisecond), name)
	}
	b.ReportMetric(0, "ns/op")
}
