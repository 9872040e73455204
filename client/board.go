package client

import (
	"context"
	"sync"
)

// board says where each part of an upload is. Senders take parts from it, the scanner settles the
// doubtful ones.
//
//	missing ──take──► sending ──sent──► there
//	   ▲                 │ back           ▲
//	   ├─────────────────┘                │ settle(same)
//	   └──── settle(differs) ── unsure ───┘
type board struct {
	mu      sync.Mutex
	wake    *sync.Cond
	parts   []place
	differs map[int64]bool // the server holds other bytes: drop them before sending
	there   int64
	from    int64 // no part before it is missing
}

type place uint8

const (
	missing place = iota
	sending
	unsure // the server has it; whether it is the same is being looked at
	there
)

// newBoard returns a board of n parts of which the server has received, all of them unsure.
func newBoard(n int64, received []Span) *board {
	b := &board{parts: make([]place, n), differs: make(map[int64]bool)}
	b.wake = sync.NewCond(&b.mu)
	for _, s := range received {
		for i := max(0, s[0]); i <= s[1] && i < n; i++ {
			b.parts[i] = unsure
		}
	}
	return b
}

// take waits for a missing part and hands it out. ok is false when all are there or ctx has ended.
// drop says that the server holds other bytes under this number.
func (b *board) take(ctx context.Context) (n int64, drop, ok bool) {
	stop := context.AfterFunc(ctx, b.rouse)
	defer stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for ctx.Err() == nil && b.there < int64(len(b.parts)) {
		for ; b.from < int64(len(b.parts)); b.from++ {
			if b.parts[b.from] == missing {
				b.parts[b.from] = sending
				return b.from, b.differs[b.from], true
			}
		}
		b.wake.Wait()
	}
	return 0, false, false
}

// sent notes that the server has part n as it is here.
func (b *board) sent(n int64) { b.set(n, there) }

// lose notes that part n is missing after all.
func (b *board) lose(n int64) { b.set(n, missing) }

// settle ends the doubt about part n.
func (b *board) settle(n int64, same bool) {
	if same {
		b.set(n, there)
		return
	}
	b.mu.Lock()
	b.differs[n] = true
	b.mu.Unlock()
	b.set(n, missing)
}

func (b *board) set(n int64, to place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 0 || n >= int64(len(b.parts)) {
		return
	}
	if b.parts[n] == there {
		b.there--
	}
	switch b.parts[n] = to; to {
	case there:
		b.there++
		delete(b.differs, n)
	case missing:
		b.from = min(b.from, n)
	default:
	}
	b.wake.Broadcast()
}

// await waits until part n is there. It reports false when ctx has ended.
func (b *board) await(ctx context.Context, n int64) bool {
	stop := context.AfterFunc(ctx, b.rouse)
	defer stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for ctx.Err() == nil && b.parts[n] != there {
		b.wake.Wait()
	}
	return ctx.Err() == nil
}

// rouse makes everybody who waits look again.
func (b *board) rouse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake.Broadcast()
}

// spans returns the numbers of the parts that are there.
func (b *board) spans() []Span {
	b.mu.Lock()
	defer b.mu.Unlock()
	spans := []Span{}
	for i, at := range b.parts {
		n := int64(i)
		switch last := len(spans) - 1; {
		case at != there:
		case last >= 0 && spans[last][1] == n-1:
			spans[last][1] = n
		default:
			spans = append(spans, Span{n, n})
		}
	}
	return spans
}

// unsure reports whether part n waits to be settled.
func (b *board) unsure(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.parts[n] == unsure
}

// left returns how many parts are still to be sent.
func (b *board) left() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var n int64
	for _, at := range b.parts {
		if at == missing || at == sending {
			n++
		}
	}
	return n
}
