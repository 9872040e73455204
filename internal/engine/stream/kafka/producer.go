package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// producer sends messages with a client that it replaces after a topic was deleted and created
// again. The client of franz-go binds itself to the first id of a topic and refuses later ones.
// PurgeTopicsFromProducing would make it accept the new id, but the sequence numbers would start
// again under the same producer id and epoch, and a broker could drop a batch as a duplicate. A new
// client has a producer id of its own.
type producer struct {
	s    *Stream
	opts []kgo.Opt

	mu       sync.Mutex
	cl       *kgo.Client
	closed   bool
	replaced sync.WaitGroup // replaced clients that are being closed
}

// newProducer returns a producer whose messages must be acknowledged by all in-sync replicas; more
// overrides its options. It does not connect. The caller must close it.
func (s *Stream) newProducer(more ...kgo.Opt) (*producer, error) {
	p := &producer{s: s, opts: append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger),
		kgo.UnknownTopicRetries(unknownTopicTries),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
	}, more...)}
	var err error
	p.cl, err = s.newClient(p.opts...)
	return p, err
}

// produce passes a message to the client. done receives the result, in another goroutine; it must
// not block.
func (p *producer) produce(ctx context.Context, m *kgo.Record, done func(error)) {
	p.mu.Lock()
	cl := p.cl
	p.mu.Unlock()
	cl.Produce(ctx, m, func(_ *kgo.Record, err error) {
		switch {
		case isMissing(err):
			p.s.noteMissing(m.Topic)
			if errors.Is(err, kerr.UnknownTopicID) {
				p.replace(cl)
			}
		case errors.Is(err, kgo.ErrClientClosed) && p.replace(cl):
			err = errUnknown
		}
		done(err)
	})
}

// produceAll creates those topics of messages that were deleted, sends messages in order and
// returns the result of each. If ctx ends first, the remaining results are errUnknown; those
// messages may still become durable, because the client does not cancel a message that a broker may
// have.
func (p *producer) produceAll(ctx context.Context, messages []*kgo.Record) []error {
	type result struct {
		i   int
		err error
	}
	p.s.warnMissing(ctx, p.s.ensure(ctx, p.s.deletedTopics(messages)...))
	results := make(chan result, len(messages))
	errs := make([]error, len(messages))
	for i, m := range messages {
		errs[i] = errUnknown
		p.produce(ctx, m, func(err error) { results <- result{i, err} })
	}
	for range messages {
		select {
		case r := <-results:
			errs[r.i] = r.err
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

// replace closes the client cl and takes a new one, unless that was done before. The messages that
// cl has not sent fail; a broker may have taken some of them. It returns false if the producer is
// closed or no client can be made.
func (p *producer) replace(cl *kgo.Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.cl != cl {
		return true
	}
	next, err := p.s.newClient(p.opts...)
	if err != nil {
		return false
	}
	p.cl = next
	p.replaced.Go(cl.Close)
	return true
}

// close closes the client. Messages that are not acknowledged fail. It waits until replaced clients
// are closed too.
func (p *producer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cl.Close()
	p.replaced.Wait()
}

// newClient returns a client with the common options and more. It does not connect. The caller must
// close it.
func (s *Stream) newClient(more ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(s.client(more...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return cl, nil
}

// isMissing reports whether the brokers do not know a topic, or have a topic of this name that was
// created after the one in use was deleted.
func isMissing(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
