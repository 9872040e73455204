package app

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/export/fetch"
	"example.org/smartdrive/internal/usecase/upload"
)

// composeExports constructs the exports. It fails if the bucket for exports is misconfigured.
func (a *App) composeExports(ctx context.Context) error {
	p, cfg, info := a.platform, a.platform.cfg, a.platform.member.Info()
	opt := export.Options{
		DB: p.db, Events: a.events, Tree: a.tree, Store: p.storage.store, Secret: a.vault.LinkSecret, Users: a.users,
		Instance: strconv.FormatInt(p.Generation, 10), Machine: info.Host, Generation: p.Generation,
		MaxEntries: cfg.ExportMaxEntries, MaxSize: cfg.ExportMaxSize, Lifetime: cfg.ExportKeep, LateAfter: cfg.ExportLate, MinFree: atLeastOne(cfg.ExportMinFree), Drive: uploads{a.uploads}, Documents: documents{a.intake},
		Fetch:   fetch.Options{Hosts: func() []string { return a.platform.live.Now().ExportHosts }, Private: cfg.ExportAddresses == "any", MaxSize: cfg.ExportMaxDocument},
		Content: p.content(), RetentionClock: p.kept.Now, CheckInstance: p.mode.fence,
		Log: p.log,
	}
	if cfg.ExportBucket != nil {
		bucket, err := p.openExportBucket(ctx)
		if err != nil {
			return err
		}
		opt.Bucket = bucket
	}
	a.exports = export.New(opt)
	return nil
}

// openExportBucket opens the bucket for zips. A misconfigured bucket fails the start. An
// unreachable one is only logged, and zips wait for it.
func (p *platform) openExportBucket(ctx context.Context) (*s3.Objects, error) {
	o := p.cfg.ExportBucket
	bucket, err := s3.New(s3.Options{
		Endpoint: o.Endpoint, Bucket: o.Bucket, Prefix: o.Prefix, Region: o.Region, Insecure: o.Insecure,
		AccessKey: o.Key, SecretKey: string(o.Secret), SessionToken: string(o.Session), SpoolDir: p.cfg.Data, Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	if err := bucket.Check(ctx); drive.IsKind(err, drive.Unavailable) {
		p.log.WarnContext(ctx, "the bucket of exports does not answer; zips for it wait", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("--export-bucket: %w", err)
	}
	return bucket.Objects(), nil
}

// uploads adapts upload sessions to export.DriveUploads, for writing zips into a drive.
type uploads struct{ *upload.Sessions }

var _ export.DriveUploads = uploads{}

// Begin starts the upload of a file, or returns the open upload with the same idempotency key. It
// fails with the errors of beginning an upload, such as drive.Quota.
func (u uploads) Begin(ctx context.Context, who drive.Who, f export.DriveFile) (drive.UploadID, error) {
	v, err := u.Sessions.Begin(ctx, who, upload.Begin{
		Parent: f.Folder, Name: f.Name, Size: f.Size, Fingerprint: f.IdempotencyKey, Conflict: drive.ConflictRename, Mime: "application/zip",
	}, nil)
	return v.ID, err
}

// State returns the part size, the received parts and, once it is done, the node of an upload. It
// fails with drive.NotFound or drive.Gone.
func (u uploads) State(ctx context.Context, who drive.Who, id drive.UploadID) (export.Upload, error) {
	v, err := u.Get(ctx, who, id)
	if err != nil {
		return export.Upload{}, err
	}
	up := export.Upload{PartSize: v.PartSize, Done: v.State == upload.Done.Public(), Has: func(n int) bool {
		for _, r := range v.Received {
			if r[0] <= n && n <= r[1] {
				return true
			}
		}
		return false
	}}
	if v.Node != nil {
		up.Node = v.Node.ID
	}
	return up, nil
}

// Put stores part n, numbered from 0, of exactly size bytes. It may be repeated with the same
// bytes. It fails as upload.Sessions.Put does.
func (u uploads) Put(ctx context.Context, who drive.Who, id drive.UploadID, n int, size drive.ByteSize, body io.Reader) error {
	return u.Sessions.Put(ctx, who, id, upload.PutPart{N: n, Size: size}, body)
}

// Cancel ends the upload, deletes its bytes and releases its reservation. It fails as
// upload.Sessions.Cancel does.
func (u uploads) Cancel(ctx context.Context, who drive.Who, id drive.UploadID) error {
	return u.Sessions.Cancel(ctx, who, id)
}

// Complete makes the upload a file and returns its node; the zero id with a nil error while the
// file is still being assembled, in which case the caller asks again.
func (u uploads) Complete(ctx context.Context, who drive.Who, id drive.UploadID) (drive.NodeID, error) {
	v, _, err := u.Sessions.Complete(ctx, who, id, upload.Complete{})
	if err != nil || v.Node == nil {
		return drive.NodeID{}, err
	}
	return v.Node.ID, nil
}
