package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// Secret is a text that is never shown in logs and messages: it formats as "***". string(s) is the
// text.
type Secret string

// String returns "***", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString returns String in quotes.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText returns String, for JSON and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MySQL is the location of the database:
// mysql://user:password@host[:port]/name[?tls=...&connections=N].
type MySQL struct {
	Addr        string // host:port
	User        string
	Password    Secret
	Name        string // of the database
	TLS         string // "", "true" or "skip-verify"
	Connections int    // maximum number of connections; 0: the adapter's default
}

// Redis is the location of Redis:
// redis://[[user]:password@]host[:port][,host[:port]...][/db][?sentinel=NAME|cluster=true];
// rediss:// uses TLS.
type Redis struct {
	Addrs    []string // host:port; of the sentinels, if Sentinel is set
	User     string
	Password Secret
	DB       int
	Sentinel string // name of the master that the sentinels watch; empty: no sentinels
	Cluster  bool
	TLS      bool
}

// Kafka is the location of the brokers: host[:port][,host[:port]...], or
// kafka://[user:password@]host[:port]...[?tls=true&sasl=MECHANISM] with authentication.
type Kafka struct {
	Brokers  []string // host:port
	User     string   // for SASL; empty: no SASL
	Password Secret
	SASL     string // scram-sha-512, scram-sha-256 or plain
	TLS      bool
}

// S3 is a bucket for contents or exports:
// s3://[key:secret@]host[:port]/bucket[/prefix][?region=...&insecure=true]. Without a key, the
// variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN are used.
type S3 struct {
	Endpoint string // host[:port]
	Key      string
	Secret   Secret
	Session  Secret // token of temporary credentials
	Bucket   string
	Prefix   string // prefix of all keys, without slashes at its ends
	Region   string
	Insecure bool // HTTP instead of HTTPS
}

// parseTarget parses a URL that may contain secrets; its errors do not quote it.
func parseTarget(v, form string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Opaque != "" || u.Fragment != "" || !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("write it as %s; special characters of a password as %%2F and the like", form)
	}
	return u, nil
}

// parseOptions parses the query of u. It fails for a name that is not among allowed.
func parseOptions(u *url.URL, allowed ...string) (url.Values, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("what stands behind ? cannot be read; write it as name=value&name=value")
	}
	for name := range values {
		if !slices.Contains(allowed, name) {
			return nil, fmt.Errorf("there is no option %q; there are %s", name, strings.Join(allowed, ", "))
		}
	}
	return values, nil
}

// option returns the option called name as a boolean; false if it is missing or empty. It fails if
// the value is not one that strconv.ParseBool accepts.
func option(values url.Values, name string) (bool, error) {
	v := values.Get(name)
	if v == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%s=%q is neither true nor false", name, v)
	}
	return on, nil
}

// address adds the default port to host if it has none. Its errors do not quote host, because it
// may be part of a password that contains a slash.
func address(host, port string) (string, error) {
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
		host += ":" + port
	}
	if strings.HasPrefix(host, ":") || hostPort(host) != nil {
		return "", errors.New("what stands in the place of the host is not HOST:PORT; special characters of a password are written as %2F and the like")
	}
	return host, nil
}

// mysqlForm shows the form of --db in error texts.
const mysqlForm = "mysql://user:password@host:3306/database"

// setDB parses the URL of a database into c.MySQL, without connecting. It fails if user or name is
// missing or an option is unknown or out of range; errors do not quote the password, and c is
// unchanged.
func setDB(c *Config, v string) error {
	u, err := parseTarget(v, mysqlForm, "mysql")
	if err != nil {
		return err
	}
	values, err := parseOptions(u, "tls", "connections")
	if err != nil {
		return err
	}
	m := &MySQL{User: u.User.Username(), Name: strings.TrimPrefix(u.Path, "/"), TLS: values.Get("tls")}
	password, _ := u.User.Password()
	m.Password = Secret(password)
	if m.Addr, err = address(u.Host, "3306"); err != nil {
		return err
	}
	switch m.TLS {
	case "false":
		m.TLS = ""
	case "", "true", "skip-verify":
	default:
		return fmt.Errorf("tls=%q is not one of true, skip-verify, false", m.TLS)
	}
	if n := values.Get("connections"); n != "" {
		if m.Connections, err = strconv.Atoi(n); err != nil || m.Connections < 4 || m.Connections > 10_000 {
			return fmt.Errorf("connections=%q is not a whole number from 4 to 10000", n)
		}
	}
	if m.User == "" || m.Name == "" || strings.Contains(m.Name, "/") {
		return errors.New("the user or the name of the database is missing; write it as " + mysqlForm)
	}
	c.MySQL = m
	return nil
}

// redisForm shows the form of --redis in error texts.
const redisForm = "redis://:password@host:6379/0, with ?cluster=true and some hosts of a cluster, or ?sentinel=NAME and the sentinels"

