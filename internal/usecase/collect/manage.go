package collect

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/link"
)

const (
	maxLinks   = 1000 // an account
	maxTitle   = 200  // bytes
	maxMessage = 2000 // bytes
	maxSender  = 64   // bytes of what a sender calls themselves
)

// Request describes a link to be made.
type Request struct {
	Folder   drive.NodeID
	Title    string
	Message  string
	Life     time.Duration // zero: for ever
	MaxBytes *drive.ByteSize
	MaxFile  *drive.ByteSize
}

// Hook runs at the end of the transaction that makes a link, so that an idempotency key commits
// with it. Nil does nothing; an error undoes all.
type Hook func(ctx context.Context, tx *sqldb.Tx, v View) error

// Create makes a link into a live folder of the caller's. At most 1,000 an account: TooManyOpen.
func (s *Links) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (v View, err error) {
	l := Link{
		ID: drive.NewID[drive.CollectID](), Account: who.Account, User: who.User, Folder: in.Folder, Token: link.NewToken(),
		MaxBytes: in.MaxBytes, MaxFile: in.MaxFile, CreatedAt: s.now(),
	}
	change := Change{Title: &in.Title, Message: &in.Message, Life: &in.Life, MaxBytes: &in.MaxBytes, MaxFile: &in.MaxFile}
	if err := s.apply(&l, change); err != nil {
		return View{}, err
	}
	err = s.links.Write(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.links.MayLead(ctx, tx, l.Account, l.Folder, mustBeFolder); err != nil {
			return err
		}
		if err := s.insert(ctx, tx, &l); err != nil {
			return fmt.Errorf("insert collect link %s: %w", l.ID, err)
		}
		if err := s.links.Told(tx, who, activity.CollectCreated, l.Folder, l.ID); err != nil {
			return err
		}
		if v, err = s.view(ctx, tx, l); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, v)
	})
	return v, err
}

