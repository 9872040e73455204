package access_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// BenchmarkEnter measures what authorization adds to a request: for an owner, and for a member of
// ten groups at a folder 64 levels deep in a space with 10,000 grants at its root. Goal: p50 below
// 0.2 ms.
func BenchmarkEnter(b *testing.B) {
	w := newFixture(b, 3, 10)
	const space, levels, members = 2, 64, 10_000
	deep := w.Accounts[space].Root
	for i := range levels {
		w.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
			n, err := w.tree.CreateFolder(ctx, tx, w.Accounts[space].Account, tree.Place{Parent: deep, Name: drive.Name(fmt.Sprint(i)), Conflict: drive.ConflictFail})
			deep = n.ID
			return err
		})
	}
	w.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
		for range members {
			if _, err := tx.Exec(ctx, `INSERT INTO grants (node_id, principal_id, account_id, kind, role, granted_by, note, created_at, updated_at, expires_at)
				VALUES (?, ?, ?, 'user', 'viewer', '', '', 0, 0, 0)`, w.Accounts[space].Root, drive.NewID[drive.UserID](), w.Accounts[space].Account); err != nil {
				return err
			}
		}
		for _, g := range w.Groups {
			if err := w.AddMember(ctx, tx, g, w.people[2].User); err != nil {
				return err
			}
		}
		_, err := w.Access.Grant(ctx, tx, access.Grant{
			Node: w.Accounts[space].Root, Account: w.Accounts[space].Account, Kind: access.Group, Principal: drive.PrincipalID(w.Groups[4]), Role: access.Editor,
		})
		return err
	})
	for _, c := range []struct {
		name string
		who  drive.Who
		node drive.NodeID
	}{
		{"owner", w.people[0], w.Accounts[0].Root},
		{"member", w.people[2], w.Accounts[space].Root},
		{"member 64 levels deep", w.people[2], deep},
		{"outsider 64 levels deep", w.people[1], deep},
		{"nothing there", w.people[1], drive.NewID[drive.NodeID]()},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := w.Enter(b.Context(), w.db, c.who, c.node, access.Look); err != nil && !drive.IsKind(err, drive.NotFound) {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/float64(time.Millisecond), "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/float64(time.Millisecond), "p99-ms")
		})
	}
}
