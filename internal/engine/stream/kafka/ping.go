package kafka

import "context"

// Ping returns nil if a broker answers.
func (s *Stream) Ping(ctx context.Context) error { return classify(s.cl.Ping(ctx)) }
