package migrate

import (
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// The primary's clock is set back by an hour during a comparison, and by a day between two: its
// findings count, and the later comparison is the valid one.
func TestClockSetBackHidesNoMismatch(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer func() { p.stop(t) }()
	accounts := seed(t, p.db, 5)
	climb(t, p, DualWrite) // ends with an equal comparison
	v := p.m.currentSnapshot()
	exec(t, v.primary, "UPDATE migration_checksums SET id = ?, ended_at = ended_at + ?", laterID(), 24*time.Hour.Milliseconds())
	exec(t, v.other, "UPDATE ledgers SET finished = 7 WHERE account_id = ?", accounts[0])
	must(t, p.m.Verify(t.Context()))
	exec(t, v.primary, "UPDATE migration_checksums SET begun_at = begun_at + 3600000 WHERE state = 'running'")
	work(t, p)
	c, err := p.m.lastChecksum(t.Context(), v)
	if err != nil || c.state != "done" || c.unequal != 1 {
		t.Errorf("the comparison is %+v, %v", c, err)
	}
	if _, err := p.m.Advance(t.Context(), AnyPhase); err == nil || !strings.Contains(err.Error(), "1 rows were unequal") {
		t.Errorf("it goes on with unequal rows: %v", err)
	}
	exec(t, v.other, "UPDATE ledgers SET finished = 0 WHERE account_id = ?", accounts[0])
	must(t, p.m.Verify(t.Context()))
	work(t, p)
	if at, err := p.m.Advance(t.Context(), AnyPhase); err != nil || at != ReadNew {
		t.Errorf("phase %d, %v", at, err)
	}
}

// laterID returns an id of tomorrow.
func laterID() string {
	id := drive.NewID[drive.OperationID]()
	id[4]++ // bits 8 to 15 of the milliseconds, counted from the sixth byte: 2^8 and more
	id[2]++
	return id.String()
}
