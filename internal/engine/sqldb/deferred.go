package sqldb

import "context"

// Deferred handles items of one kind together at the end of the transaction that added them, so
// that many items cost few statements. A transaction that fails handles none, and a Try that fails
// drops those that were added in it.
type Deferred[T any] struct {
	// Do handles the items of one transaction, in the order in which they were added. It adds none.
	Do func(ctx context.Context, tx *Tx, items []T) error
}

// deferredItem waits for the end of its transaction.
type deferredItem struct {
	by interface {
		Flush(context.Context, *Tx) error
	}
	item any
}

// Add adds an item.
func (d *Deferred[T]) Add(tx *Tx, item T) { tx.deferred = append(tx.deferred, deferredItem{d, item}) }

// Flush handles what was added until now. A caller that is about to change what Do depends on calls
// it first.
func (d *Deferred[T]) Flush(ctx context.Context, tx *Tx) error {
	var mine []T
	var others []deferredItem // a new slice: a Try that fails returns to the old one
	for _, one := range tx.deferred {
		if item, ok := one.item.(T); ok && one.by == any(d) {
			mine = append(mine, item)
		} else {
			others = append(others, one)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	tx.deferred = others
	return d.Do(ctx, tx, mine)
}
