package migrate

import (
	"context"
	"log/slog"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/sqldb"
)

// Phase is how far a migration has come; see the package comment.
type Phase int

// The phases.
const (
	Freeze   Phase = iota // preflight; nothing moves yet
	Fill                  // write old, read old
	Second                // write old, then new
	ReadNew               // the same, and some accounts read new
	WriteNew              // write new, then old
	NewOnly               // the old side is read-only
)

// String returns the number, as the API and the command line show it.
func (p Phase) String() string { return string(rune('0' + p)) }

// Side is one of the two databases, opened twice: as everybody does, and without the check of
// foreign keys, for bringing rows.
type Side struct {
	DB        *sqldb.DB // without a router
	Unchecked *sqldb.DB
}

// write changes bookkeeping of the move. A file has one writer at a time, and who comes by another
// connection asks for its turn every some tens of milliseconds: so it goes where everybody's writes
// go. On a server it waits for a lock no longer than a second.
func (s *Side) write(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	if s.DB.Dialect() == sqldb.SQLite {
		return s.DB.Write(ctx, fn)
	}
	return s.Unchecked.Write(ctx, fn)
}

// Opening says how a side is opened.
type Opening struct {
	Unchecked bool // see sqldb.Options
	Look      bool // nothing is made or changed; what is not there is fs.ErrNotExist
	Make      bool // a file that is not there is made; else that is an error: it was removed, or its disk is not mounted
}

// Options configure New. DB, Here, Open and Show are required.
type Options struct {
	// DB is the handle that everybody holds, opened on the side that this process is configured
	// for.
	DB *sqldb.DB
	// Here is how Open, and other processes', would open that side: a mysql:// URL, or the path of
	// a file.
	Here string
	// Open opens a side by what Here or Start names. Who opens need not close.
	Open func(ctx context.Context, place string, how Opening) (*sqldb.DB, error)
	// Show makes of a place what people may see: without a password. Required.
	Show func(place string) string
	// Keep is how long the old side is kept once it was left. Default: 7 days.
	Keep time.Duration
	// Kept is the clock that says how long that was, see package retention: what it has not seen
	// pass does not count. nil: the database's.
	Kept func() time.Time
	// Sample is the part of reads that are compared on both sides, in the phases 2 to 4. Default
	// 0.01; negative: none.
	Sample float64
	Log    *slog.Logger
}

// Member is this process among those that serve. It is *instance.Member.
type Member interface {
	Info() instance.Info
	// Alive lists everybody who serves, this process included.
	Alive(ctx context.Context) ([]instance.Instance, error)
	// Lead runs the job while this process is the one that does it, until ctx is done.
	Lead(ctx context.Context, name string, job func(ctx context.Context) error) error
}

var _ Member = (*instance.Member)(nil)

// Contents is what moves the bytes in the same phases. All of it may be called at any time, and by
// several instances.
type Contents interface {
	// Progress says how far copying is.
	Progress(ctx context.Context) (ContentsProgress, error)
	// Gate lists what must hold for contents before the phase may be entered.
	Gate(ctx context.Context, to Phase) ([]Gate, error)
	// GateDrop lists what must hold before contents are removed from the place that was left.
	GateDrop(ctx context.Context) ([]Gate, error)
}

// ContentsProgress is how far the copying of contents is.
type ContentsProgress struct {
	Done  int64   `json:"done"`
	Total int64   `json:"total"`
	Bytes int64   `json:"bytes"`
	Rate  float64 `json:"rate"` // bytes a second
}

// Request is what Start is asked for.
type Request struct {
	ToDB    string // the place of the new database; empty: rows stay
	ToBlobs string // where contents go; empty: they stay
	DryRun  bool   // only look
	// FromBlobs is where contents are, as it is opened: for DropOld.
	FromBlobs string
	Pace      Pace
}

// State is what a migration stands at, as this process knows it.
type State struct {
	ID       string // empty: nothing moves
	Phase    Phase
	Epoch    int64
	Percent  int
	Paused   bool
	Contents string // Request.ToBlobs
	// Switched says that the primary is the new side: from phase 4 on.
	Switched bool
	// Term counts the times that the primary was chosen: 1 as long as the new side has never been
	// it, and one more with each switch.
	Term int64
	// Mine says whether this process was started on the side that is new.
	Mine bool
	Pace Pace
	// Dropping says that the old side is to go, of which OldContents is the place of contents.
	Dropping    bool
	OldContents string
	OldGone     bool // they are
	// Deep is how many percent of contents are read at the new place before they go at the old one.
	Deep int
}

