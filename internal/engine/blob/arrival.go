package blob

import "context"

// Arrivals is an optional power of a Store whose Put may show bytes under their name before all of them are there. That is harmless
// for new content, which no row names yet.
type Arrivals interface {
	// Receive is Put for content that rows name already: nothing is seen under the name before it is whole and durable.
	Receive(ctx context.Context, name string, body Body) (Part, error)
}

// Receive stores content that rows name already; see Arrivals.
func Receive(ctx context.Context, s Store, name string, body Body) (Part, error) {
	if a, ok := s.(Arrivals); ok {
		return a.Receive(ctx, name, body)
	}
	return s.Put(ctx, name, body)
}
