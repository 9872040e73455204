package handover

import (
	"context"
	"fmt"
	"log/slog"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// Links are the share links or the collect links of accounts.
type Links interface {
	// RemoveAll deletes the links of an account within tx.
	RemoveAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error
}

// Uploads cancels unfinished uploads.
type Uploads interface {
	// ReclaimAll cancels the open uploads of an account and returns how many it has cancelled, also
	// with an error.
	ReclaimAll(ctx context.Context, account drive.AccountID) (int, error)
}

// Parts are the dependencies of the use cases.
type Parts struct {
	DB       *sqldb.DB
	Users    *account.Users
	Access   *access.Access
	Ledger   quota.Ledger
	Tree     *tree.Tree
	Files    *files.Files
	Shares   Links
	Collects Links
	Uploads  Uploads
	Activity *activity.Log // nil: no activity is recorded
	// Log receives failures that do not fail the request. Default: discarded.
	Log *slog.Logger
}

// Handovers hands the drive of a user over to another user or a space. It is safe for concurrent
// use.
type Handovers struct{ parts Parts }

// New returns the Handovers.
func New(parts Parts) *Handovers {
	if parts.Log == nil {
		parts.Log = slog.New(slog.DiscardHandler)
	}
	return &Handovers{parts}
}

// Request names the user and the receiver. Exactly one of Receiver and Space must be set.
type Request struct {
	User     drive.UserID
	Receiver drive.UserID
	Space    drive.AccountID
	Folder   drive.Name // name of the folder to create at the receiver; empty: "Files of NAME"
}

// View is the state of a handover, as an administrator sees it.
type View struct {
	Operation files.Operation
	User      drive.UserID
	To        string          // name of the receiving user or space
	ToSpace   bool            // To is a space
	Account   drive.AccountID // of the receiver
	// Folder is the new folder at the receiver.
	Folder drive.NodeID
	Waits  string // problem code of the last failure while the operation retries; else empty
}

// Hook runs at the end of the transaction that begins a handover, so that an idempotency key
// commits with it. An error rolls the transaction back.
type Hook = func(ctx context.Context, tx *sqldb.Tx, v View) error

// Begin disables a user and starts to transfer the user's files; Find returns the progress.
// Repeating a request that is running returns its state. Errors: Forbidden if the caller is not an
// administrator; NotFound for the user; BadRequest if the receiver is unknown, disabled, archived
// or the user, or if the user is the caller; Quota {needed, available} or TooLarge {nodes or
// versions} if the files do not fit, before anything has changed; WrongState {state: handing-over}
// if another handover from the user, to the user or from the receiver is running; WrongState
// {state: last-admin}.
func (s *Handovers) Begin(ctx context.Context, who drive.Who, in Request, hook Hook) (v View, err error) {
	if !who.Admin {
		return View{}, drive.Fail(drive.Forbidden)
	}
	user, err := s.parts.Users.Find(ctx, s.parts.DB, in.User)
	if err != nil {
		return View{}, err
	}
	to, err := s.receiver(ctx, s.parts.DB, in)
	switch {
	case err != nil:
		return View{}, err
	case to.account == user.Account:
		return View{}, drive.BadField("to_user", drive.NotAllowed)
	case who.User == in.User: // who would be signed out by their own request
		return View{}, drive.BadField("id", drive.NotAllowed)
	}
	if in.Folder == "" {
		if in.Folder, err = drive.ParseName("Files of " + user.Name); err != nil {
			in.Folder = "Files" // a user name may be longer than a file name, or contain other characters
		}
	}
	made := false
	err = s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := files.LockBoth(ctx, s.parts.Ledger, tx, user.Account, to.account); err != nil {
			return err
		}
		v, made, err = s.begin(ctx, tx, who, user, in)
		if err == nil && hook != nil {
			err = hook(ctx, tx, v)
		}
		return err
	})
	if err != nil {
		return v, err
	}
	if _, err := s.parts.Uploads.ReclaimAll(ctx, user.Account); err != nil { // they end by themselves, later
		s.parts.Log.ErrorContext(ctx, "the open uploads of a user who leaves could not be cancelled; they expire by themselves", "account", user.Account, "error", err)
	}
	if made {
		s.parts.Files.Operations.Start(v.Operation.ID)
	}
	return v, nil
}

// begin runs the transaction of Begin under the locks of both ledgers. made is false if the same
// handover is running already.
func (s *Handovers) begin(ctx context.Context, tx *sqldb.Tx, who drive.Who, user account.User, in Request) (v View, made bool, err error) {
	to, err := s.receiver(ctx, tx, in) // again, now under the lock
	if err != nil {
		return View{}, false, err
	}
	running, err := s.find(ctx, tx, user)
	switch {
	case err == nil && running.Operation.State == files.Running && running.Account == to.account:
		return running, false, nil // a retry after a lost reply
	case err == nil && running.Operation.State == files.Running:
		return View{}, false, busy()
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return View{}, false, err
	}
	if err := s.checkIndependent(ctx, tx, user.Account, to.account); err != nil {
		return View{}, false, err
	}
	if err := s.fits(ctx, tx, user.Account, to.account); err != nil {
		return View{}, false, err
	}
	if _, err := s.parts.Users.Update(ctx, tx, user.ID, account.Patch{State: account.Disabled, End: true}); err != nil {
		return View{}, false, err
	}
	for _, links := range []Links{s.parts.Shares, s.parts.Collects} {
		if err := links.RemoveAll(ctx, tx, user.Account); err != nil {
			return View{}, false, err
		}
	}
	o, folder, err := s.parts.Files.Handovers.Begin(ctx, tx, who, files.Handover{From: user.Account, To: to.account, Owner: to.user, Folder: in.Folder})
	if err != nil {
		return View{}, false, fmt.Errorf("begin to hand over: %w", err)
	}
	if err := s.note(tx, user, to, folder.ID); err != nil {
		return View{}, false, err
	}
	return View{Operation: o, User: user.ID, To: to.name, ToSpace: to.user.IsZero(), Account: to.account, Folder: folder.ID}, true, nil
}

