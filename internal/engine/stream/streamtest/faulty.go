package streamtest

import (
	"context"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// Faulty is a Source whose sessions fail once on demand.
type Faulty struct {
	stream.Source
	FailSettle bool // the next Settle fails without effect
	LoseReply  bool // the next Settle succeeds but returns an error
}

// errFault is the cause of an injected fault.
var errFault = errors.New("injected")

// Open opens a session of the wrapped source whose Settle fails as the fields of f say. Open itself
// injects no fault.
func (f *Faulty) Open(ctx context.Context, sub stream.Subscription) (stream.Session, error) {
	s, err := f.Source.Open(ctx, sub)
	if err != nil {
		return nil, err
	}
	return &faultySession{Session: s, faulty: f}, nil
}

// faultySession is a session with the faults of its source.
type faultySession struct {
	stream.Session
	faulty *Faulty
}

// Settle fails before or after the wrapped Settle if a fault is set.
func (s *faultySession) Settle(ctx context.Context, outcomes []stream.Outcome) error {
	if s.faulty.FailSettle {
		s.faulty.FailSettle = false
		return drive.Wrap(errFault, drive.Unavailable)
	}
	err := s.Session.Settle(ctx, outcomes)
	if err == nil && s.faulty.LoseReply {
		s.faulty.LoseReply = false
		return drive.Wrap(errFault, drive.Unavailable)
	}
	return err
}
