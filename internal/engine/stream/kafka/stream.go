package kafka

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// Options configure New. Brokers, Backlog, Graveyard and Source are needed; the zero value of every
// other field is its default.
type Options struct {
	Brokers   []string         // host:port
	Namespace string           // what topics and groups begin with (smartdrive)
	Source    string           // of records that Send publishes: "smartdrive/<installation id>"
	Backlog   stream.Backlog   // what RunRelay sends
	Graveyard stream.Graveyard // where RunDead puts what died
	// Consumers are those whose retry topics exist from the start on; others get theirs when they
	// open a session.
	Consumers []stream.Subscription
	// TLS encrypts all connections; Roots are who may vouch for the brokers (those of the system).
	TLS   bool
	Roots *x509.CertPool
	// User and Password say who comes, by the mechanism SASL: scram-sha-512 (the default),
	// scram-sha-256 or plain.
	User, Password, SASL string
	// Targets are the topics that records of other producers may go to from a level (none); none of
	// them is in the namespace.
	Targets []string
	// Levels are the delay levels (stream.Levels).
	Levels []stream.Level
	// Partitions of a new topic (12): as many sessions can share the work of a consumer.
	Partitions int32
	// Replicas of a new topic (3, or as many brokers as there are if those are fewer).
	Replicas int16
	// RelayEvery is how often the relay looks for what other instances have published (100 ms).
	RelayEvery time.Duration
	// SessionTimeout is how long the partitions of a process stay unread that was killed (10 s).
	SessionTimeout time.Duration
	// Dial opens connections, for tests and proxies.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Late is told how late each record came back from its level.
	Late func(l stream.Level, late time.Duration)
	Now  func() time.Time // default time.Now
	// Stamped is what Now said when the broker's clock showed stamp (the stamp itself), for tests
	// that move Now.
	Stamped func(stamp time.Time) time.Time
	Log     *slog.Logger // default slog.Default
}

// Defaults of Options.
const (
	defaultPartitions     = 12
	maxReplicas           = 3
	defaultRelayEvery     = 100 * time.Millisecond
	defaultSessionTimeout = 10 * time.Second
)

// Counters tell what a Stream did since it was made.
type Counters struct {
	Relayed   atomic.Int64 // records and retries of the outbox that were sent
	Resent    atomic.Int64 // of those, sent again because the mark could not be set
	Sent      atomic.Int64 // records without a transaction
	Forwarded atomic.Int64 // records that came back from a level
	Foreign   atomic.Int64 // records of other producers that went from a level to their topic
	Stray     atomic.Int64 // records on a level that name no consumer: now dead letters
	Drained   atomic.Int64 // dead letters that were read from the dlq
	Moved     atomic.Int64 // partitions that were taken away from a session or a level
	Dropped   atomic.Int64 // outcomes that were not settled because their partition had moved
	Errors    atomic.Int64 // times one of the loops had to pause
}

// Stream is a stream on Kafka. It is safe for concurrent use.
type Stream struct {
	opt      Options
	cl       *kgo.Client // produces; not a member of any group
	others   *kgo.Client // produces on the topics of others, and gives up; nil: there are no Targets
	admin    *kadm.Client
	counters Counters
	levels   levelState

	mu      sync.Mutex
	known   map[string]spec // topics that exist, by name
	deleted map[string]spec // topics that were known and are to be created again, by name
	open    map[*session]struct{}
}

var (
	_ stream.Source = (*Stream)(nil)
	_ stream.Sender = (*Stream)(nil)
)

