package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// renew lets go of what is known of the topics that the brokers do not have any more, as somebody
// has deleted them; failed has why a message of each was not sent. Their next use makes them again,
// where they are ours. Without this a client never sends to a topic that was deleted and made
// again: it goes by the id of the old one.
func (s *Stream) renew(cl *kgo.Client, failed map[string]error) {
	for name, err := range failed {
		if isGone(err) {
			s.forget(name)
			cl.PurgeTopicsFromProducing(name)
		}
	}
}

// forget has a topic be looked for, and made if it is not there, at its next use.
func (s *Stream) forget(topics ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range topics {
		delete(s.known, name)
	}
}

// isGone reports whether err says that a topic is not there, or not the one that it was.
func isGone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
