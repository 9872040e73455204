package config

import (
	"errors"
	"fmt"
	"strings"
)

// Mode is the combination of external services that an installation uses.
type Mode string

// The modes. Other combinations are refused.
const (
	Embedded Mode = "embedded"              // SQLite, a directory, timers in memory, the outbox: one process
	Single   Mode = "single"                // as Embedded, but with MySQL: still one process
	Shared   Mode = "cluster-without-kafka" // MySQL, Redis, S3: several processes; the scheduler runs the timers' handlers
	Cluster  Mode = "cluster"               // as Shared, with Kafka between schedulers and workers
)

// MultiInstance reports whether several instances may run.
func (m Mode) MultiInstance() bool { return m == Shared || m == Cluster }

// parts tells which external services are configured.
type parts struct{ mysql, s3, redis, kafka bool }

// modes holds the allowed combinations.
var modes = map[parts]Mode{
	{}:                                   Embedded,
	{mysql: true}:                        Single,
	{mysql: true, s3: true, redis: true}: Shared,
	{mysql: true, s3: true, redis: true, kafka: true}: Cluster,
}

// lacks explains why combinations are refused: each row matches a service without another one that
// it needs.
var lacks = []struct {
	refused func(parts) bool
	why     string
}{
	{
		func(p parts) bool { return !p.mysql && (p.s3 || p.redis || p.kafka) },
		"--db is missing: SQLite belongs to one process, which needs no Redis, Kafka or S3",
	},
	{
		func(p parts) bool { return p.s3 && !p.redis },
		"--redis is missing: the journal of the parts of uploads lies there when the bytes are on S3",
	},
	{
		func(p parts) bool { return p.redis && !p.s3 },
		"--blobs is a directory: only one process can use it, which needs no Redis; name an S3 bucket, as in --blobs s3://...",
	},
	{
		func(p parts) bool { return p.kafka && !p.redis },
		"--redis is missing: Kafka carries the timers that come due there",
	},
}

// allowedModes lists the possible combinations of settings, for error texts.
const allowedModes = "Possible are: nothing of --db, --redis, --kafka and --blobs s3://...; --db alone (one instance); " +
	"--db, --redis and --blobs s3://...; and these three with --kafka"

// Mode returns the mode of the installation. A loaded Config always has one.
func (c *Config) Mode() Mode { return modes[c.parts()] }

// parts returns the configured services.
func (c *Config) parts() parts {
	return parts{mysql: c.MySQL != nil, s3: c.S3 != nil, redis: c.Redis != nil, kafka: c.Kafka != nil}
}

// agreeMode checks the combination of services, and settings that depend on it. The error has all
// reasons.
func (c *Config) agreeMode() error {
	p := c.parts()
	mode, ok := modes[p]
	if !ok {
		var why []string
		for _, l := range lacks {
			if l.refused(p) {
				why = append(why, l.why)
			}
		}
		return fmt.Errorf("%s. %s", strings.Join(why, ". "), allowedModes)
	}
	var errs []error
	if !mode.MultiInstance() && !c.Roles.All() {
		errs = append(errs, errors.New("--roles: there is one instance without Redis and S3, and it has all roles; leave --roles out"))
	}
	if !mode.MultiInstance() {
		c.Roles.Export, c.Roles.Ingest = true, true // there is no other instance
	}
	errs = append(errs, c.agreeDelayTopics())
	if c.DownloadRedirect != 0 {
		errs = append(errs, c.agreeRedirect())
	}
	if c.S3 != nil && c.PartSize != 0 && c.PartSize < leastSharedPart {
		errs = append(errs, fmt.Errorf("--part-size: parts on S3 have at least %s", leastSharedPart))
	}
	return errors.Join(errs...)
}

// agreeDelayTopics fails if --kafka-delay-topics is set without --kafka, or names SmartDrive's own
// topics: a record delivered from one delay level to another would never end.
func (c *Config) agreeDelayTopics() error {
	if len(c.KafkaDelayTopics) > 0 && c.Kafka == nil {
		return errors.New("--kafka-delay-topics: there are no delay levels without --kafka; leave it out")
	}
	for _, topic := range c.KafkaDelayTopics {
		if topic == c.Namespace || strings.HasPrefix(topic, c.Namespace+".") {
			return fmt.Errorf("--kafka-delay-topics: %s is a topic of SmartDrive's own; name topics outside of %s", topic, c.Namespace)
		}
	}
	return nil
}

// agreeRedirect returns an error, with a remedy, if downloads cannot be redirected to the store:
// contents are in a directory, or clients would be sent from HTTPS to HTTP. It does not ask the
// store.
func (c *Config) agreeRedirect() error {
	switch {
	case c.S3 == nil:
		return errors.New("--download-redirect: contents are in a directory, which only this server can read; it needs --blobs s3://..., or leave it out")
	case c.S3.Insecure && (c.TLSCert != "" || c.BaseURL != nil && c.BaseURL.Scheme == "https"):
		return errors.New("--download-redirect: clients come by HTTPS and would be sent on to HTTP, which they refuse; give the store a certificate, or leave it out")
	}
	return nil
}

// Roles are the tasks of an instance.
type Roles struct {
	API       bool // answers requests
	Scheduler bool // finds due timers and delivers them
	Worker    bool // consumes the stream, audits, cleans up
	Export    bool // collects and seals batches of documents
	Ingest    bool // imports bundles of documents
}

// All reports whether the instance has all roles that an installation needs.
func (r Roles) All() bool { return r.API && r.Scheduler && r.Worker }

// String returns the names of the roles, separated by commas.
func (r Roles) String() string {
	var names []string
	for _, role := range []struct {
		name string
		has  bool
	}{{"api", r.API}, {"scheduler", r.Scheduler}, {"worker", r.Worker}, {"export", r.Export}, {"ingest", r.Ingest}} {
		if role.has {
			names = append(names, role.name)
		}
	}
	return strings.Join(names, ",")
}

// setRoles replaces c.Roles by a list of at least one of api, scheduler, worker, export and ingest,
// separated by commas. It fails at an unknown role and if the list is empty.
func setRoles(c *Config, v string) error {
	c.Roles = Roles{}
	for _, name := range elements(v) {
		switch name {
		case "api":
			c.Roles.API = true
		case "scheduler":
			c.Roles.Scheduler = true
		case "worker":
			c.Roles.Worker = true
		case "export":
			c.Roles.Export = true
		case "ingest":
			c.Roles.Ingest = true
		default:
			return fmt.Errorf("%q is not one of api, scheduler, worker, export, ingest", name)
		}
	}
	if c.Roles == (Roles{}) {
		return errors.New("an instance has at least one of api, scheduler, worker, export, ingest")
	}
	return nil
}

// CheckMode returns the mode for the configured services, or the error why the combination is
// refused. It ignores Roles.
func (c *Config) CheckMode() (Mode, error) {
	next := *c
	next.Roles = Roles{API: true, Scheduler: true, Worker: true}
	if err := next.agreeMode(); err != nil {
		return "", err
	}
	return next.Mode(), nil
}
