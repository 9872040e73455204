package rest

import (
	"slices"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
)

// newPage returns a page of at most limit items. The caller passes limit+1 items if there are so
// many: the extra one is dropped and shows that a next page exists. id returns the cursor of an
// item.
func newPage[T any](items []T, limit int, id func(T) string) api.Page[T] {
	if items == nil {
		items = []T{}
	}
	if len(items) <= limit {
		return api.Page[T]{Items: items}
	}
	items = items[:limit]
	next := id(items[limit-1])
	return api.Page[T]{Items: items, NextCursor: &next}
}

// newPageOf returns a page of items, each converted by show, with the limit of the request. The
// caller passes one item more than c.limit() if there is one: it is dropped and shows that a next
// page exists. id returns the cursor of a converted item.
func newPageOf[V, W any](c *call, items []V, show func(*call, V) W, id func(W) string) api.Page[W] {
	views := make([]W, len(items))
	for i, v := range items {
		views[i] = show(c, v)
	}
	return newPage(views, c.limit(), id)
}

// pageOf replies with a page of all, the complete list in memory, as cursor and limit of the
// request demand. It fails with drive.CursorInvalid if the cursor is not the id of an item.
func pageOf[T any](c *call, all []T, id func(T) string) (reply, error) {
	if after := c.query.Get(cursor.name); after != "" {
		at := slices.IndexFunc(all, func(item T) bool { return id(item) == after })
		if at < 0 {
			return reply{}, drive.Fail(drive.CursorInvalid)
		}
		all = all[at+1:]
	}
	return ok(newPage(all, c.limit(), id))
}

// after returns the id in the cursor, or zero without a cursor. It fails with drive.CursorInvalid.
func after[T ~[16]byte](c *call) (T, error) {
	var zero T
	text := c.query.Get(cursor.name)
	if text == "" {
		return zero, nil
	}
	id, err := drive.ParseID[T](text)
	if err != nil {
		err = drive.Wrap(err, drive.CursorInvalid)
	}
	return id, err
}

// listPage replies with a page of a list that is ordered by id. read returns up to limit items with
// ids after the given one; listPage asks for one item more than a page, to know whether a next page
// exists. show converts an item, and id returns the cursor of a converted one. It fails with
// drive.CursorInvalid for a malformed cursor, and with the error of read.
func listPage[ID ~[16]byte, V, W any](c *call, read func(after ID, limit int) ([]V, error), show func(*call, V) W, id func(W) string) (reply, error) {
	since, err := after[ID](c)
	if err != nil {
		return reply{}, err
	}
	all, err := read(since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	return ok(newPageOf(c, all, show, id))
}
