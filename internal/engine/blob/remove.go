package blob

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// MaxRemoved is how many contents one RemoveAll takes: as many keys as S3 takes in a DeleteObjects
// request.
const MaxRemoved = 1000

// atOnce is how many contents are deleted at the same time where each takes a request of its own:
// at 20 ms each it makes 1,600 a second.
const atOnce = 32

// RemoveEach calls remove for every name, some of them at the same time, and returns those for
// which it succeeded.
func RemoveEach(ctx context.Context, names []string, remove func(context.Context, string) error) (gone []string, err error) {
	var (
		mu   sync.Mutex
		errs []error
		all  errgroup.Group
	)
	all.SetLimit(atOnce)
	for _, name := range names {
		all.Go(func() error {
			err := remove(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				gone = append(gone, name)
			} else {
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = all.Wait() // each one's error is in errs
	return gone, First(errs)
}

// First joins the first few of many errors: a store that is out of reach has the same one for each
// content.
func First(errs []error) error {
	const most = 3
	return errors.Join(errs[:min(len(errs), most)]...)
}
