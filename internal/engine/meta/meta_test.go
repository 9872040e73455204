package meta_test

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestMeta tells a name from its first value to its end.
func TestMeta(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	const name = "of-this-test"
	step := func(what string, do func(ctx context.Context, tx *sqldb.Tx) (bool, error), did bool, want string) {
		t.Helper()
		var got bool
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			got, err = do(ctx, tx)
			return err
		})
		value, findErr := meta.Find(t.Context(), db, name)
		if err != nil || findErr != nil || got != did || value != want {
			t.Errorf("%s: %v, %v, %v; it is %q, not %q", what, got, err, findErr, value, want)
		}
	}
	set := func(value string) func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		return func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return true, meta.Set(ctx, tx, name, value) }
	}
	first := func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return meta.Create(ctx, tx, name, "first") }
	swap := func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		return meta.CompareAndSwap(ctx, tx, name, "set", "swapped")
	}
	forget := func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return true, meta.Delete(ctx, tx, name) }
	step("nothing to swap", swap, false, "")
	step("make", first, true, "first")
	step("make again", first, false, "first")
	step("set", set("set"), true, "set")
	step("set again", set("set"), true, "set")
	step("swap", swap, true, "swapped")
	step("swap again", swap, false, "swapped")
	step("delete", forget, true, "")
	step("delete again", forget, true, "")
	step("set anew", set("anew"), true, "anew")
}

// TestSave reads a saved value back, and leaves the destination unchanged if there is no value.
func TestSave(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	type place struct{ Step, After string }
	got := place{Step: "none"}
	if err := meta.Load(t.Context(), db, "a-place", &got); err != nil || got != (place{Step: "none"}) {
		t.Errorf("read %+v, %v", got, err)
	}
	want := place{"blobs", "b7"}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return meta.Save(ctx, tx, "a-place", want) })
	if loadErr := meta.Load(t.Context(), db, "a-place", &got); err != nil || loadErr != nil || got != want {
		t.Errorf("read %+v, %v, %v", got, err, loadErr)
	}
}
