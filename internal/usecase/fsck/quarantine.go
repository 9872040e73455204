package fsck

import (
	"cmp"
	"context"
	"slices"

	"example.org/smartdrive/internal/engine/blob"
)

// ListQuarantine returns the items of the quarantine, oldest first; none if there is no quarantine.
// It holds them all in memory.
func (c *Checker) ListQuarantine(ctx context.Context) ([]blob.Quarantined, error) {
	if c.Quarantine == nil {
		return nil, nil
	}
	var all []blob.Quarantined
	err := c.Quarantine.List(ctx, func(item blob.Quarantined) error {
		all = append(all, item)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y blob.Quarantined) int {
		return cmp.Or(cmp.Compare(x.Date, y.Date), cmp.Compare(x.Name, y.Name))
	})
	return all, nil
}

// PurgeQuarantine permanently deletes the given items of ListQuarantine. Nothing else deletes from
// the quarantine; only administrators may call it.
func (c *Checker) PurgeQuarantine(ctx context.Context, items []blob.Quarantined) (Tally, error) {
	var gone Tally
	for _, item := range items {
		if err := ctx.Err(); err != nil {
			return gone, err
		}
		if err := c.Quarantine.Purge(ctx, item); err != nil {
			return gone, err
		}
		gone.Count++
		gone.Bytes += item.Size
	}
	return gone, nil
}

// countQuarantine adds the number and the bytes of the items in quarantine to the report.
func (p *pass) countQuarantine(ctx context.Context) error {
	all, err := p.ListQuarantine(ctx)
	for _, item := range all {
		p.report.Quarantine.Count++
		p.report.Quarantine.Bytes += item.Size
	}
	return err
}