// Status is what an administrator sees.
type Status struct {
	State      string     `json:"state"` // none | running
	ID         string     `json:"id,omitempty"`
	Phase      Phase      `json:"phase"`
	Epoch      int64      `json:"epoch"`
	Percent    int        `json:"percent"`
	Accounts   []string   `json:"accounts,omitempty" doc:"ids of those that read from the new side in phase 3 whatever the percentage"`
	Paused     bool       `json:"paused"`
	From       Place      `json:"from"`
	To         Place      `json:"to"`
	Progress   Progress   `json:"progress"`
	Lag        int64      `json:"lag"` // changes that are not applied yet
	Mismatches int64      `json:"mismatches"`
	Checksum   *Checksum  `json:"checksum"`
	Instances  []Instance `json:"instances"`
	Gate       []Gate     `json:"gate"` // before the next phase
	Reads      Reads      `json:"reads"`
	Writes     Writes     `json:"writes"`
	Pace       Pace       `json:"pace"`
	Old        *Old       `json:"old"`               // the side that was left; null before phase 5
	BegunAt    drive.Time `json:"begun_at,omitzero"` // absent when nothing moves
	ChangedAt  drive.Time `json:"changed_at,omitzero"`
}

// Old is what is left of the old side, in phase 5.
type Old struct {
	State     string      `json:"state"` // kept | dropping | dropped
	KeptUntil drive.Time  `json:"kept_until"`
	Rows      bool        `json:"rows"` // they are gone, or have not moved
	Contents  OldContents `json:"contents"`
	Gate      []Gate      `json:"gate"` // before it may be dropped
}

// Place names both stores of one side, without passwords.
type Place struct {
	DB    string `json:"db"`
	Blobs string `json:"blobs"`
}

// Progress is how far the filling in is.
type Progress struct {
	Rows  RowsProgress     `json:"rows"`
	Blobs ContentsProgress `json:"blobs"`
	ETA   int64            `json:"eta_seconds"`
}

// RowsProgress counts rows.
type RowsProgress struct {
	Done  int64   `json:"done"`
	Total int64   `json:"total"`
	Rate  float64 `json:"rate"` // rows a second, of late
}

// Checksum is the latest full comparison of both sides.
type Checksum struct {
	State   string     `json:"state"` // running | done
	Equal   bool       `json:"equal"`
	Rows    int64      `json:"rows"`
	Unequal int64      `json:"unequal"`
	Digest  string     `json:"digest"`
	At      drive.Time `json:"at"` // when it ended, or began
	Rate    float64    `json:"rate"`
}

// Instance is a process that serves, and the last epoch that it acts by.
type Instance struct {
	ID     int64      `json:"id"` // generation of its start
	Host   string     `json:"host"`
	Epoch  int64      `json:"epoch"`
	Heard  int64      `json:"heard"`         // the last epoch that it has heard of: at least Epoch
	Why    string     `json:"why,omitempty"` // it cannot act by what it has heard of
	SeenAt drive.Time `json:"seen_at"`
}

// Gate is one thing that must hold before the next phase.
type Gate struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Reads counts what this process has read since it started.
type Reads struct {
	New      int64 `json:"new"`      // answered by the secondary
	Fallback int64 `json:"fallback"` // would have been, but something of the account was not applied, or the secondary failed
	Compared int64 `json:"compared"`
	Skipped  int64 `json:"skipped"` // samples that could not be compared
}

// Writes counts what this process has written since it started.
type Writes struct {
	Second   int64 `json:"second"`   // applied before the answer
	Deferred int64 `json:"deferred"` // left to be applied later
	Waited   int64 `json:"waited"`   // met a switch
	// Pause is the longest time that a write waited for a switch, in milliseconds.
	Pause int64 `json:"pause_ms"`
}

// Mismatch is something that the two sides do not agree on.
type Mismatch struct {
	ID        int64      `json:"id"`
	Source    string     `json:"source"` // read | checksum
	Subject   string     `json:"subject"`
	Ours      string     `json:"ours"` // the primary's
	Theirs    string     `json:"theirs"`
	FoundAt   drive.Time `json:"found_at"`
	Explained bool       `json:"explained"`
	// Who has explained it, why and when; nobody where a later comparison was equal.
	ExplainedBy string     `json:"explained_by,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	ExplainedAt drive.Time `json:"explained_at"`
}

// Report is what Start has found out.
type Report struct {
	OK     bool   `json:"ok"`
	Checks []Gate `json:"checks"`
	Rows   int64  `json:"rows"`
	Tables int    `json:"tables"`
	// Seconds is a guess of how long filling in takes.
	Seconds int64 `json:"seconds"`
}
