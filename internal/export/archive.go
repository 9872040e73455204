package export

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Archive is a selection of files by whose id they can be downloaded as a zip. It holds nothing:
// what is sent is what the files are then.
type Archive struct {
	ID        drive.ArchiveID `json:"id"`
	Name      string          `json:"name" doc:"of the directory in the zip"`
	Total     int64           `json:"total" doc:"files"`
	Failed    int64           `json:"failed" doc:"of them those that cannot be read; err.txt in the zip names them"`
	Size      drive.ByteSize  `json:"size" doc:"of the zip in bytes, as the files are now"`
	ETag      string          `json:"etag" doc:"of the zip, as the files are now"`
	ExpiresAt drive.Time      `json:"expires_at"`
}

const (
	archiveLife = 24 * time.Hour // an interrupted download goes on within it
	// MaxPicked is how many files and folders an archive may name: in JSON they are 780 KB.
	MaxPicked = 20_000

	maxArchives     = 100     // of an account; an older one makes room
	maxPickedOfUser = 100_000 // nodes that they name together: 1.6 MB
)

// ArchiveHook runs at the end of the transaction that makes an archive; see Hook.
type ArchiveHook func(ctx context.Context, tx *sqldb.Tx, a Archive) error

// selections are what was chosen for a zip that is made while it is sent.
type selections struct {
	*ground
	sender *sender
}

// CreateArchive keeps which files are meant, once it is known that they can be sent. The errors are
// those of Direct.
func (e *Exports) CreateArchive(ctx context.Context, who drive.Who, client string, in Request, hook ArchiveHook) (Archive, error) {
	return e.selections.create(ctx, who, client, in, hook)
}

func (s *selections) create(ctx context.Context, who drive.Who, client string, in Request, hook ArchiveHook) (Archive, error) {
	if len(in.Nodes) > MaxPicked {
		return Archive{}, drive.Fail(drive.TooLarge, "reason", "picked", "limit", MaxPicked, "sent", len(in.Nodes))
	}
	if in.Name != "" {
		name, err := drive.ParseName(in.Name)
		if err != nil {
			return Archive{}, err
		}
		in.Name = string(name)
	}
	d, err := s.sender.direct(ctx, who, client, in)
	if err != nil {
		return Archive{}, err
	}
	d.Close()
	now, err := s.now(ctx)
	if err != nil {
		return Archive{}, err
	}
	a := Archive{
		ID: drive.NewID[drive.ArchiveID](), Name: d.Name, Total: d.Total, Failed: d.Failed, Size: d.Size, ETag: d.ETag,
		ExpiresAt: now.Add(archiveLife),
	}
	err = s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.insert(ctx, tx, who.Account, a, in, now); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, a)
	})
	if err != nil {
		return Archive{}, fmt.Errorf("keep a selection: %w", err)
	}
	return a, nil
}

func (s *selections) insert(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, a Archive, in Request, now drive.Time) error {
	if err := s.opt.Ledger.Lock(ctx, tx, account); err != nil {
		return err
	}
	if err := makeRoom(ctx, tx, account, len(in.Nodes)); err != nil {
		return err
	}
	nodes := make([]byte, 0, 16*len(in.Nodes))
	for _, id := range in.Nodes {
		nodes = append(nodes, id[:]...)
	}
	_, err := tx.Exec(ctx, "INSERT INTO archives (id, account_id, name, folder_id, nodes, picked, etag, made_at) VALUES ("+sqldb.Marks(8)+")",
		a.ID, account, a.Name, in.Folder, nodes, len(in.Nodes), a.ETag, now)
	return err
}

// makeRoom deletes the oldest archives of an account that are more than it may have beside one of
// so many nodes.
func makeRoom(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, nodes int) error {
	type row struct {
		id     drive.ArchiveID
		picked int
	}
	rows, err := tx.Query(ctx, "SELECT id, picked FROM archives WHERE account_id = ? ORDER BY made_at DESC, id DESC", account)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.picked) })
	if err != nil {
		return err
	}
	for n, r := range all {
		if nodes += r.picked; n+1 < maxArchives && nodes <= maxPickedOfUser {
			continue
		}
		if _, err := tx.Exec(ctx, "DELETE FROM archives WHERE id = ?", r.id); err != nil {
			return err
		}
	}
	return nil
}

// OpenArchive returns the zip of an archive as its files are now, and whether they are what they
// were when it was made. One of another account is NotFound, as is one that is over. The other
// errors are those of Direct. The caller closes the download.
func (e *Exports) OpenArchive(ctx context.Context, who drive.Who, client string, id drive.ArchiveID) (d Download, same bool, err error) {
	return e.selections.open(ctx, who, client, id)
}

func (s *selections) open(ctx context.Context, who drive.Who, client string, id drive.ArchiveID) (d Download, same bool, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return Download{}, false, err
	}
	var in Request
	var nodes []byte
	var etag string
	err = s.opt.DB.For(who.Account).QueryRow(ctx, "SELECT name, folder_id, nodes, etag FROM archives WHERE id = ? AND account_id = ? AND made_at > ?",
		id, who.Account, now.Add(-archiveLife)).Scan(&in.Name, &in.Folder, &nodes, &etag)
	if err != nil {
		return Download{}, false, err
	}
	for ; len(nodes) >= 16; nodes = nodes[16:] {
		in.Nodes = append(in.Nodes, drive.NodeID(nodes[:16]))
	}
	d, err = s.sender.direct(ctx, who, client, in)
	return d, err == nil && d.ETag == etag, err
}

// purge drops those that are over.
func (s *selections) purge(ctx context.Context, now drive.Time) error {
	return s.dropOld(ctx, sqldb.Batch{Table: "archives", Key: "id", Where: "made_at < ?", Args: []any{now.Add(-archiveLife)}, Order: "made_at"})
}