func (s *Links) insert(ctx context.Context, tx *sqldb.Tx, l *Link) (err error) {
	if l.kept, err = s.opt.Vault.NewLink(ctx, tx, l.ID.String(), l.Token, ""); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO collects
		(id, account_id, user_id, folder_id, token, title, message, expires_at, max_bytes, max_file, files, received, created_at)
		VALUES (`+sqldb.Marks(13)+")", l.ID, l.Account, l.User, l.Folder, l.kept.Token, l.Title, l.Message, l.ExpiresAt, l.MaxBytes,
		l.MaxFile, l.Files, l.Received, l.CreatedAt)
	if err != nil {
		return err
	}
	return s.links.Keep(ctx, tx, l.kept)
}

func mustBeFolder(n tree.Node) error {
	if !n.IsFolder() {
		return drive.Bad("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", n.Type)
	}
	return nil
}

// Change is a change of a link; nil stays as it is.
type Change struct {
	Title    *string
	Message  *string
	Life     *time.Duration // from now on; zero: for ever
	MaxBytes **drive.ByteSize
	MaxFile  **drive.ByteSize
}

func (s *Links) apply(l *Link, c Change) (err error) {
	if c.Title != nil {
		if l.Title, err = text("title", *c.Title, maxTitle, false); err == nil && l.Title == "" {
			err = drive.Bad("title", drive.Required)
		}
	}
	if err == nil && c.Message != nil {
		l.Message, err = text("message", *c.Message, maxMessage, true)
	}
	if err == nil && c.Life != nil {
		l.ExpiresAt, err = s.links.End(*c.Life)
	}
	if err == nil && c.MaxBytes != nil {
		l.MaxBytes, err = *c.MaxBytes, checkSize("max_bytes", *c.MaxBytes)
	}
	if err == nil && c.MaxFile != nil {
		l.MaxFile, err = *c.MaxFile, checkSize("max_file", *c.MaxFile)
	}
	return err
}

// text checks what people read: NFC, without characters that one cannot see, line breaks excepted
// where there may be lines.
func text(field, s string, limit int, lines bool) (string, error) {
	if !utf8.ValidString(s) {
		return "", drive.Bad(field, drive.Malformed, "expected", "UTF-8")
	}
	s = strings.TrimSpace(norm.NFC.String(s))
	switch {
	case len(s) > limit:
		return "", drive.Bad(field, drive.TooLong, "limit", limit, "sent", len(s))
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) && (!lines || r != '\n') }):
		return "", drive.Bad(field, drive.Malformed, "expected", "visible characters")
	}
	return s, nil
}

// maxTotal keeps sums far from the end of int64.
const maxTotal = drive.ByteSize(1) << 60

func checkSize(field string, n *drive.ByteSize) error {
	if n != nil && (*n < 1 || *n > maxTotal) {
		return drive.Bad(field, drive.OutOfRange, "min", 1, "max", int64(maxTotal), "sent", *n)
	}
	return nil
}

// Find returns a link of the caller's account.
func (s *Links) Find(ctx context.Context, who drive.Who, id drive.CollectID) (View, error) {
	l, err := s.find(ctx, s.opt.DB.For(who.Account), "l.id = ? AND l.account_id = ?", id, who.Account)
	if err != nil {
		return View{}, err
	}
	return s.view(ctx, s.opt.DB.For(who.Account), l)
}

// List returns a page of the links of the caller's account, the newest first, after the one given
// (zero: from the first).
func (s *Links) List(ctx context.Context, who drive.Who, after drive.CollectID, limit int) ([]View, error) {
	where, args := "l.account_id = ?", []any{who.Account}
	if !after.IsZero() {
		where, args = where+" AND l.id < ?", append(args, after)
	}
	rows, err := s.opt.DB.For(who.Account).Query(ctx, selectLinks+where+" ORDER BY l.id DESC LIMIT ?", append(args, limit)...)
	all, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list the collect links of account %s: %w", who.Account, err)
	}
	views := make([]View, len(all))
	for i, l := range all {
		if views[i], err = s.view(ctx, s.opt.DB.For(who.Account), l); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// Change changes a link. A limit below what has come is allowed: nothing more is let in then.
func (s *Links) Change(ctx context.Context, who drive.Who, id drive.CollectID, c Change) (v View, err error) {
	err = s.links.Write(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		l, err := s.find(ctx, tx, "l.id = ? AND l.account_id = ?", id, who.Account)
		if err != nil {
			return err
		}
		if err := s.apply(&l, c); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE collects SET title = ?, message = ?, expires_at = ?, max_bytes = ?, max_file = ? WHERE id = ?",
			l.Title, l.Message, l.ExpiresAt, l.MaxBytes, l.MaxFile, l.ID); err != nil {
			return fmt.Errorf("change collect link %s: %w", id, err)
		}
		if err := s.links.Told(tx, who, activity.CollectChanged, l.Folder, l.ID); err != nil {
			return err
		}
		tx.AfterCommit(func() { s.forget(id) })
		v, err = s.view(ctx, tx, l)
		return err
	})
	return v, err
}

// Delete ends a link of the caller's account, and returns its uploads that are open, for the caller
// to cancel: nobody can complete them any more. What has come stays. NotFound when there is no such
// link.
func (s *Links) Delete(ctx context.Context, who drive.Who, id drive.CollectID) (open []drive.UploadID, err error) {
	err = s.links.Write(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if err := s.links.Delete(ctx, tx, who.Account, id.String()); err != nil {
			return err
		}
		tx.AfterCommit(func() { s.forget(id) })
		rows, err := tx.Query(ctx, "SELECT upload_id FROM collected WHERE collect_id = ? AND state = 'open' ORDER BY upload_id", id)
		open, err = sqldb.Scan(rows, err, func(u *drive.UploadID, scan func(...any) error) error { return scan(u) })
		return err
	})
	return open, err
}