// note records the handover within tx in the activity of both accounts.
func (s *Handovers) note(tx *sqldb.Tx, user account.User, to receiver, folder drive.NodeID) error {
	data := map[string]string{"from": user.Name, "to": to.name, "folder": folder.String()}
	for _, id := range []drive.AccountID{user.Account, to.account} {
		if err := s.parts.Activity.Record(tx, activity.Entry{Account: id, Verb: activity.DriveHanded, Name: user.Name}, data); err != nil {
			return err
		}
	}
	return nil
}

// busy returns WrongState {state: handing-over}: the drive is being handed over.
func busy() error { return drive.Fail(drive.WrongState, "state", "handing-over") }

// checkIndependent returns busy if a running handover adds files to from, or takes files out of to:
// chained handovers could leave files behind.
func (s *Handovers) checkIndependent(ctx context.Context, q sqldb.Querier, from, to drive.AccountID) error {
	all, err := s.parts.Files.Handovers.List(ctx, q)
	for _, h := range all {
		if h.To == from || h.From == to {
			return busy()
		}
	}
	return err
}

// fits returns Quota or TooLarge, with the numbers, if the receiver has no room for the files.
func (s *Handovers) fits(ctx context.Context, q sqldb.Querier, from, to drive.AccountID) error {
	has, err := s.parts.Ledger.Get(ctx, q, from)
	if err != nil {
		return err
	}
	room, err := s.parts.Ledger.Get(ctx, q, to)
	if err != nil {
		return err
	}
	if has.Finished > room.Available() {
		return room.Refused(has.Finished)
	}
	return s.parts.Tree.CheckHandoverCapacity(ctx, q, from, to)
}

// receiver is the user or space that gets the drive.
type receiver struct {
	account drive.AccountID
	user    drive.UserID // zero: a space
	name    string
}

// receiver looks up the destination. It fails with BadRequest if it is missing, unknown or not
// active.
func (s *Handovers) receiver(ctx context.Context, q sqldb.Querier, in Request) (receiver, error) {
	switch {
	case in.Receiver.IsZero() && in.Space.IsZero():
		return receiver{}, drive.BadField("to_user", drive.Required)
	case !in.Receiver.IsZero() && !in.Space.IsZero():
		return receiver{}, drive.BadField("to_user", drive.NotTogether, "with", "to_space")
	case !in.Receiver.IsZero():
		u, err := s.parts.Users.Find(ctx, q, in.Receiver)
		if drive.IsKind(err, drive.NotFound) || err == nil && u.State != account.Active {
			err = drive.BadField("to_user", drive.Unknown)
		}
		return receiver{u.Account, u.ID, u.Name}, err
	}
	one, err := s.parts.Access.FindSpace(ctx, q, in.Space)
	if drive.IsKind(err, drive.NotFound) || err == nil && one.State != access.Active {
		err = drive.BadField("to_space", drive.Unknown)
	}
	return receiver{account: one.ID, name: one.Name}, err
}

// Find returns the latest handover of a user. It fails with NotFound if there is none or it ended
// more than a week ago, and with Forbidden if the caller is not an administrator.
func (s *Handovers) Find(ctx context.Context, who drive.Who, id drive.UserID) (View, error) {
	if !who.Admin {
		return View{}, drive.Fail(drive.Forbidden)
	}
	user, err := s.parts.Users.Find(ctx, s.parts.DB, id)
	if err != nil {
		return View{}, err
	}
	return s.find(ctx, s.parts.DB, user)
}

// find returns the view of the handover of a user's drive, or NotFound. Its receiver may have been
// deleted since; the name To is then empty.
func (s *Handovers) find(ctx context.Context, q sqldb.Querier, user account.User) (View, error) {
	o, h, folder, err := s.parts.Files.Handovers.Find(ctx, q, user.Account)
	if err != nil {
		return View{}, err
	}
	v := View{Operation: o, User: user.ID, ToSpace: h.Owner.IsZero(), Account: h.To, Folder: folder}
	if v.Waits = o.Error; o.State != files.Running {
		v.Waits = ""
	}
	if v.ToSpace {
		one, err := s.parts.Access.FindSpace(ctx, q, h.To)
		if v.To = one.Name; drive.IsKind(err, drive.NotFound) {
			err = nil // the space was deleted since
		}
		return v, err
	}
	to, err := s.parts.Users.Find(ctx, q, h.Owner)
	if v.To = to.Name; drive.IsKind(err, drive.NotFound) {
		err = nil
	}
	return v, err
}

// Busy returns WrongState {state: handing-over} while the account gives or receives a handover:
// deleting the account would delete files that are to be kept. The caller must hold the lock of the
// account's ledger.
func (s *Handovers) Busy(ctx context.Context, q sqldb.Querier, id drive.AccountID) error {
	all, err := s.parts.Files.Handovers.List(ctx, q)
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.From == id || h.To == id {
			return busy()
		}
	}
	return nil
}
