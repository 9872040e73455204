package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options configure a Queue. Addrs is required; the zero value of every other field means its
// default.
type Options struct {
	Addrs    []string // host:port; several for a cluster or for Sentinels
	User     string
	Password string
	DB       int
	Sentinel string // name of the master that the Sentinels at Addrs watch; "" = no Sentinel
	Cluster  bool
	TLS      bool

	// Namespace is the prefix of all keys (default "smartdrive").
	Namespace string
	// Instance is the name of this instance in leases and announcements (default: random).
	Instance string
	// Shards is the number of shards (default 64). Redis stores it; a queue with another number
	// refuses to lease.
	Shards int
	// MaxWait is the longest sleep of an engine (default 1 s). It bounds the delay of a timer
	// armed by another instance, and the time that a loss stays unnoticed.
	MaxWait time.Duration
	// Window is the time for which touches are collected before they are sent (default 20 ms).
	Window time.Duration
	// OnClockStep is called when a server's clock jumped by more than a minute; by is negative for
	// a jump back. Timers are not affected. The queue calls it once for all shards, inside
	// another call, so OnClockStep must not call the queue.
	OnClockStep func(by time.Duration)

	// Now is the clock of this process (default time.Now).
	Now func() time.Time
	// Clock replaces the servers' clock in tests; nil uses the servers' own.
	Clock func() time.Time
}

// Defaults of Options.
const (
	defaultNamespace = "smartdrive"
	defaultShards    = 64
	defaultMaxWait   = time.Second
	defaultWindow    = 20 * time.Millisecond
)

// setDefaults replaces zero values by their defaults.
func (o *Options) setDefaults() {
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	if o.Instance == "" {
		o.Instance = uuid.NewString()[:8]
	}
	if o.Shards <= 0 {
		o.Shards = defaultShards
	}
	if o.MaxWait <= 0 {
		o.MaxWait = defaultMaxWait
	}
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// noLog replaces the log of the client library, which writes every failed dial to stderr. The
// errors contain the same information.
type noLog struct{}

// Printf discards a log line.
func (noLog) Printf(context.Context, string, ...any) {}

// disableClientLog installs noLog once.
var disableClientLog = sync.OnceFunc(func() { redis.SetLogger(noLog{}) })

// client returns a client that connects on first use.
func (o *Options) client() redis.UniversalClient {
	disableClientLog()
	opt := &redis.UniversalOptions{
		Addrs: o.Addrs, Username: o.User, Password: o.Password, DB: o.DB, MasterName: o.Sentinel, IsClusterMode: o.Cluster,
		Protocol: 2, DisableIdentity: true,
		MaxRetries:  -1, // Queue.run decides which calls are repeated
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
		// Maintenance notifications need RESP3 and a subscription per connection, and are
		// not supported here.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.TLS {
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redis.NewUniversalClient(opt)
}
