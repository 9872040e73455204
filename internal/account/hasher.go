package account

import (
	"context"
	"crypto/rand"
	"sync/atomic"

	"smartdrive/internal/drive"
)

// Hash is a password as it is stored: an Argon2id PHC string. Only Users.Hash makes one.
type Hash string

const (
	maxHashing = 2  // hashes at a time: two cores' worth, and 38 MiB
	maxWaiting = 64 // hashes that may wait, about a second of work; more are told to come back
)

// hasher hashes passwords, maxHashing at a time.
type hasher struct {
	cost    Cost
	dummy   phc // what the password of an unknown user is checked against
	gate    chan struct{}
	waiting atomic.Int64
	count   atomic.Int64
}

func newHasher(cost Cost) *hasher {
	if cost == (Cost{}) {
		cost = DefaultCost
	}
	return &hasher{
		cost: cost, gate: make(chan struct{}, maxHashing),
		dummy: phc{cost: cost, salt: random(newSalt), sum: random(newSum)},
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// enter waits for a turn to hash; leave must be called.
func (h *hasher) enter(ctx context.Context) (leave func(), err error) {
	if h.waiting.Add(1) > maxWaiting+maxHashing {
		h.waiting.Add(-1)
		return nil, drive.Fail(drive.Rate, "retry_after", 1)
	}
	select {
	case h.gate <- struct{}{}:
		return func() { <-h.gate; h.waiting.Add(-1) }, nil
	case <-ctx.Done():
		h.waiting.Add(-1)
		return nil, drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// make hashes a new password at the current cost; the caller has its turn.
func (h *hasher) make(password string) Hash {
	h.count.Add(1)
	p := phc{cost: h.cost, salt: random(newSalt), sum: make([]byte, newSum)}
	p.sum = p.compute(password)
	return Hash(p.String())
}

// verify compares; the caller has its turn.
func (h *hasher) verify(stored phc, password string) bool {
	h.count.Add(1)
	return stored.matches(password)
}
