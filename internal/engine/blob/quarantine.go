package blob

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
)

// Quarantine lists and deletes the entries moved aside by Store.Quarantine and
// Staging.QuarantineStaged. Purge is the only way to delete them.
type Quarantine interface {
	// List calls fn for every entry, in no order, and stops at the first error of fn.
	List(ctx context.Context, fn func(Quarantined) error) error
	// Purge deletes one entry for good. A missing entry is not an error. Whatever item contains,
	// Purge deletes nothing outside of the quarantine.
	Purge(ctx context.Context, item Quarantined) error
}

// Quarantined is one entry of the quarantine.
type Quarantined struct {
	Date string         `json:"date"` // UTC day of the move: 2026-11-20; empty: the entry is not in a directory of a day
	Name string         `json:"name"` // former place with '_' for '/'
	Size drive.ByteSize `json:"size"`
}
