package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// fileColumns lists the columns of scanFile, of the tables c (collected) and u (its upload, which
// may be missing).
const fileColumns = `c.upload_id, c.sender_id, c.sender, c.name, c.size, c.digests, c.created_at,
	c.state = 'done' OR u.state IS NULL OR u.state = 'done', COALESCE(c.node_id, u.node_id)`

// scanFile reads a row of fileColumns into f by calling scan. It returns the error of scan, or that
// of damaged JSON in the digests.
func scanFile(f *File, scan func(...any) error) error {
	var digests string
	var done bool
	if err := scan(&f.Upload, &f.Sender, &f.SenderName, &f.Name, &f.Size, &digests, &f.At, &done, &f.Node); err != nil {
		return err
	}
	f.State = Open
	if done {
		f.State = "done"
	}
	if err := json.Unmarshal([]byte(digests), &f.Digests); err != nil {
		return fmt.Errorf("the digests of upload %s: %w", f.Upload, err)
	}
	return nil
}

// digestText encodes digests as stored.
func digestText(s digest.Set) string {
	raw, err := json.Marshal(s.Hex())
	if err != nil {
		panic(err) // text only
	}
	return string(raw)
}

// CheckOwner returns NotFound unless the upload belongs to the sender. The owner of an upload is
// cached, so that parts need no database access.
func (s *Links) CheckOwner(ctx context.Context, by Sender, id drive.UploadID) error {
	s.mu.Lock()
	whose, ok := s.owners[id]
	s.mu.Unlock()
	if !ok {
		err := s.opt.DB.QueryRow(ctx, "SELECT sender_id FROM collected WHERE upload_id = ?", id).Scan(&whose)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if len(s.owners) >= maxOwners {
			clear(s.owners)
		}
		s.owners[id] = whose
		s.mu.Unlock()
	}
	if whose != by.ID {
		return drive.Fail(drive.NotFound)
	}
	return nil
}

// FindSent returns the record of a sender's upload. It returns NotFound if there is none or it is
// another sender's.
func (s *Links) FindSent(ctx context.Context, q sqldb.Querier, by Sender, id drive.UploadID) (f File, err error) {
	err = scanFile(&f, q.QueryRow(ctx, "SELECT "+fileColumns+` FROM collected c LEFT JOIN uploads u ON u.id = c.upload_id
		WHERE c.upload_id = ? AND c.sender_id = ?`, id, by.ID).Scan)
	return f, err
}

// ListSent returns up to limit open uploads of a sender, ordered by id, after the given id.
func (s *Links) ListSent(ctx context.Context, by Sender, after drive.UploadID, limit int) ([]File, error) {
	rows, err := s.opt.DB.Query(ctx, "SELECT "+fileColumns+` FROM collected c JOIN uploads u ON u.id = c.upload_id
		WHERE c.sender_id = ? AND c.upload_id > ? AND u.state IN ('active', 'parked', 'sealing') ORDER BY c.upload_id LIMIT ?`,
		by.ID, after.String(), limit)
	all, err := sqldb.Scan(rows, err, scanFile)
	if err != nil {
		return nil, fmt.Errorf("list the uploads of a sender: %w", err)
	}
	return all, nil
}

// ListFiles returns up to limit finished and arriving files of a link of the caller, newest first,
// after the given id (zero: from the newest). NotFound if the caller has no such link.
func (s *Links) ListFiles(ctx context.Context, who drive.Who, id drive.CollectID, after drive.UploadID, limit int) ([]File, error) {
	if _, err := s.FindManageable(ctx, s.opt.DB, who, id); err != nil {
		return nil, err
	}
	where, args := "c.collect_id = ? AND (u.state IS NULL OR u.state <> 'gone')", []any{id}
	if !after.IsZero() {
		where, args = where+" AND c.upload_id < ?", append(args, after)
	}
	rows, err := s.opt.DB.For(who.Account).Query(ctx, "SELECT "+fileColumns+` FROM collected c LEFT JOIN uploads u ON u.id = c.upload_id
		WHERE `+where+" ORDER BY c.upload_id DESC LIMIT ?", append(args, limit)...)
	all, err := sqldb.Scan(rows, err, scanFile)
	if err != nil {
		return nil, fmt.Errorf("list the files of collect link %s: %w", id, err)
	}
	return all, nil
}

// DeclareDigests adds digests that a sender's upload must match when completed; they are never used
// for instant upload. NotFound if the upload is not the sender's.
func (s *Links) DeclareDigests(ctx context.Context, by Sender, id drive.UploadID, more digest.Set) error {
	return s.Write(ctx, by.link.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		f, err := s.FindSent(ctx, tx, by, id)
		if err != nil {
			return err
		}
		if f.Digests == nil {
			f.Digests = digest.Set{}
		}
		maps.Copy(f.Digests, more)
		_, err = tx.Exec(ctx, "UPDATE collected SET digests = ? WHERE upload_id = ?", digestText(f.Digests), id)
		return err
	})
}
