package blob

import (
	"context"

	"smartdrive/internal/base/drive"
)

// Several is a Store over others, which may be other ones tomorrow: what it can besides is asked each time, by the functions below. The
// first one is where Put goes.
type Several interface {
	Several() []Store
}

func storesOf(s Store) []Store {
	if many, ok := s.(Several); ok {
		return many.Several()
	}
	return []Store{s}
}

// CapacityOf returns what tells how much room is left: the least of those that know. ok is false when nobody does.
func CapacityOf(s Store) (c Capacity, ok bool) {
	var least leastOf
	for _, one := range storesOf(s) {
		if c, ok := one.(Capacity); ok {
			least = append(least, c)
		}
	}
	return least, len(least) > 0
}

// leastOf is the tightest of several.
type leastOf []Capacity

// Free implements Capacity.
func (l leastOf) Free(ctx context.Context) (free drive.ByteSize, err error) {
	for i, c := range l {
		n, err := c.Free(ctx)
		if err != nil {
			return 0, err
		}
		if i == 0 || n < free {
			free = n
		}
	}
	return free, nil
}

// PresignerOf returns what makes links. Over several stores nobody does: a link is made without asking whether the content is there.
func PresignerOf(s Store) (p Presigner, ok bool) {
	if all := storesOf(s); len(all) == 1 {
		p, ok = all[0].(Presigner)
	}
	return p, ok
}
