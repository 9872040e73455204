package upload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/claim"
)

// Limits of uploads.
const (
	MaxParts        = 10_000    // most parts of one upload
	MinPartSize     = drive.MiB // smallest part size; only the last part may be shorter
	MaxPartSize     = 2 << 30   // largest part size that a client may request; 10,000 such parts exceed MaxFileSize
	unknownPartSize = 64 << 20  // part size if the file size is not declared: up to 625 GiB
	maxFingerprint  = 128       // length of Begin.Fingerprint in bytes
	firstGrant      = 64 << 20  // first reservation if the file size is not declared; later ones double
	maxGrant        = 1 << 30   // largest single enlargement of such a reservation
)

// Row is an upload as stored in the database.
type Row struct {
	ID          drive.UploadID
	Account     drive.AccountID
	User        drive.UserID
	Parent      drive.NodeID
	Name        drive.Name
	Conflict    drive.Conflict
	Base        drive.VersionID // version that a replace expects, as seen by begin; zero: the name was free
	Size        drive.ByteSize  // blob.UnknownSize until declared
	PartSize    drive.ByteSize
	MTime       drive.Time // modification time for the file, from the client
	Mime        string
	Fingerprint string     // by which a client finds its open upload again; empty: none
	Digests     digest.Set // declared by the client, not verified
	State       State
	Gen         int64            // fencing token: incremented by each transition
	Reserved    drive.ByteSize   // share of the ledger's reserved amount
	Held        drive.ByteSize   // share of the ledger's unfinished amount
	Received    drive.ByteSize   // bytes staged when the upload was last parked or sealed
	Resumes     int              // consecutive resumes without an accepted part
	Challenge   *claim.Challenge // open possession challenge; nil: none
	Node        drive.NodeID     // the file; set when done
	Reason      string           // why the upload ended (Reason constants); set when reclaiming or gone
	Created     drive.Time
	Active      drive.Time // last activity recorded in the database
	Ended       drive.Time // zero: not ended

	guest      bool       // the request's user belongs to another account; not stored
	placed     *tree.Node // the file as the finishing transaction left it; neither stored nor cached
	conditions conditions // of the completing request; neither stored nor cached
}

// conditions are the preconditions and lock tokens that a completing request hands to the
// transaction that creates the file. They are not stored: a seal that is redone after a crash
// checks only the row.
type conditions struct {
	expect tree.Expect
	tokens drive.Tokens // lock tokens of the request; empty if the request's user is not the uploader
}

// isPartial reports whether the upload is an input for Concat. A partial upload has no name, and
// its Parent is its own id, which names no folder.
func (r Row) isPartial() bool { return r.Name == "" }

// isEmpty reports whether the upload is parked and holds no byte: nothing was received and nothing
// is charged.
func (r Row) isEmpty() bool { return r.State == Parked && r.Received == 0 && r.Held == 0 }

// errPartial returns the WrongState error for a request that a partial upload cannot fulfil: to be
// completed, or to be moved.
func (r Row) errPartial() error {
	return drive.Wrap(errors.New("the upload is a partial one"), drive.WrongState, "state", r.State.Public())
}

// Ref returns the key of the upload in the staging.
func (r Row) Ref() blob.Ref {
	return blob.Ref{ID: r.ID, Begun: r.Created, PartSize: r.PartSize, Size: r.Size}
}

// Parts returns the number of parts of the file; MaxParts while its size is unknown.
func (r Row) Parts() int {
	if r.Size == blob.UnknownSize {
		return MaxParts
	}
	return int((r.Size + r.PartSize - 1) / r.PartSize)
}

// MaxSize returns the largest file size that the upload's part size allows.
func (r Row) MaxSize() drive.ByteSize { return min(r.PartSize*MaxParts, drive.MaxFileSize) }

// partLength returns the exact length of part n. If the file size is unknown it returns the
// maximum, PartSize.
func (r Row) partLength(n int) drive.ByteSize {
	if r.Size == blob.UnknownSize {
		return r.PartSize
	}
	return min(r.PartSize, r.Size-drive.ByteSize(n)*r.PartSize)
}

// PartSizeFor returns the part size for a file of the given size: configured, or the next larger
// power of two that needs at most MaxParts parts. size may be blob.UnknownSize.
func PartSizeFor(size, configured drive.ByteSize) drive.ByteSize {
	if size == blob.UnknownSize {
		return max(unknownPartSize, configured)
	}
	least := (size + MaxParts - 1) / MaxParts
	if least <= configured {
		return configured
	}
	return 1 << bits.Len64(uint64(least-1))
}

