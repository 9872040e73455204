package config

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
)

// Config is every setting, checked. docs/configuration.md says what each means.
type Config struct {
	Data  string // directory
	Blobs string // directory; equal to Data unless it was set; of no meaning with S3

	// What an installation of several instances stands on; see Mode. Nil or empty: not set.
	MySQL *MySQL
	Redis *Redis
	Kafka *Kafka // nil: records stay in the database
	S3    *S3
	// CreationIntervals is how long a user waits between two creations of one kind, by operation,
	// such as "POST /exports".
	CreationIntervals map[string]time.Duration
	// KafkaDelayTopics are the topics that records of other producers may go to from a delay level.
	KafkaDelayTopics []string
	Namespace        string // begins the names of Redis keys, Kafka topics and consumer groups
	Roles            Roles
	SecretKey        Secret        // seals the secret of links in the database; empty: the file in Data, if there is one
	StartWait        time.Duration // how long a start waits for components that do not answer

	Listen         string   // host:port
	BaseURL        *url.URL // nil: not set; the path has no final slash
	TrustedProxies []netip.Prefix
	TLSCert        string // file; both or none
	TLSKey         string
	CORSOrigins    []string // "scheme://host[:port]" in lower case, or "*"

	DownloadRedirect time.Duration // how long a link to the store is good; 0: contents come through this process

	UploadIdle    time.Duration
	UploadAbandon time.Duration
	UploadMaxAge  time.Duration
	UploadMaxOpen int
	MaxNodes      int
	PartSize      drive.ByteSize // a power of two
	Durability    Durability
	InstantScope  InstantScope
	InstantMax    drive.ByteSize // of others' content

	ResumableDraft bool // package resumable answers

	DAV       bool // package dav answers
	DAVLitter Litter
	Nextcloud bool // package nextcloud answers

	SignOn SignOn // an identity provider by which people may log in

	DefaultQuota    *drive.ByteSize // nil: unlimited
	MinFree         drive.ByteSize
	PreviewHelpers  Helpers
	UserRequests    int
	AddressRequests int

	Scrub        time.Duration // 0: never
	TrashKeep    time.Duration
	ActivityKeep time.Duration
	BlobGrace    time.Duration

	ExportHosts       []string // "name", "*.name", each perhaps with ":port", in lower case
	ExportAddresses   Addresses
	WebhookAddresses  Addresses
	Mail              *Mail // what sends mail; nil: nothing does
	ExportMaxDocument drive.ByteSize
	ExportMaxEntries  int
	ExportMaxSize     drive.ByteSize
	ExportKeep        time.Duration
	ExportLate        time.Duration
	MigrationKeep     time.Duration
	MigrationTargets  []Secret // that the API may name, as they are named there
	ExportMinFree     drive.ByteSize
	ExportBucket      *S3 // where zips may be published; nil: nowhere

	LogLevel  slog.Level
	OTLP      *url.URL // where traces go, with the path; nil: nowhere
	LogFormat telemetry.Format

	// Decoder is the program, and its first arguments, that decodes images in a process of its own.
	// It is not a setting: the command that serves names itself. Empty: this process decodes.
	Decoder []string

	// Level is that of the log, which LogLevel is the first value of. It is no setting: who makes
	// the logger sets it. Nil: it does not change.
	Level *slog.LevelVar

	// Notes are for the log: variables that look like a setting but are none.
	Notes []string

	file  string            // --config
	given map[string]string // what was given for the settings that can be changed while the server runs
}

// SubPath returns the path of the base URL: "" or "/drive".
func (c Config) SubPath() string {
	if c.BaseURL == nil {
		return ""
	}
	return c.BaseURL.Path
}

// Helpers says which programs make pictures of files that this one does not read.
type Helpers string

// The helpers.
const (
	HelpersFound Helpers = "found" // those that are installed
	HelpersOff   Helpers = "off"
)

// Litter says what is done with files that desktops leave behind; it is dav.Litter.
type Litter string

// The policies.
const (
	LitterKeep   Litter = "keep"
	LitterHide   Litter = "hide"
	LitterRefuse Litter = "refuse"
)

// Durability says when an acknowledged part is safe.
type Durability string

// The durabilities.
const (
	DurabilityProcess Durability = "process" // when this process is killed
	DurabilityPart    Durability = "part"    // also when the machine loses power
)

// InstantScope says whose content an instant upload may link to.
type InstantScope string

// The scopes.
const (
	InstantInstance InstantScope = "instance" // anybody's, after a proof of having it
	InstantUser     InstantScope = "user"     // the account's own
	InstantOff      InstantScope = "off"      // nobody's
)
