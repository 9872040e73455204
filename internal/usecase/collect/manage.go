package collect

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/link"
)

const (
	maxLinks   = 1000 // per account
	maxTitle   = 200  // bytes
	maxMessage = 2000 // characters
	maxSender  = 64   // bytes of a sender's name
)

// Request describes a link to create. Folder and Title are required.
type Request struct {
	Folder   drive.NodeID
	Title    string
	Message  string
	Life     time.Duration // zero: never expires
	MaxBytes *drive.ByteSize
	MaxFile  *drive.ByteSize
}

// Hook runs at the end of the transaction that creates a link, so that an idempotency key commits
// with it. nil: nothing to run. Its error rolls back.
type Hook func(ctx context.Context, tx *sqldb.Tx, v View) error

// Create creates a link into a folder outside the trash. It fails with NotFound or Forbidden
// without the right to create collect links to the folder, BadRequest for an invalid field, and
// TooManyOpen beyond 1,000 links per account.
func (s *Links) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (v View, err error) {
	at, err := s.Authorize(ctx, s.opt.DB, who, in.Folder)
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
	n := link.NewLink{Identity: l.Identity(), Token: l.Token, CheckNode: mustBeFolder}
	return s.Links.Create(ctx, who, n, func(ctx context.Context, tx *sqldb.Tx, kept vault.Link) (Link, error) {
		l.kept = kept
		return l, insert(ctx, tx, l)
	}, hook)
}

// insert inserts the row of a link within tx, without its sealed token.
func insert(ctx context.Context, tx *sqldb.Tx, l Link) error {
	_, err := tx.Exec(ctx, `INSERT INTO collects
		(id, account_id, user_id, folder_id, token, title, message, expires_at, max_bytes, max_file, files, received, created_at)
		VALUES (`+sqldb.Placeholders(13)+")", l.ID, l.Account, l.User, l.Folder, l.kept.Token, l.Title, l.Message, l.ExpiresAt, l.MaxBytes,
		l.MaxFile, l.Files, l.Received, l.CreatedAt)
	return err
}

// mustBeFolder returns BadRequest unless n is a folder.
func mustBeFolder(n tree.Node) error {
	if !n.IsFolder() {
		return drive.BadField("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", n.Type)
	}
	return nil
}

// Change is a change of a link; nil fields stay unchanged.
type Change struct {
	Title    *string
	Message  *string
	Life     *time.Duration // from now on; zero: never expires
	MaxBytes **drive.ByteSize
	MaxFile  **drive.ByteSize
}

// apply validates the fields of c that are set and applies them to l in place. It returns
// BadRequest for the first invalid field; l may be partly changed then.
func (s *Links) apply(l *Link, c Change) (err error) {
	if c.Title != nil {
		if l.Title, err = drive.ParseText("title", *c.Title, drive.TextRule{Bytes: maxTitle}); err == nil && l.Title == "" {
			err = drive.BadField("title", drive.Required)
		}
	}
	if err == nil && c.Message != nil {
		l.Message, err = drive.ParseText("message", *c.Message, drive.TextRule{Chars: maxMessage, Lines: true})
	}
	if err == nil && c.Life != nil {
		l.ExpiresAt, err = s.ExpiryAfter(*c.Life)
	}
	if err == nil && c.MaxBytes != nil {
		l.MaxBytes, err = *c.MaxBytes, checkSize("max_bytes", *c.MaxBytes)
	}
	if err == nil && c.MaxFile != nil {
		l.MaxFile, err = *c.MaxFile, checkSize("max_file", *c.MaxFile)
	}
	return err
}

// maxTotal keeps sums well below the maximum of int64.
const maxTotal = drive.ByteSize(1) << 60

// checkSize returns BadRequest for field unless n is nil or from 1 to maxTotal.
func checkSize(field string, n *drive.ByteSize) error {
	if n != nil && (*n < 1 || *n > maxTotal) {
		return drive.BadField(field, drive.OutOfRange, "min", 1, "max", int64(maxTotal), "sent", *n)
	}
	return nil
}

// Query selects a page of links, newest first.
type Query = link.Query[drive.CollectID]

// Change changes a link and returns its new view. It fails with BadRequest for an invalid field,
// and with NotFound unless the caller may manage the link. A limit below the bytes already received
// is allowed: the link then accepts nothing more.
func (s *Links) Change(ctx context.Context, who drive.Who, id drive.CollectID, c Change) (v View, err error) {
	return s.Links.Change(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx, l *Link) error {
		if err := s.apply(l, c); err != nil {
			return err
		}
		tx.AfterCommit(func() { s.evict(id) })
		if _, err := tx.Exec(ctx, "UPDATE collects SET title = ?, message = ?, expires_at = ?, max_bytes = ?, max_file = ? WHERE id = ?",
			l.Title, l.Message, l.ExpiresAt, l.MaxBytes, l.MaxFile, l.ID); err != nil {
			return fmt.Errorf("change collect link %s: %w", id, err)
		}
		return nil
	})
}

// RemoveAll deletes all links of an account within tx. The caller must cancel their open uploads.
func (s *Links) RemoveAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	tx.AfterCommit(s.evictAll)
	return s.Links.RemoveAll(ctx, tx, account)
}

// Delete deletes a link that Find would return, and returns its open uploads, which the caller must
// cancel because nobody can complete them. Received files stay. NotFound if there is no such link.
func (s *Links) Delete(ctx context.Context, who drive.Who, id drive.CollectID) (open []drive.UploadID, err error) {
	err = s.DeleteWith(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.AfterCommit(func() { s.evict(id) })
		rows, err := tx.Query(ctx, "SELECT upload_id FROM collected WHERE collect_id = ? AND state = 'open' ORDER BY upload_id", id)
		open, err = sqldb.Scan(rows, err, func(u *drive.UploadID, scan func(...any) error) error { return scan(u) })
		return err
	})
	return open, err
}
