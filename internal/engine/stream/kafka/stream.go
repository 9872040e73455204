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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
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
	opt      Options
	cl       *kgo.Client  // for requests; it neither produces nor consumes
	admin    *kadm.Client // uses cl
	own      *producer
	foreign  *producer // for topics of other producers, with timeouts; nil without Targets
	counters Counters
	levels   levelState

	mu      sync.Mutex
	topics  map[string]ownTopic   // topics of the namespace that are in use, by name
	started map[string]bool       // groups that a session has joined
	open    map[*session]struct{} // sessions that are not closed
}

// ownTopic is a topic of the namespace. The zero flags mean that ensure must look for it.
type ownTopic struct {
	topicSpec
	exists  bool // ensure found or created it
	deleted bool // the brokers reported it as missing afterwards
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
	s := &Stream{opt: opt, topics: map[string]ownTopic{}, open: map[*session]struct{}{}, started: map[string]bool{}}
	for _, t := range s.specs() {
		s.topics[t.name] = ownTopic{topicSpec: t}
	}
	var err error
	if s.cl, err = s.newClient(); err != nil {
		return nil, err
	}
	s.admin = kadm.NewClient(s.cl)
	if s.own, err = s.newProducer(); err != nil {
		return nil, err
	}
	if len(opt.Targets) > 0 {
		// A cancelled message may have been sent; it is then sent twice.
		s.foreign, err = s.newProducer(kgo.AllowIdempotentProduceCancellation())
	}
	return s, err
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
	s.own.close()
	if s.foreign != nil {
		s.foreign.close()
	}
	s.cl.Close()
	return errors.Join(errs...)
}

// Counters returns the live counters.
func (s *Stream) Counters() *Counters { return &s.counters }

// Send publishes records and returns nil when all are durable (stream.Sender). It sets Source, and
// a zero Time. Calls that find a topic deleted fail until one of them has created it. After an
// error some records may be durable.
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
	for _, err := range s.own.produceAll(ctx, messages) {
		if err != nil {
			return classify(err)
		}
	}
	return nil
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
