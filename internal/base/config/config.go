package config

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
)

// Config holds all settings, checked. docs/configuration.md explains each.
type Config struct {
	Data  string // data directory
	Blobs string // directory of contents; Data unless set; unused with S3

	// External services of an installation; see Mode. Nil or empty: not used.
	MySQL *MySQL
	Redis *Redis
	Kafka *Kafka // nil: outbox records stay in the database
	S3    *S3
	// CreationIntervals maps operations, such as "POST /exports", to the minimum interval between
	// two calls by one user.
	CreationIntervals map[string]time.Duration
	// KafkaDelayTopics are topics of other programs that use the delay queue: this server forwards
	// their records to these topics after a delay.
	KafkaDelayTopics []string
	Namespace        string // prefix of Redis keys, Kafka topics and consumer groups
	Roles            Roles
	SecretKey        Secret        // encrypts the link secret in the database; empty: the key file in Data, if it exists
	StartWait        time.Duration // how long a start waits for services that do not answer

	Listen         string   // host:port
	BaseURL        *url.URL // nil: not set; the path has no trailing slash
	TrustedProxies []netip.Prefix
	TLSCert        string // certificate and key file; both or none
	TLSKey         string
	CORSOrigins    []string // "scheme://host[:port]" in lower case, or "*"

	DownloadRedirect time.Duration // validity of a presigned link to the store; 0: contents are served by this process

	UploadIdle    time.Duration  // until an upload without new bytes is parked
	UploadAbandon time.Duration  // until a parked upload without new bytes is deleted
	UploadMaxAge  time.Duration  // age at which an upload is deleted even if active
	UploadMaxOpen int            // maximum number of unfinished uploads of an account
	MaxNodes      int            // maximum number of files and folders of an account
	PartSize      drive.ByteSize // a power of two
	Durability    Durability
	InstantScope  InstantScope
	InstantMax    drive.ByteSize // largest content of other accounts that an instant upload may link to

	ResumableDraft bool // the resumable upload protocol is enabled

	DAV       bool // WebDAV is enabled
	DAVLitter Litter
	Nextcloud bool // the Nextcloud protocol is enabled

	SignOn SignOn // identity provider for login

	DefaultQuota    *drive.ByteSize // nil: unlimited
	MinFree         drive.ByteSize  // free disk space that uploads must leave
	PreviewHelpers  Helpers
	UserRequests    int // maximum number of concurrent requests of a user
	AddressRequests int // maximum number of concurrent requests without login from an address

	Scrub        time.Duration // 0: never
	TrashKeep    time.Duration // until content of the trash is deleted
	ActivityKeep time.Duration // until entries of the activity log are deleted
	BlobGrace    time.Duration // from the last reference to the deletion of content

	ExportHosts       []string // "name" or "*.name", optionally with ":port", in lower case
	ExportAddresses   Addresses
	WebhookAddresses  Addresses
	Mail              *Mail // mail server; nil: no mail is sent
	ExportMaxDocument drive.ByteSize
	ExportMaxEntries  int
	ExportMaxSize     drive.ByteSize
	ExportKeep        time.Duration  // how long a zip can be downloaded
	ExportLate        time.Duration  // running time after which the owner of an export is notified
	MigrationKeep     time.Duration  // how long the old side is kept after a migration
	MigrationTargets  []Secret       // targets that API requests may name, in the form that they name them
	ExportMinFree     drive.ByteSize // free disk space that fetched documents must leave
	ExportBucket      *S3            // bucket for published zips; nil: none

	LogLevel  slog.Level
	OTLP      *url.URL // endpoint for traces, with the path; nil: none
	LogFormat telemetry.Format

	// Decoder is the command that decodes images in a separate process. It is not a setting: the
	// serve command sets it to itself. Empty: images are decoded in this process.
	Decoder []string

	// Level changes the log level at run time, beginning with LogLevel. It is not a setting: the
	// creator of the logger sets it. Nil: the level is fixed.
	Level *slog.LevelVar

	// Warnings are warnings for the log: variables that look like a setting but are not.
	Warnings []string

	file  string            // value of --config
	given map[string]string // the values given for settings that can be changed while the server runs
}

// SubPath returns the path of the base URL, such as "/drive"; "" without one.
func (c Config) SubPath() string {
	if c.BaseURL == nil {
		return ""
	}
	return c.BaseURL.Path
}

// Helpers selects the external programs that make previews of files.
type Helpers string

// The helpers.
const (
	HelpersFound Helpers = "found" // those that are installed
	HelpersOff   Helpers = "off"
)

// Litter is the policy for files that desktops leave behind; see dav.Litter.
type Litter string

// The policies.
const (
	LitterKeep   Litter = "keep"
	LitterHide   Litter = "hide"
	LitterRefuse Litter = "refuse"
)

// Durability is the kind of failure that an acknowledged part survives.
type Durability string

// The durabilities.
const (
	DurabilityProcess Durability = "process" // the end of this process
	DurabilityPart    Durability = "part"    // also a power loss
)

// InstantScope selects the content that an instant upload may link to.
type InstantScope string

// The scopes.
const (
	InstantInstance InstantScope = "instance" // of all accounts, after a proof of possession
	InstantUser     InstantScope = "user"     // of the same account
	InstantOff      InstantScope = "off"      // none
)
