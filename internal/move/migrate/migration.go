package migrate

import (
	"context"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Phase is the phase of a migration; see the package comment.
type Phase int

// Phases of a migration.
const (
	Freeze    Phase = iota // nothing moves yet; preflight is done
	Fill                   // write old, read old
	DualWrite              // write old, then new
	ReadNew                // the same, and some accounts read new
	WriteNew               // write new, then old; read new
	NewOnly                // the old side refuses writes
)

// String returns the number of the phase, as shown by the API and the command line.
func (p Phase) String() string { return string(rune('0' + p)) }

// Side is one of the two databases of a migration. It is opened twice: normally, and without
// foreign key checks, for writing replicated rows.
type Side struct {
	DB        *sqldb.DB // not routed
	Unchecked *sqldb.DB
}

// write runs a transaction on the bookkeeping. On SQLite it uses DB, because a second connection
// would wait long for the write lock. On a server it uses Unchecked, which waits at most a second
// for a lock.
func (s *Side) write(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	if s.DB.Dialect() == sqldb.SQLite {
		return s.DB.Write(ctx, fn)
	}
	return s.Unchecked.Write(ctx, fn)
}

// Opening selects how a side is opened.
type Opening struct {
	Unchecked bool // skip foreign key checks; see sqldb.Options
	ReadOnly  bool // read-only; a missing file is fs.ErrNotExist
	Create    bool // create a missing file; otherwise it is an error: the file was removed or its disk is not mounted
}

// Options configures New. DB, Here, Open and Show are required.
type Options struct {
	// DB is the handle used by the whole process, opened on the configured side.
	DB *sqldb.DB
	// Here names the configured side, valid for all processes: a mysql:// URL or the path of a
	// file.
	Here string
	// Open opens the side that place names, as in Here or Request.ToDB. The package closes the
	// result.
	Open func(ctx context.Context, place string, how Opening) (*sqldb.DB, error)
	// Show returns place without its password, for people.
	Show func(place string) string
	// RetainOld is how long the old side is kept after phase 5 was entered. Default: 7 days.
	RetainOld time.Duration
	// RetentionClock is the clock for RetainOld; see package retention: time that it did not
	// observe does not count. nil: the database clock.
	RetentionClock func() time.Time
	// Sample is the fraction of reads that are compared on both sides in phases 2 to 4. Default
	// 0.01; negative: none.
	Sample float64
	Log    *slog.Logger
}

// Member is the membership of this process in the installation, implemented by *instance.Member.
type Member interface {
	// Info returns what other instances see of this process.
	Info() instance.Info
	// Alive returns all live instances, including this process. A gate that needs it stays closed
	// if it fails.
	Alive(ctx context.Context) ([]instance.Instance, error)
	// Lead runs job while this process is the leader for name, until ctx ends.
	Lead(ctx context.Context, name string, job func(ctx context.Context) error) error
}

var _ Member = (*instance.Member)(nil)

// Contents moves contents in the same phases. Its methods are safe for concurrent use, also by
// several instances.
type Contents interface {
	// Progress returns how many contents of this term are copied, and how fast; zero if none move.
	Progress(ctx context.Context) (ContentsProgress, error)
	// Gate returns the conditions for entering a phase, open and closed ones; none if the phase has
	// no condition. An error means that a condition could not be checked.
	Gate(ctx context.Context, to Phase) ([]Gate, error)
	// GateDrop returns the conditions for deleting contents at the old place. An error means that a
	// condition could not be checked.
	GateDrop(ctx context.Context) ([]Gate, error)
}

// ContentsProgress is the progress of copying contents.
type ContentsProgress struct {
	Done  int64   `json:"done"`
	Total int64   `json:"total"`
	Bytes int64   `json:"bytes"`
	Rate  float64 `json:"rate"` // bytes per second
}

// Request describes the migration to Start: where rows and contents move. With both ToDB and
// ToBlobs empty nothing moves.
type Request struct {
	ToDB    string // new database; empty: rows stay
	ToBlobs string // new store of contents; empty: contents stay
	DryRun  bool   // only check
	// FromBlobs is the current store of contents, kept for DropOld.
	FromBlobs string
	Pace      Pace
}

// State is the migration as known to this process.
type State struct {
	ID       string // empty: nothing moves
	Phase    Phase
	Epoch    int64
	Percent  int
	Paused   bool
	Contents string // Request.ToBlobs
	// Switched reports that the new side is the primary: from phase 4 on.
	Switched bool
	// Term is 1 until the first switch, and increases with each switch of the primary.
	Term int64
	// StartedOnNew reports whether this process was started with the settings of the new side.
	StartedOnNew bool
	Pace         Pace
	// Dropping reports that DropOld was called. OldContents is the store that contents are deleted
	// from.
	Dropping           bool
	OldContents        string
	OldContentsDeleted bool // all old contents are deleted
	// VerifyPercent is the percentage of contents that are read at the new place before they are
	// deleted at the old one.
	VerifyPercent int
}

// Status is the migration as shown to administrators.
type Status struct {
	State      string     `json:"state"` // none | running
	ID         string     `json:"id,omitempty"`
	Phase      Phase      `json:"phase"`
	Epoch      int64      `json:"epoch"`
	Percent    int        `json:"percent"`
	Accounts   []string   `json:"accounts,omitempty" doc:"ids of accounts that read from the new side in phase 3 regardless of the percentage"`
	Paused     bool       `json:"paused"`
	From       Place      `json:"from"`
	To         Place      `json:"to"`
	Progress   Progress   `json:"progress"`
	Lag        int64      `json:"lag"` // changes that are not applied yet
	Mismatches int64      `json:"mismatches"`
	Checksum   *Checksum  `json:"checksum"`
	Instances  []Instance `json:"instances"`
	Gate       []Gate     `json:"gate"` // conditions for the next phase
	Reads      Reads      `json:"reads"`
	Writes     Writes     `json:"writes"`
	Pace       Pace       `json:"pace"`
	Old        *Old       `json:"old"`               // the old side; null before phase 5
	BegunAt    drive.Time `json:"begun_at,omitzero"` // absent when nothing moves
	ChangedAt  drive.Time `json:"changed_at,omitzero"`
}

// Old is the state of the old side in phase 5.
type Old struct {
	State     string      `json:"state"` // kept | dropping | dropped
	KeptUntil drive.Time  `json:"kept_until"`
	Rows      bool        `json:"rows"` // rows are deleted, or did not move
	Contents  OldContents `json:"contents"`
	Gate      []Gate      `json:"gate"` // conditions for dropping it
}

// Place names both stores of a side, without passwords.
type Place struct {
	DB    string `json:"db"`
	Blobs string `json:"blobs"`
}

// Progress is the progress of filling in and of copying contents.
type Progress struct {
	Rows  RowsProgress     `json:"rows"`
	Blobs ContentsProgress `json:"blobs"`
	ETA   int64            `json:"eta_seconds"`
}

// RowsProgress is the progress of filling in rows.
type RowsProgress struct {
	Done  int64   `json:"done"`
	Total int64   `json:"total"`
	Rate  float64 `json:"rate"` // recent rows per second
}

// Checksum is the latest full comparison of both sides.
type Checksum struct {
	State   string     `json:"state"` // running | done
	Equal   bool       `json:"equal"` // ended without a difference
	Rows    int64      `json:"rows"`
	Unequal int64      `json:"unequal"` // rows that differ
	Digest  string     `json:"digest"`
	At      drive.Time `json:"at"`   // when it ended; while running: when it began
	Rate    float64    `json:"rate"` // rows per second; 0 while running
}

// Instance is a live process and the epoch that it acts by.
type Instance struct {
	ID     int64      `json:"id"` // generation of the process start
	Host   string     `json:"host"`
	Epoch  int64      `json:"epoch"`         // last epoch that the instance has acknowledged
	Heard  int64      `json:"heard"`         // last epoch the instance has heard of; at least Epoch
	Why    string     `json:"why,omitempty"` // why it does not act by Heard
	SeenAt drive.Time `json:"seen_at"`
}

// Gate is one condition for a step.
type Gate struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`     // the gate is open
	Detail string `json:"detail"` // the state in words, for administrators
}

// Reads counts the reads of this process since its start.
type Reads struct {
	New      int64 `json:"new"`      // answered by the new side
	Fallback int64 `json:"fallback"` // not answered by the new side, because a change of the account was pending or the secondary failed
	Compared int64 `json:"compared"` // samples compared at both sides
	Skipped  int64 `json:"skipped"`  // samples that could not be compared
}

// Writes counts the writes of this process since its start.
type Writes struct {
	Second   int64 `json:"second"`   // applied to the secondary before the response
	Deferred int64 `json:"deferred"` // left to be applied later
	Waited   int64 `json:"waited"`   // delayed by a switch
	// Pause is the longest delay by a switch in milliseconds.
	Pause int64 `json:"pause_ms"`
}

// Mismatch is a difference between the two sides.
type Mismatch struct {
	ID        int64      `json:"id"`
	Source    string     `json:"source"`  // read | checksum
	Subject   string     `json:"subject"` // the query, or the table and key
	Ours      string     `json:"ours"`    // on the primary
	Theirs    string     `json:"theirs"`  // on the secondary
	FoundAt   drive.Time `json:"found_at"`
	Explained bool       `json:"explained"`
	// Who explained the mismatch, why and when; empty if a later comparison was equal.
	ExplainedBy string     `json:"explained_by,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	ExplainedAt drive.Time `json:"explained_at"`
}

// Report is the result of the checks of Start.
type Report struct {
	OK     bool   `json:"ok"` // each check succeeded
	Checks []Gate `json:"checks"`
	Rows   int64  `json:"rows"` // approximate
	Tables int    `json:"tables"`
	// Seconds is the estimated duration of filling in.
	Seconds int64 `json:"seconds"`
}
