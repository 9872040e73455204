package files_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/files"
)

func TestMain(m *testing.M) {
	flag.Parse()
	sqldbtest.SetRapidChecks(depth.Pick(100, 100, 1000))
	os.Exit(m.Run())
}

// TestRandomOperationsKeepInvariants runs random operations and checks Q1, Q4 and B2 after each.
func TestRandomOperationsKeepInvariants(t *testing.T) {
	t.Parallel()
	dbs := t.TempDir()
	dir, err := local.Open(t.Context(), local.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		at, giveBack := sqldbtest.Borrow(t, sqldb.Options{Path: filepath.Join(dbs, drive.NewID[drive.UploadID]().String())})
		defer giveBack()
		db, err := sqldb.Open(rt.Context(), at)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := db.Close(); err != nil {
				rt.Error(err)
			}
		}()
		d := newFixtureAt(rt, db, dir.Blobs, files.Options{Direct: 4, Batch: 3})
		const total = 60
		d.limit(rt, total)
		w := &actor{d}
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.put, "copy": w.copy, "version": w.version, "trash": w.trash, "restore": w.restore, "delete": w.delete,
			"move": w.move, "run": w.run,
			"empty": func(t *rapid.T) { w.checkError(t, errorOf(d.EmptyTrash(t.Context(), d.who, ""))) },
			"expire": func(t *rapid.T) {
				d.now = d.now.Add(25 * time.Hour)
				w.checkError(t, errorOf(d.expiry.Purge(t.Context())))
			},
			"": func(t *rapid.T) {
				d.checkInvariants(t)
				var used int64
				if err := db.QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", d.who.Account).Scan(&used); err != nil || used > total {
					t.Fatalf("Q4: %d of %d bytes are used, %v", used, total, err)
				}
			},
		})
	})
}

type actor struct{ *fixture }

func errorOf[T any](_ T, err error) error { return err }

// checkError accepts success and every refusal that a user can cause; Internal and Unavailable are
// failures of the server.
func (h *actor) checkError(t *rapid.T, err error) {
	t.Helper()
	if drive.IsKind(err, drive.Internal, drive.Unavailable) {
		t.Fatal(err)
	}
}

// pickNode picks a node: live, trashed or hidden.
func (h *actor) pickNode(t *rapid.T, label string) drive.NodeID {
	all, err := h.tree.Changes(t.Context(), h.db, h.who.Account, tree.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := []drive.NodeID{}
	for _, c := range all.Items {
		if c.Deleted.IsZero() {
			ids = append(ids, c.Node.ID)
		}
	}
	slices.SortFunc(ids, func(a, b drive.NodeID) int { return cmp.Compare(a.String(), b.String()) })
	return ids[rapid.IntRange(0, len(ids)-1).Draw(t, label)]
}

var conflicts = rapid.SampledFrom([]drive.Conflict{drive.ConflictFail, drive.ConflictRename, drive.ConflictReplace})

func (h *actor) put(t *rapid.T) {
	at := fmt.Sprintf("/%d/%d", rapid.IntRange(0, 2).Draw(t, "folder"), rapid.IntRange(0, 3).Draw(t, "name"))
	_, err := h.tryPut(t, at, fmt.Sprint("text ", rapid.IntRange(0, 5).Draw(t, "text")))
	h.checkError(t, err)
}

func (h *actor) copy(t *rapid.T) {
	_, err := h.Copies.Copy(t.Context(), h.who, h.pickNode(t, "node"), files.Copy{Parent: h.pickNode(t, "parent"), Conflict: conflicts.Draw(t, "conflict")})
	h.checkError(t, err)
}

func (h *actor) version(t *rapid.T) {
	id := h.pickNode(t, "node")
	page, err := h.Versions(t.Context(), h.who, id, "", 0)
	h.checkError(t, err)
	if len(page.Items) > 0 {
		v := page.Items[rapid.IntRange(0, len(page.Items)-1).Draw(t, "version")]
		h.checkError(t, errorOf(h.RestoreVersion(t.Context(), h.who, id, v.ID, nil)))
	}
	if rapid.Bool().Draw(t, "later") {
		h.now = h.now.AddDate(0, 0, 31)
	}
}

func (h *actor) trash(t *rapid.T) {
	h.checkError(t, errorOf(h.Trash(t.Context(), h.who, h.pickNode(t, "node"), tree.Expect{})))
}

func (h *actor) restore(t *rapid.T) {
	h.checkError(t, errorOf(h.Restore(t.Context(), h.who, h.pickNode(t, "node"), drive.NodeID{}, conflicts.Draw(t, "conflict"))))
}

func (h *actor) delete(t *rapid.T) {
	h.checkError(t, errorOf(h.DeletePermanently(t.Context(), h.who, h.pickNode(t, "node"), tree.Expect{})))
}

func (h *actor) move(t *rapid.T) {
	_, err := h.Patch(t.Context(), h.who, h.pickNode(t, "node"), files.Patch{Parent: h.pickNode(t, "parent"), Conflict: conflicts.Draw(t, "conflict")})
	h.checkError(t, err)
}

// run processes a few batches of background operations, as if the process died in the middle.
func (h *actor) run(t *rapid.T) {
	ids, err := h.Operations.ListRunning(t.Context(), drive.OperationID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		err := h.Operations.Run(&expiringContext{Context: t.Context(), left: rapid.IntRange(0, 12).Draw(t, "lives")}, id)
		if err != nil && !drive.IsKind(err, drive.Unavailable) {
			t.Fatal(err)
		}
	}
}
