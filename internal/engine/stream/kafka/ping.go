package kafka

import "context"

// Ping returns nil if any broker answers; it does not check topics.
func (s *Stream) Ping(ctx context.Context) error { return classify(s.cl.Ping(ctx)) }
