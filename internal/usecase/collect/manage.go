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
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
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

// Create makes a link into a live folder that the caller may give such links to. At most 1,000 an
// account: TooManyOpen.
func (s *Links) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (v View, err error) {
	at, err := s.Enter(ctx, s.opt.DB, who, in.Folder)
	if err != nil {
		return View{}, err
	}
	l := Link{
		ID: drive.NewID[drive.CollectID](), Account: at, User: who.User, Folder: in.Folder, Token: link.NewToken(),
		MaxBytes: in.MaxBytes, MaxFile: in.MaxFile, CreatedAt: s.Now(),
	}
	change := Change{Title: &in.Title, Message: &in.Message, Life: &in.Life, MaxBytes: &in.MaxBytes, MaxFile: &in.MaxFile}
	if err := s.apply(&l, change); err != nil {
		return View{}, err
	}
	n := link.Wish{Made: l.Made(), Token: l.Token, Fits: mustBeFolder}
	return s.Links.Create(ctx, who, n, func(ctx context.Context, tx *sqldb.Tx, kept vault.Link) (Link, error) {
		l.kept = kept
		return l, insert(ctx, tx, l)
	}, hook)
}

func insert(ctx context.Context, tx *sqldb.Tx, l Link) error {
	_, err := tx.Exec(ctx, `INSERT INTO collects
		(id, account_id, user_id, folder_id, token, title, message, expires_at, max_bytes, max_file, files, received, created_at)
		VALUES (`+sqldb.Marks(13)+")", l.ID, l.Account, l.User, l.Folder, l.kept.Token, l.Title, l.Message, l.ExpiresAt, l.MaxBytes,
		l.MaxFile, l.Files, l.Received, l.CreatedAt)
	return err
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
		l.ExpiresAt, err = s.End(*c.Life)
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

// Query selects a page of links, the newest first.
type Query = link.Query[drive.CollectID]

// Change changes a link. A limit below what has come is allowed: nothing more is let in then.
func (s *Links) Change(ctx context.Context, who drive.Who, id drive.CollectID, c Change) (v View, err error) {
	return s.Links.Change(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx, l *Link) error {
		if err := s.apply(l, c); err != nil {
			return err
		}
		tx.AfterCommit(func() { s.forget(id) })
		if _, err := tx.Exec(ctx, "UPDATE collects SET title = ?, message = ?, expires_at = ?, max_bytes = ?, max_file = ? WHERE id = ?",
			l.Title, l.Message, l.ExpiresAt, l.MaxBytes, l.MaxFile, l.ID); err != nil {
			return fmt.Errorf("change collect link %s: %w", id, err)
		}
		return nil
	})
}

// RemoveAll ends all links of an account within a transaction. Their uploads that are open are the
// caller's to end.
func (s *Links) RemoveAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	tx.AfterCommit(s.forgetAll)
	return s.Links.RemoveAll(ctx, tx, account)
}

// Delete ends a link that Find would show, and returns its uploads that are open, for the caller
// to cancel: nobody can complete them any more. What has come stays. NotFound when there is no such
// link.
func (s *Links) Delete(ctx context.Context, who drive.Who, id drive.CollectID) (open []drive.UploadID, err error) {
	err = s.DeleteWith(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.AfterCommit(func() { s.forget(id) })
		rows, err := tx.Query(ctx, "SELECT upload_id FROM collected WHERE collect_id = ? AND state = 'open' ORDER BY upload_id", id)
		open, err = sqldb.Scan(rows, err, func(u *drive.UploadID, scan func(...any) error) error { return scan(u) })
		return err
	})
	return open, err
}
