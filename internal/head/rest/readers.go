package rest

import "example.org/smartdrive/internal/head/server"

// readers limits downloads without a login per link and in total. Options.Visitors limits them per
// address.
type readers struct {
	ofLink *server.Limiter[string] // by the link's token
	ofAll  *server.Limiter[struct{}]
}

// readerMemory is the memory in bytes of a connection that a file is sent to.
const readerMemory = 48 << 10

// newReaders returns the limits for a process that may use limit bytes: the default allows 4,096
// downloads. One link gets at most three quarters of them.
func newReaders(limit int64) readers {
	n := int(limit / readerMemory)
	return readers{server.NewLimiter[string](n - n/4), server.NewLimiter[struct{}](n)}
}

// acquire takes a slot for a download by a link. It fails with drive.Rate. The caller calls
// release.
func (r readers) acquire(token string) (release func(), err error) {
	one, err := r.ofLink.Acquire(token)
	if err != nil {
		return nil, err
	}
	all, err := r.ofAll.Acquire(struct{}{})
	if err != nil {
		one()
		return nil, err
	}
	return func() { all(); one() }, nil
}
