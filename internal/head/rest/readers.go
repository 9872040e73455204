package rest

import "smartdrive/internal/head/server"

// readers are places for downloads of people who have not logged in: of one address the Gate of
// visitors has some, and here are those of one link and of all.
type readers struct {
	ofLink *server.Gate[string] // by its token
	ofAll  *server.Gate[struct{}]
}

// readerMemory in bytes is what a connection costs that is sent a file, whether it reads or not.
const readerMemory = 64 << 10

// newReaders makes places for a process that may use limit bytes: the default has 4,096. One link
// has three quarters of them.
func newReaders(limit int64) readers {
	n := int(limit / readerMemory)
	return readers{server.NewGate[string](n - n/4), server.NewGate[struct{}](n)}
}

// acquire takes a place for a download by a link, or answers Rate.
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
