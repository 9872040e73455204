package config

import (
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
)

// setting is one row of the table.
type setting struct {
	name  string // of the flag and of the YAML key; the variable is SMARTDRIVE_ and the name in capitals with _
	form  string // what a value looks like, for the help
	def   string // default, as it would be written; "" = not set, and then set is not called
	help  string
	list  bool // several values, separated by commas or as a YAML list
	noKey bool // not a YAML key
	// secret: the value may hold a password. A variable with _FILE behind its name names a file to read it from.
	secret bool
	set    func(c *Config, value string) error
}

// variable returns the name in the environment.
func (s *setting) variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

const variablePrefix = "SMARTDRIVE_"

// settings are all there are, in the order of the help.
var settings = []setting{
	{
		name: "config", form: "FILE", noKey: true,
		help: "YAML file with settings; its keys are the names of the flags without the dashes",
		set:  text(func(c *Config) *string { return &c.file }, path),
	},
	{
		name: "data", form: "DIR",
		help: "directory of the database and of all that SmartDrive keeps; $XDG_DATA_HOME/smartdrive, or ~/.local/share/smartdrive, when it is not set",
		set:  text(func(c *Config) *string { return &c.Data }, path),
	},
	{
		name: "blobs", form: "DIR|URL", secret: true,
		help: "where the contents of files are, finished and unfinished: a directory (that of --data when it is not set), or a bucket as in s3://key:secret@host:port/bucket/prefix?region=R; insecure=true speaks HTTP; the key may also be in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
		set:  setBlobs,
	},
	{
		name: "db", form: "URL", secret: true,
		help: "database of an installation with several instances: MySQL 8 or MariaDB 10.6 and later, as mysql://user:password@host:port/database, with ?tls=true or skip-verify and connections=N; a SQLite file in --data when it is not set",
		set:  setDB,
	},
	{
		name: "redis", form: "URL", secret: true,
		help: "Redis 7 for the timers and the journal of uploads, as redis://:password@host:port/0 (rediss:// with TLS); several hosts with commas between them and ?cluster=true or ?sentinel=NAME",
		set:  setRedis,
	},
	{
		name: "kafka", form: "HOST:PORT,...", list: true, secret: true,
		help: "brokers of Kafka 4, which carries timers and events to the workers; kafka://user:password@host:port,...?tls=true&sasl=scram-sha-512 where they ask who comes",
		set:  setKafka,
	},
	{
		name: "namespace", form: "NAME", def: "smartdrive",
		help: "begins the names of Redis keys, Kafka topics and consumer groups; the same for all instances, different for installations that share servers",
		set:  setNamespace,
	},
	{
		name: "roles", form: "ROLE,...", def: "api,scheduler,worker,export,ingest", list: true,
		help: "what this instance does: api (answers requests), scheduler (delivers timers), worker (handles events, audits, keeps house), export (collects documents for zips), ingest (takes in bundles of documents)",
		set:  setRoles,
	},
	{
		name: "secret-key", form: "KEY,...", secret: true,
		help: "key that seals the secrets of links in the database (what links are signed with, the tokens of shares and collect links, codes), so that a copy of the database opens none without it: the base64 of 32 bytes (openssl rand -base64 32), the same for all instances; older keys behind it open what they have sealed; an embedded database without it has one in --data, which no backup copies",
		set: func(c *Config, v string) error {
			c.SecretKey = Secret(v)
			return nil
		},
	},
	{
		name: "start-wait", form: "DURATION", def: "30s",
		help: "how long a start waits for the database, Redis, Kafka or S3 to answer",
		set:  spanOrNever(func(c *Config) *time.Duration { return &c.StartWait }, time.Second, time.Hour),
	},
	{
		name: "listen", form: "HOST:PORT", def: "127.0.0.1:8320",
		help: "address to answer at; port 0 takes a free one",
		set:  text(func(c *Config) *string { return &c.Listen }, hostPort),
	},
	{
		name: "base-url", form: "URL",
		help: "address by which people reach the server, where a proxy stands before it; it may have a path, as in https://example.org/drive",
		set:  setBaseURL,
	},
	{
		name: "trusted-proxies", form: "CIDR,...", list: true,
		help: "addresses of the proxies whose X-Forwarded-For, -Proto and -Host are believed, as 10.0.0.0/8 or 127.0.0.1",
		set:  setTrustedProxies,
	},
	{
		name: "tls-cert", form: "FILE",
		help: "certificate in PEM, with its chain; read again on SIGHUP",
		set:  text(func(c *Config) *string { return &c.TLSCert }, path),
	},
	{
		name: "tls-key", form: "FILE",
		help: "key of the certificate in PEM; read again on SIGHUP",
		set:  text(func(c *Config) *string { return &c.TLSKey }, path),
	},
	{
		name: "cors-origins", form: "ORIGIN,...", list: true,
		help: "web pages of other origins that may use the API, as https://app.example.org, or * for all",
		set:  setCORSOrigins,
	},
	{
		name: "download-redirect", form: "DURATION", def: "0",
		help: "with S3: a download is sent on (307) to a presigned address of the store that is good for so long, 1m to 24h, to whoever has it, even if the right to the file ends before; the address in --blobs must be one that clients reach; 0 = contents come through this server",
		set:  spanOrNever(func(c *Config) *time.Duration { return &c.DownloadRedirect }, time.Minute, 24*time.Hour),
	},
	{
		name: "upload-idle", form: "DURATION", def: "30s",
		help: "an upload that gets no bytes for so long is parked: it is charged only for what has arrived; at least 100ms",
		set:  span(func(c *Config) *time.Duration { return &c.UploadIdle }, 100*time.Millisecond, 24*time.Hour),
	},
	{
		name: "upload-abandon", form: "DURATION", def: "168h",
		help: "a parked upload that gets no bytes for so long is deleted",
		set:  span(func(c *Config) *time.Duration { return &c.UploadAbandon }, 100*time.Millisecond, tenYears),
	},
	{
		name: "upload-max-age", form: "DURATION", def: "720h",
		help: "an upload is deleted at this age even if it goes on; longer for very large files",
		set:  span(func(c *Config) *time.Duration { return &c.UploadMaxAge }, 100*time.Millisecond, tenYears),
	},
	{
		name: "upload-max-open", form: "N", def: "1000",
		help: "unfinished uploads that an account may have",
		set:  number(func(c *Config) *int { return &c.UploadMaxOpen }, 1, 1_000_000),
	},
	{
		name: "part-size", form: "SIZE", def: "8MiB",
		help: "size of the parts of an upload when the client does not choose: a power of two from 1MiB to 1GiB",
		set:  setPartSize,
	},
	{
		name: "durability", form: "WHEN", def: string(DurabilityProcess),
		help: "when a part that was acknowledged is safe: process (if the server is killed; a loss of power may cost parts, which are then asked for again) or part (also without power, at a sync for each part)",
		set:  choice(func(c *Config) *Durability { return &c.Durability }, DurabilityProcess, DurabilityPart),
	},
	{
		name: "instant-scope", form: "SCOPE", def: string(InstantInstance),
		help: "whose content an upload may be linked to without sending it: instance (anybody's up to 64MiB, after a proof of having all of it, and one's own at any size; whoever knows the digest of a content learns whether somebody here has it), user (one's own alone: nothing is learned about others) or off",
		set:  choice(func(c *Config) *InstantScope { return &c.InstantScope }, InstantInstance, InstantUser, InstantOff),
	},
	{
		name: "resumable-draft", form: "on|off", def: "off",
		help: "whether PUT of a file may be resumed as an Internet-Draft of the IETF says (draft-ietf-httpbis-resumable-upload, interop version 8), which has changed with each version so far: on or off",
		set:  onOff(func(c *Config) *bool { return &c.ResumableDraft }),
	},
	{
		name: "default-quota", form: "SIZE", def: "10GiB",
		help: "space of an account that is made without saying how much",
		set:  size(func(c *Config) *drive.ByteSize { return &c.DefaultQuota }),
	},
	{
		name: "min-free", form: "SIZE", def: "1GiB",
		help: "free space that uploads leave on the disk of --blobs",
		set:  size(func(c *Config) *drive.ByteSize { return &c.MinFree }),
	},
	{
		name: "user-requests", form: "N", def: "32",
		help: "requests of one user that are answered at the same time",
		set:  number(func(c *Config) *int { return &c.UserRequests }, 1, 10_000),
	},
	{
		name: "address-requests", form: "N", def: "128",
		help: "requests without a login, such as those to share links, that are answered for one address at the same time; a whole office may have one address",
		set:  number(func(c *Config) *int { return &c.AddressRequests }, 1, 10_000),
	},
	{
		name: "scrub", form: "DURATION", def: "720h",
		help: "every file's bytes are read and checked once in so long; 0 = never",
		set:  spanOrNever(func(c *Config) *time.Duration { return &c.Scrub }, time.Second, tenYears),
	},
	{
		name: "trash-keep", form: "DURATION", def: "720h",
		help: "what is in the trash for so long is deleted",
		set:  span(func(c *Config) *time.Duration { return &c.TrashKeep }, time.Second, tenYears),
	},
	{
		name: "blob-grace", form: "DURATION", def: "15m",
		help: "bytes that no file uses any more are deleted after so long",
		set:  span(func(c *Config) *time.Duration { return &c.BlobGrace }, 0, tenYears),
	},
	{
		name: "export-hosts", form: "HOST,...", list: true,
		help: "hosts that documents of an export may be fetched from, as docs.example.org, *.example.org or docs.example.org:8443; none when it is not set",
		set:  setExportHosts,
	},
	{
		name: "export-addresses", form: "WHICH", def: string(AddressesPublic),
		help: "addresses that the names of --export-hosts may lead to: public, or any (also those of this network)",
		set:  choice(func(c *Config) *Addresses { return &c.ExportAddresses }, AddressesPublic, AddressesAny),
	},
	{
		name: "export-max-document", form: "SIZE", def: "256MiB",
		help: "largest document that is fetched, at most 1GiB",
		set:  setExportMaxDocument,
	},
	{
		name: "export-max-entries", form: "N", def: "10000",
		help: "documents in one zip",
		set:  number(func(c *Config) *int { return &c.ExportMaxEntries }, 1, 1_000_000),
	},
	{
		name: "export-keep", form: "DURATION", def: "168h",
		help: "a zip can be downloaded for so long; until then what is in it is kept",
		set:  span(func(c *Config) *time.Duration { return &c.ExportKeep }, time.Minute, tenYears),
	},
	{
		name: "export-min-free", form: "SIZE", def: "10GiB",
		help: "free space that fetching documents leaves on the disk of --blobs; below it exports wait",
		set:  size(func(c *Config) *drive.ByteSize { return &c.ExportMinFree }),
	},
	{
		name: "export-bucket", form: "URL", secret: true,
		help: "bucket that zips of exports may be published in, below exports/ and until they expire, as in s3://key:secret@host:port/bucket/prefix?region=R; that of --blobs or another one; nowhere when it is not set",
		set:  setExportBucket,
	},
	{
		name: "migration-keep", form: "DURATION", def: "168h",
		help: "after the installation has moved the old side is kept so long before \"smartdrive migrate drop-old\" may drop it",
		set:  span(func(c *Config) *time.Duration { return &c.MigrationKeep }, time.Second, tenYears),
	},
	{
		name: "migration-targets", form: "PLACE,...", list: true, secret: true,
		help: "databases, places of contents and Redis (without commas) that a migration may go to when it is begun over the network, each as it is named then; none when it is not set: only \"smartdrive migrate start\" on this machine names any",
		set: func(c *Config, v string) error {
			c.MigrationTargets = nil
			for _, e := range elements(v) {
				c.MigrationTargets = append(c.MigrationTargets, Secret(e))
			}
			return nil
		},
	},
	{
		name: "log-level", form: "LEVEL", def: "info",
		help: "least grave messages to log: debug, info, warn or error",
		set:  setLogLevel,
	},
	{
		name: "log-format", form: "FORMAT", def: string(telemetry.FormatText),
		help: "how log lines look: text or json",
		set:  choice(func(c *Config) *telemetry.Format { return &c.LogFormat }, telemetry.FormatText, telemetry.FormatJSON),
	},
}

func find(name string) *setting {
	for i := range settings {
		if settings[i].name == name {
			return &settings[i]
		}
	}
	return nil
}
