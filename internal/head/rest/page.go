package rest

import (
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
)

// shown makes a page of what was read: limit items, and one more if there are more. id is what the
// cursor says of an item.
func shown[T any](items []T, limit int, id func(T) string) files.Page[T] {
	if items == nil {
		items = []T{}
	}
	if len(items) <= limit {
		return files.Page[T]{Items: items}
	}
	items = items[:limit]
	next := id(items[limit-1])
	return files.Page[T]{Items: items, NextCursor: &next}
}

// pageShowing is shown of what show renders.
func pageShowing[V, W any](c *call, items []V, show func(*call, V) W, id func(W) string) files.Page[W] {
	views := make([]W, len(items))
	for i, v := range items {
		views[i] = show(c, v)
	}
	return shown(views, c.limit(), id)
}

// pageOf cuts a page out of a list that is short enough to be read whole.
func pageOf[T any](c *call, all []T, id func(T) string) (reply, error) {
	if after := c.query.Get(cursor.name); after != "" {
		at := slices.IndexFunc(all, func(item T) bool { return id(item) == after })
		if at < 0 {
			return reply{}, drive.Fail(drive.CursorInvalid)
		}
		all = all[at+1:]
	}
	return ok(shown(all, c.limit(), id))
}

// after reads a cursor that is an id.
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

// listPage answers with a page of what read returns of a list that goes on after an id.
func listPage[ID ~[16]byte, V, W any](c *call, read func(after ID, limit int) ([]V, error), show func(*call, V) W, id func(W) string) (reply, error) {
	since, err := after[ID](c)
	if err != nil {
		return reply{}, err
	}
	all, err := read(since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	return ok(pageShowing(c, all, show, id))
}
