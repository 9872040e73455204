package config

import (
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
)

// setting is one row of the table.
type setting struct {
	name  string // flag and YAML key; the variable is SMARTDRIVE_ and the name in capitals with _
	form  string // form of a value, for the help
	def   string // default, as it would be written; "": none, and then set is not called
	help  string
	list  bool // accepts several values, separated by commas or as a YAML list
	noKey bool // not a YAML key
	// secret reports that the value may contain a password. The variable with _FILE appended then
	// names a file with the value.
	secret bool
	live   string                              // description of the allowed values; not empty: administrators may change the setting while the server runs, see With
	set    func(c *Config, value string) error // parses value and stores it in c; the error says what is allowed
}

// variable returns the name of the environment variable.
func (s *setting) variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// variablePrefix begins the name of each environment variable of a setting.
const variablePrefix = "SMARTDRIVE_"

// settings lists all settings in the order of the help.
var settings = slices.Concat(generalSettings, signOnSettings, logSettings)

// generalSettings are all settings but those of sign-on and logging.
var generalSettings = []setting{
	{
		name: "config", form: "FILE", noKey: true,
		help: "YAML file with settings; a key is the name of a flag without the dashes",
		set:  text(func(c *Config) *string { return &c.file }, path),
	},
	{
		name: "data", form: "DIR",
		help: "data directory: the database and everything else that SmartDrive keeps; if not set, $XDG_DATA_HOME/smartdrive or ~/.local/share/smartdrive",
		set:  text(func(c *Config) *string { return &c.Data }, path),
	},
	{
		name: "blobs", form: "DIR|URL", secret: true,
		help: "where the contents of files are stored, finished and unfinished: a directory (if not set, the one of --data), or a bucket such as s3://key:secret@host:port/bucket/prefix?region=R; add insecure=true for plain HTTP; the key can also come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
		set:  setBlobs,
	},
	{
		name: "db", form: "URL", secret: true,
		help: "database server, which several instances can share: MySQL 8 or MariaDB 10.6 or later, such as mysql://user:password@host:port/database, with the options ?tls=true or tls=skip-verify and connections=N; if not set, a SQLite file in --data",
		set:  setDB,
	},
	{
		name: "redis", form: "URL", secret: true,
		help: "Redis 7 for timers and the journal of uploads, such as redis://:password@host:port/0 (rediss:// for TLS); separate several hosts by commas and add ?cluster=true or ?sentinel=NAME",
		set:  setRedis,
	},
	{
		name: "kafka", form: "HOST:PORT,...", list: true, secret: true,
		help: "brokers of Kafka 4, which carries timers and events to the workers; for TLS and a login, kafka://user:password@host:port,...?tls=true&sasl=scram-sha-512",
		set:  setKafka,
	},
	{
		name: "kafka-delay-topics", form: "TOPIC,...", list: true,
		help: "topics to which records of other producers may go from the delay levels of Kafka (NAMESPACE.delay.5s, .1m, .10m, .1h); none begins with --namespace; what names another topic becomes a dead letter",
		set: func(c *Config, v string) error {
			c.KafkaDelayTopics = elements(v)
			return nil
		},
	},
	{
		name: "namespace", form: "NAME", def: "smartdrive",
		help: "prefix of Redis keys, Kafka topics and consumer groups; the same on all instances, and different for installations that share servers",
		set:  setNamespace,
	},
	{
		name: "roles", form: "ROLE,...", def: "api,scheduler,worker,export,ingest", list: true,
		help: "what this instance does: api (answers requests), scheduler (delivers timers), worker (handles events, audits, cleans up), export (collects documents for zips), ingest (takes in bundles of documents)",
		set:  setRoles,
	},
	{
		name: "secret-key", form: "KEY,...", secret: true,
		help: "key that encrypts the secrets of links in the database (signing secret, tokens of shares and collect links, extraction codes), so that a copy of the database alone opens no link: 32 bytes in base64 (openssl rand -base64 32), the same on all instances; older keys may follow it, to decrypt what they encrypted; if not set, an embedded installation makes a key in --data, which no backup copies",
		set: func(c *Config, v string) error {
			c.SecretKey = Secret(v)
			return nil
		},
	},
	{
		name: "start-wait", form: "DURATION", def: "30s",
		help: "how long to wait at the start for the database, Redis, Kafka and S3 to answer",
		set:  spanOrNever(func(c *Config) *time.Duration { return &c.StartWait }, time.Second, time.Hour),
	},
	{
		name: "listen", form: "HOST:PORT", def: "127.0.0.1:8320",
		help: "address to listen on; port 0 picks a free port",
		set:  text(func(c *Config) *string { return &c.Listen }, hostPort),
	},
	{
		name: "base-url", form: "URL",
		help: "address under which people reach the server, if it is behind a proxy; may have a path, as in https://example.org/drive",
		set:  setBaseURL,
	},
	{
		name: "trusted-proxies", form: "CIDR,...", list: true,
		help: "proxies whose X-Forwarded-For, -Proto and -Host headers are trusted, such as 10.0.0.0/8 or 127.0.0.1",
		set:  setTrustedProxies,
	},
	{
		name: "tls-cert", form: "FILE",
		help: "certificate in PEM, with its chain; reloaded on SIGHUP",
		set:  text(func(c *Config) *string { return &c.TLSCert }, path),
	},
	{
		name: "tls-key", form: "FILE",
		help: "private key of the certificate in PEM; reloaded on SIGHUP",
		set:  text(func(c *Config) *string { return &c.TLSKey }, path),
	},
	{
		name: "cors-origins", form: "ORIGIN,...", list: true,
		help: "other origins whose web pages may use the API, such as https://app.example.org, or * for all",
		set:  setCORSOrigins,
	},
	{
		name: "download-redirect", form: "DURATION", def: "0",
		help: "with S3: redirect (307) each download to a presigned URL of the store that is valid for this long, 1m to 24h; whoever has the URL can use it until then, even if the right to the file ends before; clients must be able to reach the address in --blobs; 0 = send contents through this server",
		set:  spanOrNever(func(c *Config) *time.Duration { return &c.DownloadRedirect }, time.Minute, 24*time.Hour),
	},
	{
		name: "upload-idle", form: "DURATION", def: "30s",
		help: "an upload that receives no bytes for this long is parked: it is then charged only for what has arrived; at least 100ms",
		set:  span(func(c *Config) *time.Duration { return &c.UploadIdle }, 100*time.Millisecond, 24*time.Hour),
	},
	{
		name: "upload-abandon", form: "DURATION", def: "168h",
		help: "a parked upload that receives no bytes for this long is deleted",
		set:  span(func(c *Config) *time.Duration { return &c.UploadAbandon }, 100*time.Millisecond, tenYears),
	},
	{
		name: "upload-max-age", form: "DURATION", def: "720h",
		help: "an upload is deleted at this age even if it is active; very large files get longer",
		set:  span(func(c *Config) *time.Duration { return &c.UploadMaxAge }, 100*time.Millisecond, tenYears),
	},
	{
		name: "upload-max-open", form: "N", def: "1000",
		help: "maximum number of unfinished uploads of an account",
		set:  number(func(c *Config) *int { return &c.UploadMaxOpen }, 1, 1_000_000),
	},
	{
		name: "max-nodes", form: "N", def: "1000000",
		help: "maximum number of files and folders of an account, trash included, and of those that it makes, changes and moves on a day",
		set:  number(func(c *Config) *int { return &c.MaxNodes }, 1000, 100_000_000),
	},
	{
		name: "part-size", form: "SIZE", def: "8MiB",
		help: "part size of an upload if the client does not choose one: a power of two from 1MiB to 1GiB",
		set:  setPartSize,
	},
	{
		name: "durability", form: "WHEN", def: string(DurabilityProcess),
		help: "what an acknowledged part survives: process (the server is killed; after a power failure parts may have to be sent again) or part (also a power failure; costs one sync for each part)",
		set:  choice(func(c *Config) *Durability { return &c.Durability }, DurabilityProcess, DurabilityPart),
	},
	{
		name: "instant-scope", form: "SCOPE", def: string(InstantInstance),
		help: "instant upload: whose content can be linked instead of sent: instance (that of any user up to --instant-max, after a proof of possession, and the user's own at any size; a user who knows the digest of a file can find out whether somebody has it), user (only the user's own; nothing is revealed about others) or off",
		live: "instance, user or off",
		set:  choice(func(c *Config) *InstantScope { return &c.InstantScope }, InstantInstance, InstantUser, InstantOff),
	},
	{
		name: "instant-max", form: "SIZE", def: "64GiB",
		help: "instant upload: the largest content of another user that is linked after a proof instead of sent; the server reads it once to check the proof, and reads at most as much (at least 64GiB) in a day for the wrong proofs of a user",
		set:  size(func(c *Config) *drive.ByteSize { return &c.InstantMax }),
	},
	{
		name: "resumable-draft", form: "on|off", def: "off",
		help: "let clients resume PUT of a file according to an IETF Internet-Draft (draft-ietf-httpbis-resumable-upload, interop version 8), which has changed with each version so far: on or off",
		set:  onOff(func(c *Config) *bool { return &c.ResumableDraft }),
	},
	{
		name: "dav", form: "on|off", def: "on",
		help: "let WebDAV clients work with the files, at /dav/: on or off",
		set:  onOff(func(c *Config) *bool { return &c.DAV }),
	},
	{
		name: "nextcloud", form: "on|off", def: "on",
		help: "let the desktop and phone clients of Nextcloud work with the files, at /remote.php and /ocs: on or off",
		set:  onOff(func(c *Config) *bool { return &c.Nextcloud }),
	},
	{
		name: "dav-litter", form: "POLICY", def: string(LitterKeep),
		help: "what is done with files that desktops leave behind when they work over WebDAV (._*, .DS_Store, Thumbs.db, desktop.ini, ~$*): keep (store them as any file), hide (store them and leave them out of WebDAV listings) or refuse",
		live: "keep, hide or refuse",
		set:  choice(func(c *Config) *Litter { return &c.DAVLitter }, LitterKeep, LitterHide, LitterRefuse),
	},
	{
		name: "default-quota", form: "SIZE", def: "10GiB",
		help: "quota of a new account or space if none is given, or unlimited",
		live: "a size such as 50GiB, or unlimited",
		set:  setDefaultQuota,
	},
	{
		name: "min-free", form: "SIZE", def: "1GiB",
		help: "free space that uploads must leave on the disk of --blobs",
		set:  size(func(c *Config) *drive.ByteSize { return &c.MinFree }),
	},
	{
		name: "preview-helpers", form: "WHICH", def: string(HelpersFound),
		help: "programs that make pictures of users' videos, PDFs, HEIC and TIFF files: found (ffmpeg, pdftoppm, heif-convert, as far as they are installed; each is confined, which needs Linux 5.13), or off",
		set:  choice(func(c *Config) *Helpers { return &c.PreviewHelpers }, HelpersFound, HelpersOff),
	},
	{
		name: "user-requests", form: "N", def: "32",
		help: "maximum number of concurrent requests of one user",
		set:  number(func(c *Config) *int { return &c.UserRequests }, 1, 10_000),
	},
	{
		name: "address-requests", form: "N", def: "128",
		help: "maximum number of concurrent requests without a login, such as those to share links, from one address; a whole office may share one address",
		set:  number(func(c *Config) *int { return &c.AddressRequests }, 1, 10_000),
	},
	{
		name: "creation-intervals", form: "OPERATION=DURATION,...", list: true,
		help: "at most one creation of a kind by each user in a time, as in \"POST /exports=5s, POST /webhooks=1m\": 1s to 1h, for the operations of the API that take an Idempotency-Key; a creation that comes earlier is refused (429), unless it repeats one under its key; each instance counts for itself; if not set, there are no intervals",
		set:  setCreationIntervals,
	},
	{
		name: "scrub", form: "DURATION", def: "720h",
		help: "read and verify the bytes of every file once in this time; 0 = never",
		set:  spanOrNever(func(c *Config) *time.Duration { return &c.Scrub }, time.Second, tenYears),
	},
	{
		name: "trash-keep", form: "DURATION", def: "720h",
		help: "delete what has been in the trash for this long",
		set:  span(func(c *Config) *time.Duration { return &c.TrashKeep }, time.Second, tenYears),
	},
	{
		name: "activity-keep", form: "DURATION", def: "4320h",
		help: "delete entries of the activity log after this time",
		set:  span(func(c *Config) *time.Duration { return &c.ActivityKeep }, time.Hour, tenYears),
	},
	{
		name: "blob-grace", form: "DURATION", def: "15m",
		help: "delete content this long after the last file that used it is gone",
		set:  span(func(c *Config) *time.Duration { return &c.BlobGrace }, 0, tenYears),
	},
	{
		name: "export-hosts", form: "HOST,...", list: true,
		help: "hosts from which exports may fetch documents, such as docs.example.org, *.example.org or docs.example.org:8443; if not set, none",
		live: "hosts separated by commas, such as docs.example.org, *.example.org or docs.example.org:8443",
		set:  setExportHosts,
	},
	{
		name: "export-addresses", form: "WHICH", def: string(AddressesPublic),
		help: "addresses that the names in --export-hosts may resolve to: public, or any (including private networks)",
		set:  choice(func(c *Config) *Addresses { return &c.ExportAddresses }, AddressesPublic, AddressesAny),
	},
	{
		name: "webhook-addresses", form: "WHICH", def: string(AddressesPublic),
		help: "addresses that webhooks may send to: public, or any (including private networks)",
		set:  choice(func(c *Config) *Addresses { return &c.WebhookAddresses }, AddressesPublic, AddressesAny),
	},
	{
		name: "mail", form: "URL", secret: true,
		help: "server that sends mail, such as smtps://user:password@mail.example.org:465?from=drive@example.org (TLS), or smtp://...:587?from=... (STARTTLS, which is required unless the server is on this machine); users then choose what they are mailed; if not set, people are told on the page alone",
		set:  setMail,
	},
	{
		name: "export-max-document", form: "SIZE", def: "256MiB",
		help: "maximum size of a document that an export fetches, at most 1GiB",
		set:  setExportMaxDocument,
	},
	{
		name: "export-max-entries", form: "N", def: "10000",
		help: "maximum number of documents in one zip; a longer list becomes several",
		set:  number(func(c *Config) *int { return &c.ExportMaxEntries }, 1, 1_000_000),
	},
	{
		name: "export-max-size", form: "SIZE", def: "256GiB",
		help: "maximum size of the files in one zip when it is requested; more become several, at most ten, and beyond that the request is refused",
		set:  size(func(c *Config) *drive.ByteSize { return &c.ExportMaxSize }),
	},
	{
		name: "export-keep", form: "DURATION", def: "168h",
		help: "how long a zip can be downloaded; until then its contents are kept",
		set:  span(func(c *Config) *time.Duration { return &c.ExportKeep }, time.Minute, tenYears),
	},
	{
		name: "export-late", form: "DURATION", def: "1h",
		help: "tell the owner of an export, and count it for an alarm, once it has run for this long",
		set:  span(func(c *Config) *time.Duration { return &c.ExportLate }, time.Minute, tenYears),
	},
	{
		name: "export-min-free", form: "SIZE", def: "10GiB",
		help: "free space that fetched documents must leave on the disk of --blobs; exports wait while there is less",
		set:  size(func(c *Config) *drive.ByteSize { return &c.ExportMinFree }),
	},
	{
		name: "export-bucket", form: "URL", secret: true,
		help: "bucket to which zips can be published, below exports/ and until they expire, such as s3://key:secret@host:port/bucket/prefix?region=R; can be the bucket of --blobs; if not set, zips cannot be published",
		set:  setExportBucket,
	},
	{
		name: "migration-keep", form: "DURATION", def: "168h",
		help: "how long the old side is kept after a migration before \"smartdrive migrate drop-old\" may delete it",
		set:  span(func(c *Config) *time.Duration { return &c.MigrationKeep }, time.Second, tenYears),
	},
	{
		name: "migration-targets", form: "PLACE,...", list: true, secret: true,
		help: "targets that a migration started over the network may use: databases, places of contents and Redis servers (without commas), each written exactly as it will be given; if not set, none, and only \"smartdrive migrate start\" on this machine can start a migration",
		set: func(c *Config, v string) error {
			c.MigrationTargets = nil
			for _, e := range elements(v) {
				c.MigrationTargets = append(c.MigrationTargets, Secret(e))
			}
			return nil
		},
	},
}

// logSettings are the settings of logs and traces.
var logSettings = []setting{
	{
		name: "otlp", form: "URL",
		help: "collector of traces that is sent the way of each timer that fires, by OTLP over HTTP in JSON, such as http://127.0.0.1:4318; the path is /v1/traces unless the URL has one",
		set:  setOTLP,
	},
	{
		name: "log-level", form: "LEVEL", def: "info",
		help: "lowest level to log: debug, info, warn or error",
		live: "debug, info, warn or error",
		set:  setLogLevel,
	},
	{
		name: "log-format", form: "FORMAT", def: string(telemetry.FormatText),
		help: "format of log lines: text or json",
		set:  choice(func(c *Config) *telemetry.Format { return &c.LogFormat }, telemetry.FormatText, telemetry.FormatJSON),
	},
}

// find returns the setting with that name; nil if there is none.
func find(name string) *setting {
	for i := range settings {
		if settings[i].name == name {
			return &settings[i]
		}
	}
	return nil
}
