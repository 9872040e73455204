package blob

import (
	"context"
	"time"
)

// Presigner is an optional power of a Store: links by which content can be fetched from where it lies, past this process.
type Presigner interface {
	// Presign returns a URL that a GET, ranges included, may use for l.Valid. It is made without asking whether the content is
	// there. Whoever has the URL has the content until then: no revocation ends it early.
	Presign(ctx context.Context, name string, l Link) (url string, err error)
}

// Link says what a presigned URL gives.
type Link struct {
	Valid       time.Duration // at least a second, at most seven days
	ContentType string        // header of the response; empty: what the store says
	Disposition string        // header of the response; empty: none
}