// rowColumns lists the columns of uploads in the order of scanRow and insertRow.
const rowColumns = `id, account_id, user_id, parent_id, name, conflict, base, size, part_size, mtime, mime, fingerprint, digests,
	state, gen, reserved, held, received, resumes, challenge, node_id, reason, created_at, active_at, ended_at`

// scanRow fills r from the columns rowColumns. It fails if a JSON column does not parse.
func scanRow(r *Row, scan func(dest ...any) error) error {
	var size *drive.ByteSize
	var digests, chal string
	err := scan(&r.ID, &r.Account, &r.User, &r.Parent, &r.Name, &r.Conflict, &r.Base, &size, &r.PartSize, &r.MTime, &r.Mime,
		&r.Fingerprint, &digests, &r.State, &r.Gen, &r.Reserved, &r.Held, &r.Received, &r.Resumes, &chal, &r.Node, &r.Reason,
		&r.Created, &r.Active, &r.Ended)
	if err != nil {
		return err
	}
	r.Size = blob.UnknownSize
	if size != nil {
		r.Size = *size
	}
	if chal != "" {
		r.Challenge = new(claim.Challenge)
		if err := json.Unmarshal([]byte(chal), r.Challenge); err != nil {
			return fmt.Errorf("the challenge of upload %s: %w", r.ID, err)
		}
	}
	if err := json.Unmarshal([]byte(digests), &r.Digests); err != nil {
		return fmt.Errorf("the digests of upload %s: %w", r.ID, err)
	}
	return nil
}

// nullSize returns size as an SQL argument: NULL for blob.UnknownSize.
func nullSize(size drive.ByteSize) any {
	if size == blob.UnknownSize {
		return nil
	}
	return size
}

// jsonText encodes v, and panics if v cannot be encoded.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only plain types of this package are passed
	}
	return string(b)
}

// challengeText returns the challenge as stored: JSON, or "" if there is none.
func (r Row) challengeText() string {
	if r.Challenge == nil {
		return ""
	}
	return jsonText(r.Challenge)
}

// findRow reads the row of upload id. It returns NotFound if there is none.
func findRow(ctx context.Context, q sqldb.Querier, id drive.UploadID) (Row, error) {
	var r Row
	if err := scanRow(&r, q.QueryRow(ctx, `SELECT `+rowColumns+` FROM uploads WHERE id = ?`, id).Scan); err != nil {
		return Row{}, fmt.Errorf("find upload %s: %w", id, err)
	}
	return r, nil
}

// insertRow inserts r as a new row, with each column as r has it. It fails if the id exists.
func insertRow(ctx context.Context, tx *sqldb.Tx, r Row) error {
	_, err := tx.Exec(ctx, `INSERT INTO uploads (`+rowColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.ID, r.Account, r.User, r.Parent, r.Name, r.Conflict, r.Base, nullSize(r.Size), r.PartSize, r.MTime, r.Mime,
		r.Fingerprint, jsonText(r.Digests), r.State, r.Gen, r.Reserved, r.Held, r.Received, r.Resumes, r.challengeText(), r.Node,
		r.Reason, r.Created, r.Active, r.Ended)
	if err != nil {
		return fmt.Errorf("insert upload %s: %w", r.ID, err)
	}
	return nil
}

// updateRow performs a transition: it overwrites the row that still has was's id, state, gen and
// reserved with next, sets gen to was.Gen+1, and returns the written row. It returns errStale if
// the row has changed. The caller makes the ledger move in the same transaction.
func updateRow(ctx context.Context, tx *sqldb.Tx, was, next Row) (Row, error) {
	next.Gen = was.Gen + 1
	n, err := tx.Exec(ctx, `UPDATE uploads SET parent_id = ?, name = ?, conflict = ?, base = ?, size = ?, mtime = ?, mime = ?, digests = ?, state = ?,
		gen = ?, reserved = ?, held = ?, received = ?, resumes = ?, challenge = ?, node_id = ?, reason = ?, active_at = ?, ended_at = ?
		WHERE id = ? AND state = ? AND gen = ? AND reserved = ?`,
		next.Parent, next.Name, next.Conflict, next.Base, nullSize(next.Size), next.MTime, next.Mime, jsonText(next.Digests), next.State,
		next.Gen, next.Reserved, next.Held, next.Received, next.Resumes, next.challengeText(), next.Node, next.Reason, next.Active, next.Ended,
		was.ID, was.State, was.Gen, was.Reserved)
	if err != nil {
		return Row{}, fmt.Errorf("change upload %s from %s to %s: %w", was.ID, was.State, next.State, err)
	}
	if n == 0 {
		return Row{}, errStale
	}
	return next, nil
}