// parseHosts parses a URL with several hosts, which net/url rejects: it removes all hosts but the
// first before parsing, and returns all as hosts.
func parseHosts(v, form string, schemes ...string) (u *url.URL, hosts string, err error) {
	scheme, rest, _ := strings.Cut(v, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	hosts = rest[strings.LastIndexByte(rest[:end], '@')+1 : end]
	first, _, _ := strings.Cut(hosts, ",")
	u, err = parseTarget(scheme+"://"+rest[:end-len(hosts)]+first+rest[end:], form, schemes...)
	return u, hosts, err
}

// addresses parses a list of hosts, separated by commas, and adds port to those that have none. It
// fails at the first malformed one.
func addresses(hosts, port string) (all []string, err error) {
	for _, host := range elements(hosts) {
		addr, err := address(host, port)
		if err != nil {
			return nil, err
		}
		all = append(all, addr)
	}
	return all, nil
}

// setRedis parses the URL of Redis, with one or more hosts, into c.Redis, without connecting. It
// fails if a host or option is not valid or options exclude each other; errors do not quote the
// password.
func setRedis(c *Config, v string) error {
	u, hosts, err := parseHosts(v, redisForm, "redis", "rediss")
	if err != nil {
		return err
	}
	values, err := parseOptions(u, "sentinel", "cluster")
	if err != nil {
		return err
	}
	r := &Redis{User: u.User.Username(), Sentinel: values.Get("sentinel"), TLS: u.Scheme == "rediss"}
	password, _ := u.User.Password()
	r.Password = Secret(password)
	if r.Cluster, err = option(values, "cluster"); err != nil {
		return err
	}
	port := "6379"
	if r.Sentinel != "" {
		port = "26379"
	}
	if r.Addrs, err = addresses(hosts, port); err != nil {
		return err
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if r.DB, err = strconv.Atoi(db); err != nil || r.DB < 0 {
			return fmt.Errorf("%q is not the number of a database; write it as %s", db, redisForm)
		}
	}
	c.Redis = r
	return r.agree()
}

// agree returns an error if options exclude each other: a cluster with a Sentinel or with a
// database other than 0, or several hosts that are neither.
func (r *Redis) agree() error {
	switch {
	case r.Cluster && r.Sentinel != "":
		return errors.New("cluster=true and sentinel= exclude each other")
	case r.Cluster && r.DB != 0:
		return errors.New("a Redis Cluster has only the database 0")
	case len(r.Addrs) > 1 && !r.Cluster && r.Sentinel == "":
		return errors.New("several hosts are a cluster or sentinels; add ?cluster=true or ?sentinel=NAME")
	}
	return nil
}

// kafkaForm shows the form of --kafka in error texts.
const kafkaForm = "host:9092,host:9092, or kafka://user:password@host:9092,host:9092?tls=true&sasl=scram-sha-512"

// mechanisms are the SASL mechanisms, the default first.
var mechanisms = []string{"scram-sha-512", "scram-sha-256", "plain"}

// setKafka parses a list of brokers or a URL into c.Kafka. It fails without a broker, for an
// unknown option, and for a password without its mechanism. Errors do not quote the password.
func setKafka(c *Config, v string) error {
	if !strings.Contains(v, "://") {
		v = "kafka://" + v
		if strings.ContainsAny(v[len("kafka://"):], "/@?") {
			return errors.New("this is not a list of brokers; write it as " + kafkaForm)
		}
	}
	u, hosts, err := parseHosts(v, kafkaForm, "kafka")
	if err != nil && hosts != "" && hosts != "," {
		return err
	}
	if len(elements(hosts)) == 0 {
		return errors.New("there is no broker in it; write them as " + kafkaForm)
	}
	values, err := parseOptions(u, "tls", "sasl")
	if err != nil {
		return err
	}
	k := &Kafka{User: u.User.Username(), SASL: values.Get("sasl")}
	password, _ := u.User.Password()
	k.Password = Secret(password)
	if k.Brokers, err = addresses(hosts, "9092"); err != nil {
		return err
	}
	if k.TLS, err = option(values, "tls"); err != nil {
		return err
	}
	c.Kafka = k
	return k.agree()
}

// agree sets the default SASL mechanism if there is a user, and returns an error if user or
// password is missing or the mechanism is unknown or would send the password unencrypted.
func (k *Kafka) agree() error {
	if k.User != "" && k.SASL == "" {
		k.SASL = mechanisms[0]
	}
	switch {
	case (k.User == "") != (k.Password == ""):
		return errors.New("the user or the password is missing; write it as " + kafkaForm)
	case k.SASL != "" && k.User == "":
		return errors.New("sasl= needs a user and a password; write it as " + kafkaForm)
	case k.SASL != "" && !slices.Contains(mechanisms, k.SASL):
		return fmt.Errorf("sasl=%q is not known here; there are %s", k.SASL, strings.Join(mechanisms, ", "))
	case k.SASL == "plain" && !k.TLS:
		return errors.New("sasl=plain sends the password as it is; add tls=true, or use scram-sha-512")
	}
	return nil
}

// s3Form shows the form of the URL of a bucket in error texts.
const s3Form = "s3://key:secret@host:port/bucket/prefix, or leave key:secret@ to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

// setBlobs stores a directory in c.Blobs, or parses an s3:// URL into c.S3. It fails for a URL of
// another scheme; after an error c is not usable.
func setBlobs(c *Config, v string) error {
	if !strings.HasPrefix(v, "s3:") {
		c.Blobs = v
		if scheme, _, ok := strings.Cut(v, "://"); ok {
			return fmt.Errorf("%s:// is not known here; use a directory, or %s", scheme, s3Form)
		}
		return path(v)
	}
	s, err := parseS3(v)
	c.S3 = s
	return err
}

// setExportBucket parses an s3:// URL into c.ExportBucket.
func setExportBucket(c *Config, v string) (err error) {
	c.ExportBucket, err = parseS3(v)
	return err
}

// ParseS3 parses the URL of a bucket, as for --blobs. A missing key is taken from environ.
func ParseS3(v string, environ []string) (*S3, error) {
	s, err := parseS3(v)
	if err != nil {
		return nil, err
	}
	if err := s.credentials(environ, ""); err != nil {
		return nil, errors.New("there is no key; write it as " + s3Form)
	}
	return s, nil
}

// parseS3 parses the URL of a bucket without connecting. It fails if the bucket is missing, an
// option is unknown, or only one of key and secret is given; both may be missing.
func parseS3(v string) (*S3, error) {
	u, err := parseTarget(v, s3Form, "s3")
	if err != nil {
		return nil, err
	}
	values, err := parseOptions(u, "region", "insecure")
	if err != nil {
		return nil, err
	}
	s := &S3{Endpoint: u.Host, Key: u.User.Username(), Region: values.Get("region")}
	secret, _ := u.User.Password()
	s.Secret = Secret(secret)
	s.Bucket, s.Prefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/")
	if s.Insecure, err = option(values, "insecure"); err != nil {
		return nil, err
	}
	if s.Bucket == "" {
		return nil, errors.New("the bucket is missing; write it as " + s3Form)
	}
	if (s.Key == "") != (s.Secret == "") {
		return nil, errors.New("the key or its secret is missing; write both or none, as in " + s3Form)
	}
	return s, nil
}

// credentials sets the key from the environment if the URL has none. setting names the flag in
// errors.
func (s *S3) credentials(env environment, setting string) error {
	if s == nil || s.Key != "" {
		return nil
	}
	s.Key, s.Secret = env.lookup("AWS_ACCESS_KEY_ID"), Secret(env.lookup("AWS_SECRET_ACCESS_KEY"))
	s.Session = Secret(env.lookup("AWS_SESSION_TOKEN"))
	if s.Key == "" || s.Secret == "" {
		return errors.New("--" + setting + ": there is no key; write it as " + s3Form)
	}
	return nil
}

// maxNamespace leaves room for the suffixes of Kafka topics, whose names have at most 249
// characters.
const maxNamespace = 40

// setNamespace checks a namespace (at most 40 of a-z, 0-9 and -, a letter first) and stores it in
// c.
func setNamespace(c *Config, v string) error {
	ok := v != "" && len(v) <= maxNamespace && v[0] >= 'a' && v[0] <= 'z'
	for _, r := range v {
		ok = ok && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}
	if !ok {
		return fmt.Errorf("%q is not possible; use at most %d of a-z, 0-9 and -, a letter first", v, maxNamespace)
	}
	c.Namespace = v
	return nil
}

// leastSharedPart is the smallest part size on S3: a power of two of at least S3's minimum of 5
// MiB.
const leastSharedPart = 8 * drive.MiB

// Mail is the mail server: smtps://[user:password@]host[:port]?from=ADDRESS, or smtp:// for
// STARTTLS.
type Mail struct {
	Address  string // host:port
	TLS      bool   // implicit TLS; otherwise STARTTLS
	User     string
	Password Secret
	From     string
}

// mailForm shows the form of --mail in error texts.
const mailForm = "smtps://user:password@host:465?from=drive@example.org, or smtp:// for STARTTLS"

// setMail parses an smtp:// or smtps:// URL into c.Mail; without a port it is 587 or 465. It fails
// if from is not a plain mail address or another option is given; c.Mail is then unchanged.
func setMail(c *Config, v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Path != "" && u.Path != "/" {
		return fmt.Errorf("write it as %s; special characters of a password as %%2F and the like", mailForm)
	}
	m := &Mail{TLS: u.Scheme == "smtps", Address: u.Host, From: u.Query().Get("from")}
	for key := range u.Query() {
		if key != "from" {
			return fmt.Errorf("%q is not an option; write it as %s", key, mailForm)
		}
	}
	if u.Port() == "" {
		port := "587"
		if m.TLS {
			port = "465"
		}
		m.Address = net.JoinHostPort(u.Hostname(), port)
	}
	if from, err := mail.ParseAddress(m.From); err != nil || from.Address != m.From {
		return fmt.Errorf("from needs the address of the sender; write it as %s", mailForm)
	}
	if u.User != nil {
		m.User = u.User.Username()
		password, _ := u.User.Password()
		m.Password = Secret(password)
	}
	c.Mail = m
	return nil
}
