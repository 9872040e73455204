package blob

import (
	"context"

	"smartdrive/internal/base/drive"
)

// Quarantine is the place that Store.Quarantine and Staging.QuarantineStaged move things to, and
// Purge the only way out of it.
type Quarantine interface {
	// List calls fn for everything in it, in no order.
	List(ctx context.Context, fn func(Quarantined) error) error
	// Purge deletes for good something that List showed; what is gone already is not an error. It
	// reaches nothing else, whatever item says.
	Purge(ctx context.Context, item Quarantined) error
}

// Quarantined is something that lies in the quarantine.
type Quarantined struct {
	Date string         `json:"date"` // of the day on which it was moved there, UTC: 2026-11-20; empty: it lies beside the days
	Name string         `json:"name"` // its former place with '_' for '/'
	Size drive.ByteSize `json:"size"`
}
