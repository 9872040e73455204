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

// Options configure New. Brokers, Backlog, DeadLetters and Source are required; the zero value of
// every other field means its default.
type Options struct {
	Brokers     []string                  // host:port
	Namespace   string                    // prefix of topics and groups (default smartdrive)
	Source      string                    // source of the records that Send publishes: "smartdrive/<installation id>"
	Backlog     stream.Backlog            // records for RunRelay
	DeadLetters stream.DeadLetterImporter // destination of RunDead
	// Consumers are the subscriptions whose retry topics are created at the start; others are
	// created by Open.
	Consumers []stream.Subscription
	// TLS encrypts all connections. Roots are the trusted certificates (default: the system's).
	TLS   bool
	Roots *x509.CertPool
	// User and Password authenticate by the mechanism SASL: scram-sha-512 (default), scram-sha-256
	// or plain. Without User there is no authentication.
	User, Password, SASL string
	// Targets are the topics to which other producers may send through a delay level (default
	// none). They must be outside of the namespace.
	Targets []string
	// Levels are the delay levels (default stream.Levels).
	Levels []stream.Level
	// Partitions of a new topic (default 12); it bounds the sessions that share a consumer's work.
	Partitions int32
	// Replicas of a new topic (default 3, or the number of brokers if less).
	Replicas int16
	// RelayEvery is the interval at which the relay looks for records of other instances (default
	// 100 ms).
	RelayEvery time.Duration
	// SessionTimeout is the time until the partitions of a dead process are reassigned (default 10
	// s).
	SessionTimeout time.Duration
	// Dial opens connections, for tests and proxies (default: net.Dialer).
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnForward receives the delay of each record forwarded from a level, beyond its due time; nil:
	// none.
	OnForward func(l stream.Level, late time.Duration)
	Now       func() time.Time // default time.Now
	// ConvertTimestamp converts a broker's timestamp to the clock of Now, for tests that move Now
	// (default: no change).
	ConvertTimestamp func(stamp time.Time) time.Time
	Log              *slog.Logger // default slog.Default
}

// Defaults of Options.
const (
	defaultPartitions     = 12
	maxReplicas           = 3
	defaultRelayEvery     = 100 * time.Millisecond
	defaultSessionTimeout = 10 * time.Second
)

// Counters counts the work of a Stream since its creation.
type Counters struct {
	Relayed   atomic.Int64 // records and retries of the outbox sent
	Resent    atomic.Int64 // of Relayed, records to be sent again because marking failed
	Sent      atomic.Int64 // records sent by Send
	Forwarded atomic.Int64 // records forwarded from a level
	Foreign   atomic.Int64 // records of other producers forwarded to their topic
	Stray     atomic.Int64 // records on a level without a valid consumer; sent to the dlq
	Drained   atomic.Int64 // dead letters imported from the dlq
	Moved     atomic.Int64 // partitions revoked from a session or a level
	Dropped   atomic.Int64 // outcomes ignored because their partition was revoked
	Errors    atomic.Int64 // outages of the loops
}

// Stream is the stream on Kafka. It is safe for concurrent use.
type Stream struct {
	opt           Options
	cl            *kgo.Client // producer; not a member of a group
	foreignClient *kgo.Client // producer for topics of other producers, with timeouts; nil without Targets
	admin         *kadm.Client
	counters      Counters
	levels        levelState

	mu    sync.Mutex
	known map[string]bool       // topics that exist
	open  map[*session]struct{} // sessions that are not closed
}

var (
	_ stream.Source = (*Stream)(nil)
	_ stream.Sender = (*Stream)(nil)
)

// New returns a Stream. It connects on first use. Invalid names in opt fail with BadRequest. The
// caller must call Close.
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
	if opt.ConvertTimestamp == nil {
		opt.ConvertTimestamp = func(stamp time.Time) time.Time { return stamp }
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	if !validName(opt.Namespace) {
		return nil, drive.BadField("namespace", drive.Malformed, "expected", "letters, digits, '.', '_' and '-'", "sent", opt.Namespace)
	}
	if err := opt.checkTargets(); err != nil {
		return nil, err
	}
	s := &Stream{opt: opt, known: map[string]bool{}, open: map[*session]struct{}{}}
	cl, err := s.producer()
	if err != nil {
		return nil, err
	}
	s.cl, s.admin = cl, kadm.NewClient(cl)
	if len(opt.Targets) == 0 {
		return s, nil
	}
	// A cancelled message may have been sent; it is then sent twice.
	if s.foreignClient, err = s.producer(kgo.AllowIdempotentProduceCancellation()); err != nil {
		cl.Close()
	}
	return s, err
}

// producer returns a new client whose messages must be acknowledged by all in-sync replicas; more
// overrides its options. It does not connect. The caller must close it.
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
	// linger is the time that a record waits for others of its partition.
	linger = 2 * time.Millisecond
	// unknownTopicTries bounds the look-ups of a topic before its records fail. A new topic is not
	// known to every broker immediately.
	unknownTopicTries = 8
	// metadataEvery is the least interval between look-ups of the partition leaders. The default of
	// 5 s would prolong outages.
	metadataEvery = 250 * time.Millisecond
	dialTime      = 5 * time.Second // limit of one connection attempt
)

// client returns the options common to all clients, followed by more.
func (s *Stream) client(more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.opt.Brokers...), kgo.ClientID(s.opt.Namespace), kgo.MetadataMinAge(metadataEvery), kgo.DialTimeout(dialTime),
	}
	opts = append(opts, s.opt.securityOptions()...)
	if s.opt.Dial != nil {
		opts = append(opts, kgo.Dialer(s.opt.Dial))
	}
	return append(opts, more...)
}

// Close closes all sessions without settling and then the clients. It returns the errors of the
// sessions. The Stream cannot be used afterwards.
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
	if s.foreignClient != nil {
		s.foreignClient.Close()
	}
	return errors.Join(errs...)
}

// Counters returns the live counters.
func (s *Stream) Counters() *Counters { return &s.counters }

// Send publishes records and returns nil when all are durable (stream.Sender). It sets Source, and
// a zero Time. After an error some records may be durable.
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
		messages[i] = newMessage(s.topic(r.Topic), keyText(r.Key), event)
	}
	if err := s.produce(ctx, messages); err != nil {
		return fmt.Errorf("send %d records: %w", len(records), err)
	}
	s.counters.Sent.Add(int64(len(records)))
	return nil
}

// produce sends messages and waits until all are durable. On error some may be durable.
func (s *Stream) produce(ctx context.Context, messages []*kgo.Record) error {
	for _, err := range s.produceAll(ctx, s.cl, messages) {
		if err != nil {
			return classify(err)
		}
	}
	return nil
}

// produceAll sends messages in order and returns the result of each. If ctx ends first, the
// remaining results are errUnknown; those messages may still become durable, because the client
// does not cancel a message that a broker may have.
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
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

// errUnknown is the result of a message whose acknowledgement was not awaited.
var errUnknown error = drive.Fail(drive.Unavailable, "reason", "no answer in time")

// keyText returns the message key of an account: "" for zero.
func keyText(key drive.AccountID) string {
	if key.IsZero() {
		return ""
	}
	return key.String()
}

// classify maps an error of the client library: refused requests stay as they are (a bug or a
// missing permission), a closed client becomes Stopping, all others Unavailable.
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
