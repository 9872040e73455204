package upload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/claim"
)

// Limits of the contract.
const (
	MaxParts        = 10_000    // parts of one upload
	MinPartSize     = drive.MiB // smaller ones only as the last
	MaxPartSize     = 2 << 30   // of parts that a client asks for; 10,000 of them pass MaxFileSize
	unknownPartSize = 64 << 20  // where the size is not declared: up to 625 GiB
	maxFingerprint  = 128       // bytes
	firstGrant      = 64 << 20  // reserved at first where the size is not declared; then doubled
	maxGrant        = 1 << 30   // the largest step
)

// Row is an upload as the database has it.
type Row struct {
	ID          drive.UploadID
	Account     drive.AccountID
	User        drive.UserID
	Parent      drive.NodeID
	Name        drive.Name
	Conflict    drive.Conflict
	Base        drive.VersionID // replace: the version that begin saw; zero: the name was free
	Size        drive.ByteSize  // blob.UnknownSize until it is known
	PartSize    drive.ByteSize
	MTime       drive.Time
	Mime        string
	Fingerprint string
	Digests     digest.Set // declared, not verified
	State       State
	Gen         int64            // fencing token
	Reserved    drive.ByteSize   // its share of the ledger's reserved
	Held        drive.ByteSize   // its share of the ledger's unfinished
	Received    drive.ByteSize   // when it last went quiet
	Resumes     int              // resumes in a row that brought no part
	Challenge   *claim.Challenge // the open possession challenge
	Node        drive.NodeID     // of a done one
	Reason      string           // of a gone one
	Created     drive.Time
	Active      drive.Time // last activity known to the database
	Ended       drive.Time

	guest  bool       // as this request reads it: it is of somebody whose own account is another; not stored
	placed *tree.Node // the file, as the transaction left it that made it; not stored, nor kept in memory
	demand demand     // of the request that completes it; not stored, nor kept in memory
}

// demand is what a request that completes an upload asks of the transaction that makes the file. A
// seal that is redone after its process has died asks only for what the row says.
type demand struct {
	expect tree.Expect
	tokens drive.Tokens // of locks, that the request submits; those of another user count for nothing
}

// isPartial reports whether the upload is a piece for Concat: it has no name, and for its parent
// its own id, which is not a folder.
func (r Row) isPartial() bool { return r.Name == "" }

// isEmpty reports whether a parked upload never had a byte.
func (r Row) isEmpty() bool { return r.State == Parked && r.Received == 0 && r.Held == 0 }

// hasNoPlace refuses what only an upload with a place of its own can have done to it: to be
// completed, or to get another place.
func (r Row) hasNoPlace() error {
	return drive.Wrap(errors.New("the upload is a partial one"), drive.WrongState, "state", r.State.Public())
}

// Ref is the row's name at the staging.
func (r Row) Ref() blob.Ref {
	return blob.Ref{ID: r.ID, Begun: r.Created, PartSize: r.PartSize, Size: r.Size}
}

// Parts returns how many parts the file has; MaxParts while its size is not known.
func (r Row) Parts() int {
	if r.Size == blob.UnknownSize {
		return MaxParts
	}
	return int((r.Size + r.PartSize - 1) / r.PartSize)
}

// MaxSize is the largest file that fits into the parts.
func (r Row) MaxSize() drive.ByteSize { return min(r.PartSize*MaxParts, drive.MaxFileSize) }

// partLength returns the exact size of part n, or the largest it may have while the file's size is
// not known.
func (r Row) partLength(n int) drive.ByteSize {
	if r.Size == blob.UnknownSize {
		return r.PartSize
	}
	return min(r.PartSize, r.Size-drive.ByteSize(n)*r.PartSize)
}

// PartSizeFor returns the part size of a file: the configured one, larger where the file would need
// more than MaxParts.
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

const rowColumns = `id, account_id, user_id, parent_id, name, conflict, base, size, part_size, mtime, mime, fingerprint, digests,
	state, gen, reserved, held, received, resumes, challenge, node_id, reason, created_at, active_at, ended_at`

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

func nullSize(size drive.ByteSize) any {
	if size == blob.UnknownSize {
		return nil
	}
	return size
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own plain types come here
	}
	return string(b)
}

func (r Row) challengeText() string {
	if r.Challenge == nil {
		return ""
	}
	return jsonText(r.Challenge)
}

func findRow(ctx context.Context, q sqldb.Querier, id drive.UploadID) (Row, error) {
	var r Row
	if err := scanRow(&r, q.QueryRow(ctx, `SELECT `+rowColumns+` FROM uploads WHERE id = ?`, id).Scan); err != nil {
		return Row{}, fmt.Errorf("find upload %s: %w", id, err)
	}
	return r, nil
}

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

// change is every arrow of the diagram: it writes next over the row that has was's id, state and
// gen, with gen+1, and returns what it wrote. errLost when the row has moved on; the ledger move
// belongs into the same transaction.
func change(ctx context.Context, tx *sqldb.Tx, was, next Row) (Row, error) {
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
		return Row{}, errLost
	}
	return next, nil
}
