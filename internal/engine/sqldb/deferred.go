package sqldb

import "context"

// Deferred collects items during a transaction and handles them together at its end, with few
// statements. Items of a failed transaction or a failed Try are dropped.
type Deferred[T any] struct {
	// Do handles the items of one transaction in the order of Add. It must not add items.
	Do func(ctx context.Context, tx *Tx, items []T) error
}

// deferredItem is an item that a Deferred has queued until the end of its transaction.
type deferredItem struct {
	by interface {
		Flush(context.Context, *Tx) error
	}
	item any // passed to the function Do of the Deferred
}

// Add adds an item to the transaction.
func (d *Deferred[T]) Add(tx *Tx, item T) { tx.deferred = append(tx.deferred, deferredItem{d, item}) }

// Flush calls Do with the items that were added in tx so far, and removes them; without items it
// does nothing. Call it before a change of rows that Do depends on. It returns the error of Do,
// after which tx must be rolled back.
func (d *Deferred[T]) Flush(ctx context.Context, tx *Tx) error {
	var own []T
	var others []deferredItem // a new slice, because a failed Try restores the old one
	for _, one := range tx.deferred {
		if item, ok := one.item.(T); ok && one.by == any(d) {
			own = append(own, item)
		} else {
			others = append(others, one)
		}
	}
	if len(own) == 0 {
		return nil
	}
	tx.deferred = others
	return d.Do(ctx, tx, own)
}