// New makes a client; it reaches for the brokers only when it is used. Close ends it.
func New(opt Options) (*Stream, error) {
	opt.Namespace = cmp.Or(opt.Namespace, "smartdrive")
	opt.Partitions = cmp.Or(opt.Partitions, defaultPartitions)
	opt.RelayEvery = cmp.Or(opt.RelayEvery, defaultRelayEvery)
	opt.SessionTimeout = cmp.Or(opt.SessionTimeout, defaultSessionTimeout)
	if opt.Levels == nil {
		opt.Levels = stream.Levels()
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Stamped == nil {
		opt.Stamped = func(stamp time.Time) time.Time { return stamp }
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	if !legal(opt.Namespace) {
		return nil, drive.Bad("namespace", drive.Malformed, "expected", "letters, digits, '.', '_' and '-'", "sent", opt.Namespace)
	}
	if err := opt.checkTargets(); err != nil {
		return nil, err
	}
	s := &Stream{opt: opt, known: map[string]spec{}, deleted: map[string]spec{}, open: map[*session]struct{}{}}
	cl, err := s.producer()
	if err != nil {
		return nil, err
	}
	s.cl, s.admin = cl, kadm.NewClient(cl)
	if len(opt.Targets) == 0 {
		return s, nil
	}
	// What is given up may be there all the same: it is sent again, and is there twice then.
	if s.others, err = s.producer(kgo.AllowIdempotentProduceCancellation()); err != nil {
		cl.Close()
	}
	return s, err
}

// producer makes a client that produces.
func (s *Stream) producer(more ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(s.client(append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger),
		kgo.UnknownTopicRetries(unknownTopicTries),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
	}, more...)...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return cl, nil
}

const (
	// linger is how long a record waits for others of its partition.
	linger = 2 * time.Millisecond
	// unknownTopicTries is how often a topic is looked up before a record for it fails: what was
	// just created is not known to every broker yet.
	unknownTopicTries = 8
	// metadataEvery is how soon after another a change of leaders is looked up: the default of 5 s
	// is most of an outage.
	metadataEvery = 250 * time.Millisecond
	dialTime      = 5 * time.Second
)

// client returns the options that all clients share, and more.
func (s *Stream) client(more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.opt.Brokers...), kgo.ClientID(s.opt.Namespace), kgo.MetadataMinAge(metadataEvery), kgo.DialTimeout(dialTime),
	}
	opts = append(opts, s.opt.secure()...)
	if s.opt.Dial != nil {
		opts = append(opts, kgo.Dialer(s.opt.Dial))
	}
	return append(opts, more...)
}

// Close ends the client and every session that is open.
func (s *Stream) Close() error {
	s.mu.Lock()
	var sessions []*session
	for one := range s.open {
		sessions = append(sessions, one)
	}
	s.mu.Unlock()
	var errs []error
	for _, one := range sessions {
		errs = append(errs, one.Close())
	}
	s.cl.Close()
	if s.others != nil {
		s.others.Close()
	}
	return errors.Join(errs...)
}

// Counters returns the counters.
func (s *Stream) Counters() *Counters { return &s.counters }

// Send implements stream.Sender.
func (s *Stream) Send(ctx context.Context, records ...stream.Record) error {
	messages := make([]*kgo.Record, len(records))
	for i, r := range records {
		r.Source = s.opt.Source
		if r.Time == 0 {
			r.Time = drive.TimeOf(s.opt.Now())
		}
		event, err := r.Encode()
		if err != nil {
			return err
		}
		messages[i] = message(s.topic(r.Topic), keyText(r.Key), event)
	}
	if err := s.produce(ctx, messages); err != nil {
		return fmt.Errorf("send %d records: %w", len(records), err)
	}
	s.counters.Sent.Add(int64(len(records)))
	return nil
}

// produce returns when all messages are durable, or some are not.
func (s *Stream) produce(ctx context.Context, messages []*kgo.Record) error {
	for _, err := range s.produceAll(ctx, s.cl, messages) {
		if err != nil {
			return classify(err)
		}
	}
	return nil
}

// produceAll sends messages in their order and returns what became of each. The client does not
// give up a message that a broker may have, lest a later one gets its number; when ctx ends we do
// not wait for that, and such a message may be durable although it has an error.
func (s *Stream) produceAll(ctx context.Context, cl *kgo.Client, messages []*kgo.Record) []error {
	type result struct {
		i   int
		err error
	}
	results := make(chan result, len(messages))
	errs := make([]error, len(messages))
	for i, m := range messages {
		errs[i] = errUnknown
		cl.Produce(ctx, m, func(_ *kgo.Record, err error) { results <- result{i, err} })
	}
	for range messages {
		select {
		case r := <-results:
			errs[r.i] = r.err
			s.noteMissing(messages[r.i].Topic, r.err)
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

// errUnknown is what became of a message whose answer was not waited for.
var errUnknown error = drive.Fail(drive.Unavailable, "reason", "no answer in time")

func keyText(key drive.AccountID) string {
	if key.IsZero() {
		return ""
	}
	return key.String()
}

// classify translates the client's errors. Nearly all that can go wrong with a broker is that it
// cannot do it now; what is left is ours.
func classify(err error) error {
	var broker *kerr.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidRecord),
		errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		return err
	case errors.As(err, &broker), errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		return drive.Wrap(err, drive.Unavailable)
	case errors.Is(err, kgo.ErrClientClosed):
		return drive.Wrap(err, drive.Stopping)
	}
	return drive.Wrap(err, drive.Unavailable) // the network
}
