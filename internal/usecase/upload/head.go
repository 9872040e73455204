package upload

import (
	"context"
	"encoding/json"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// head is the protocol data of an upload, stored in upload_heads beside its row. Native uploads of
// whole files without metadata have no such row.
type head struct {
	Kind     Kind
	Protocol Protocol
	Metadata string
	Partials []drive.UploadID // inputs of a final upload
	Final    drive.UploadID   // set on a joined partial upload
}

// isZero reports whether h is that of an ordinary upload without metadata, for which insertHead
// writes no row. It ignores Partials and Final.
func (h head) isZero() bool { return h.Kind == Whole && h.Protocol == Native && h.Metadata == "" }

// insertHead inserts h into upload_heads as the head of upload id. It does nothing if h is zero,
// and fails if the upload has a head already.
func insertHead(ctx context.Context, tx *sqldb.Tx, id drive.UploadID, h head) error {
	if h.isZero() {
		return nil
	}
	partials := ""
	if len(h.Partials) > 0 {
		partials = jsonText(h.Partials)
	}
	_, err := tx.Exec(ctx, `INSERT INTO upload_heads (upload_id, kind, protocol, metadata, partials, final_id) VALUES (?,?,?,?,?,?)`,
		id, h.Kind, h.Protocol, h.Metadata, partials, h.Final)
	if err != nil {
		return fmt.Errorf("keep the head of upload %s: %w", id, err)
	}
	return nil
}

// findHead returns the head of an upload. An upload without one, and an unknown id, return the zero
// head and no error.
func findHead(ctx context.Context, q sqldb.Querier, id drive.UploadID) (h head, err error) {
	var partials string
	err = q.QueryRow(ctx, `SELECT kind, protocol, metadata, partials, final_id FROM upload_heads WHERE upload_id = ?`, id).
		Scan(&h.Kind, &h.Protocol, &h.Metadata, &partials, &h.Final)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return head{}, nil
	case err == nil && partials != "":
		err = json.Unmarshal([]byte(partials), &h.Partials)
	}
	if err != nil {
		return head{}, fmt.Errorf("find the head of upload %s: %w", id, err)
	}
	return h, nil
}

// Metadata returns the metadata of an upload that the caller may continue. Unlike Offset it does
// not interrupt an Append.
func Metadata(ctx context.Context, s *Sessions, who drive.Who, id drive.UploadID) (string, error) {
	row, err := findRow(ctx, s.DB, id)
	if err == nil {
		_, err = s.auth.authorize(ctx, who, &row)
	}
	if err != nil {
		return "", err
	}
	h, err := findHead(ctx, s.DB, id)
	return h.Metadata, err
}

// SetMetadata replaces the metadata of an upload that was begun with metadata; without any it does
// nothing. BadRequest if text exceeds MaxMetadata.
func SetMetadata(ctx context.Context, s *Sessions, who drive.Who, id drive.UploadID, text string) error {
	if len(text) > MaxMetadata {
		return drive.BadField("metadata", drive.TooLong, "limit", MaxMetadata, "sent", len(text))
	}
	row, err := findRow(ctx, s.DB, id)
	if err == nil {
		_, err = s.auth.authorize(ctx, who, &row)
	}
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE upload_heads SET metadata = ? WHERE upload_id = ?", text, id); err != nil {
			return fmt.Errorf("change the metadata of upload %s: %w", id, err)
		}
		return nil
	})
}
