package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// leavings plants what a killed process leaves, and returns the places.
func (r *rig) leavings(t *testing.T) []string {
	t.Helper()
	staged := "staging/2026/11/20/" + r.scalar(t, `SELECT id FROM uploads WHERE state = 'done'`)
	r.plant(t, staged+"/journal", 300)
	small := blobPlace(fmt.Sprintf("put-%d-%s", generation-1, drive.NewID[drive.UploadID]()))
	r.plant(t, small, 10)
	return []string{staged, small}
}

// After a kill and restart, the background audit deletes leftovers without reporting findings.
func TestAuditDeletesLeftoversWithoutFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	places := r.leavings(t)
	report, err := r.audit.RunOnce(t.Context())
	if err != nil || !report.Clean() || report.Total != 0 || report.Leftovers.Count != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, place := range places {
		if r.exists(place) {
			t.Errorf("%s is still there", place)
		}
	}
	if n := r.audit.Counters.Findings.Load() + r.audit.Counters.Repaired.Load(); n != 0 || r.audit.Counters.Removed.Load() != 2 {
		t.Errorf("%d findings are counted, %d removed", n, r.audit.Counters.Removed.Load())
	}
	if all := r.scalar(t, `SELECT COUNT(*) FROM findings`); all != "0" {
		t.Errorf("%s findings are listed", all)
	}
}

// stuck is a store that does not delete.
type stuck struct {
	blob.Store
	stuck atomic.Bool
}

func (s *stuck) Remove(ctx context.Context, name string) error {
	if s.stuck.Load() {
		return errors.New("read-only file system")
	}
	return s.Store.Remove(ctx, name)
}

// A leftover that cannot be deleted is a finding until it is gone.
func TestUndeletableLeftoverIsFinding(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	s := &stuck{Store: r.Local.Blobs}
	r.audit = fsck.New(fsck.Dependencies{
		DB: r.DB, Staging: r.Local.Staging, Store: s, Content: r.Content, Timers: engine{r.Queue}, IsWriting: r.IsWriting, Generation: generation,
	}, fsck.Options{Now: r.Clock.Now, Log: slog.New(slog.DiscardHandler), Sleep: func(context.Context, time.Duration) error { return nil }})
	small := r.leavings(t)[1]
	s.stuck.Store(true)
	report, err := r.audit.RunOnce(t.Context())
	if err != nil || report.Clean() || report.Total != 1 || report.Leftovers.Count != 1 || !r.exists(small) {
		t.Errorf("it stays: %+v, %v", report, err)
	}
	s.stuck.Store(false)
	report, err = r.audit.RunOnce(t.Context())
	if err != nil || !report.Clean() || report.Total != 0 || report.Leftovers.Count != 1 || r.exists(small) {
		t.Errorf("it goes: %+v, %v", report, err)
	}
	if open := r.scalar(t, `SELECT COUNT(*) FROM findings WHERE repaired = 0`); open != "0" {
		t.Errorf("%s findings are listed as not repaired", open)
	}
}

// removals counts single and batched deletions.
type removals struct {
	blob.Store
	single, together atomic.Int64
}

func (r *removals) Remove(ctx context.Context, name string) error {
	r.single.Add(1)
	return r.Store.Remove(ctx, name)
}

func (r *removals) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	r.together.Add(1)
	return r.Store.RemoveAll(ctx, names)
}

// Leftover contents are deleted together, because in a bucket they may share a pack.
func TestLeftoversAreDeletedTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	s := &removals{Store: r.Local.Blobs}
	r.audit = fsck.New(fsck.Dependencies{
		DB: r.DB, Staging: r.Local.Staging, Store: s, Content: r.Content, Timers: engine{r.Queue}, IsWriting: r.IsWriting, Generation: generation,
	}, fsck.Options{Now: r.Clock.Now, Log: slog.New(slog.DiscardHandler), Sleep: func(context.Context, time.Duration) error { return nil }})
	const many = 20
	for range many {
		r.plant(t, blobPlace(fmt.Sprintf("put-%d-%s", generation-1, drive.NewID[drive.UploadID]())), 10)
	}
	report, err := r.audit.RunOnce(t.Context())
	if err != nil || !report.Clean() || report.Leftovers.Count != many || r.audit.Counters.Removed.Load() != many {
		t.Errorf("%+v, %v", report, err)
	}
	if one, all := s.single.Load(), s.together.Load(); one > 0 || all != 1 {
		t.Errorf("%d removals, and %d of many", one, all)
	}
}
