package kafka

import "context"

// Ping asks whether any broker answers.
func (s *Stream) Ping(ctx context.Context) error { return classify(s.cl.Ping(ctx)) }
