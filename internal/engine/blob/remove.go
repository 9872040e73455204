package blob

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// MaxRemoved is the largest number of names in one RemoveAll, equal to S3's limit of keys in a
// DeleteObjects request.
const MaxRemoved = 1000

// atOnce is the number of concurrent deletions in RemoveEach. At 20 ms per request it allows 1,600
// deletions a second.
const atOnce = 32

// RemoveEach calls remove for every name, up to atOnce at a time. It returns the names whose
// removal succeeded, and the first few errors of the others joined.
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
	return gone, JoinFirst(errs)
}

// JoinFirst joins the first three of errs. An unreachable store fails with the same error for every
// content.
func JoinFirst(errs []error) error {
	const most = 3
	return errors.Join(errs[:min(len(errs), most)]...)
}
