package config

import (
	"errors"
	"fmt"
	"strings"
)

// Mode says what an installation stands on.
type Mode string

// The modes. All other combinations are refused.
const (
	Embedded Mode = "embedded"              // SQLite, a directory, timers in memory, the outbox: one process
	Single   Mode = "single"                // the same on MySQL: still one process
	Shared   Mode = "cluster-without-kafka" // MySQL, Redis, S3: many processes, timers' handlers beside their scheduler
	Cluster  Mode = "cluster"               // and Kafka between the schedulers and the workers
)

// Many reports whether several instances may run.
func (m Mode) Many() bool { return m == Shared || m == Cluster }

// parts says which of the outside components are given.
type parts struct{ mysql, s3, redis, kafka bool }

// modes is all that is allowed.
var modes = map[parts]Mode{
	{}:                                   Embedded,
	{mysql: true}:                        Single,
	{mysql: true, s3: true, redis: true}: Shared,
	{mysql: true, s3: true, redis: true, kafka: true}: Cluster,
}

// lacks says why a combination is refused: each row holds for what is given without what it needs.
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

const allowedModes = "Possible are: nothing of --db, --redis, --kafka and --blobs s3://...; --db alone (one instance); " +
	"--db, --redis and --blobs s3://...; and these three with --kafka"

// Mode returns what the installation stands on. The settings of a loaded Config have one.
func (c *Config) Mode() Mode { return modes[c.parts()] }

func (c *Config) parts() parts {
	return parts{mysql: c.MySQL != nil, s3: c.S3 != nil, redis: c.Redis != nil, kafka: c.Kafka != nil}
}

// agreeMode refuses combinations that do not work, with all reasons.
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
	if !mode.Many() && !c.Roles.All() {
		errs = append(errs, errors.New("--roles: there is one instance without Redis and S3, and it has all roles; leave --roles out"))
	}
	if !mode.Many() {
		c.Roles.Export, c.Roles.Ingest = true, true // there is nobody else
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

// agreeDelayTopics refuses topics that are SmartDrive's own: a record that goes from a level to a
// level would never end.
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

// agreeRedirect refuses to send clients where there is nothing, or where a browser does not go.
func (c *Config) agreeRedirect() error {
	switch {
	case c.S3 == nil:
		return errors.New("--download-redirect: contents are in a directory, which only this server can read; it needs --blobs s3://..., or leave it out")
	case c.S3.Insecure && (c.TLSCert != "" || c.BaseURL != nil && c.BaseURL.Scheme == "https"):
		return errors.New("--download-redirect: clients come by HTTPS and would be sent on to HTTP, which they refuse; give the store a certificate, or leave it out")
	}
	return nil
}

// Roles are what an instance does.
type Roles struct {
	API       bool // answers requests
	Scheduler bool // takes timers that are due and sees to their delivery
	Worker    bool // consumes the stream, audits, keeps house
	Export    bool // collects and seals batches of documents
	Ingest    bool // takes in bundles of documents
}

// All reports whether the instance does everything that an installation cannot be without.
func (r Roles) All() bool { return r.API && r.Scheduler && r.Worker }

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

// Possible returns what an installation with these components stands on, or why there is none.
func (c *Config) Possible() (Mode, error) {
	next := *c
	next.Roles = Roles{API: true, Scheduler: true, Worker: true}
	if err := next.agreeMode(); err != nil {
		return "", err
	}
	return next.Mode(), nil
}
