package upload

import (
	"context"
	"encoding/json"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// head is what a protocol keeps beside an upload. Native uploads have none.
type head struct {
	Kind     Kind
	Protocol Protocol
	Metadata string
	Partials []drive.UploadID // of a final one
	Final    drive.UploadID   // of a partial one that was joined
}

func (h head) isZero() bool { return h.Kind == Whole && h.Protocol == Native && h.Metadata == "" }

// insertHead keeps h, if there is anything to keep.
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

// findHead returns what is kept beside an upload, the zero head where nothing is.
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
