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

// Options configure a Queue. Addrs is needed; the zero value of every other field is its default.
type Options struct {
	Addrs    []string // host:port; of a cluster or of Sentinels several
	User     string
	Password string
	DB       int
	Sentinel string // the name of the master that the Sentinels at Addrs watch
	Cluster  bool
	TLS      bool

	// Namespace begins the names of all keys ("smartdrive").
	Namespace string
	// Instance is who leases, as it is shown (a random name).
	Instance string
	// Shards is how many shards there are (64). It is stored: a queue with another number refuses
	// to work.
	Shards int
	// MaxWait is how long an engine sleeps at most, and so how late a timer may be that another
	// instance armed or how long a loss may go unseen (1 s).
	MaxWait time.Duration
	// Window is how long touches are gathered before they are sent (20 ms).
	Window time.Duration
	// Stepped is told when the clock of a server has jumped by more than a minute; by is negative
	// for back. Timers are not affected. It is called by whoever calls the queue, once for all
	// shards, and must not call it.
	Stepped func(by time.Duration)

	// Now is the clock of this process (time.Now).
	Now func() time.Time
	// Clock stands for the servers' clock, in tests; nil is the servers' own.
	Clock func() time.Time
}

// Defaults of Options.
const (
	defaultNamespace = "smartdrive"
	defaultShards    = 64
	defaultMaxWait   = time.Second
	defaultWindow    = 20 * time.Millisecond
)

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

// quiet takes the place of the library's log, which tells on stderr of each dial that failed: the
// errors say it.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// client connects lazily: nothing is sent before the first call.
func (o *Options) client() redis.UniversalClient {
	silence()
	opt := &redis.UniversalOptions{
		Addrs: o.Addrs, Username: o.User, Password: o.Password, DB: o.DB, MasterName: o.Sentinel, IsClusterMode: o.Cluster,
		Protocol: 2, DisableIdentity: true,
		MaxRetries:  -1, // Queue.run knows which calls may be made twice
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
		// Notices of maintenance need RESP3 and a subscription a connection; servers that know them
		// are not what this is for.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.TLS {
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redis.NewUniversalClient(opt)
}
