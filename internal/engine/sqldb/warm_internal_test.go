package sqldb

import (
	"path/filepath"
	"testing"
)

func TestWarmOpensHalfOfThePool(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "warm.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for range 2 { // what is open is not opened again
		if err := db.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := db.reads.Stats(); s.OpenConnections != s.MaxOpenConnections/2 || s.InUse != 0 {
			t.Errorf("%d of %d connections are open, %d are held", s.OpenConnections, s.MaxOpenConnections, s.InUse)
		}
	}
}
