package app

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob/s3"
	"smartdrive/internal/export"
	"smartdrive/internal/export/fetch"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/upload"
)

// composeExports makes the batches of documents.
func (a *App) composeExports(ctx context.Context) error {
	g, cfg, info := a.ground, a.ground.cfg, a.ground.member.Info()
	opt := export.Options{
		DB: g.db, Events: a.events, Tree: a.tree, Store: g.bytes.store, Secret: a.vault.Links, Users: a.users,
		Instance: strconv.FormatInt(g.Generation, 10), Machine: info.Host, Generation: g.Generation,
		MaxEntries: cfg.ExportMaxEntries, MaxSize: cfg.ExportMaxSize, Life: cfg.ExportKeep, Late: cfg.ExportLate, MinFree: orLeast(cfg.ExportMinFree), Drive: uploads{a.uploads}, Documents: documents{func() *ingest.Intake { return a.intake }},
		Fetch:   fetch.Options{Hosts: func() []string { return a.ground.live.Now().ExportHosts }, Private: cfg.ExportAddresses == "any", MaxSize: cfg.ExportMaxDocument},
		Content: g.content(), Kept: g.kept.Now, Hold: g.mode.hold,
		Log: g.log,
	}
	if cfg.ExportBucket != nil {
		bucket, err := g.openExportBucket(ctx)
		if err != nil {
			return err
		}
		opt.Bucket = bucket
	}
	a.exports = export.New(opt)
	return nil
}

// putting reports whether this process is writing a file of that name just now.
func (a *App) putting(file string) bool { return a.uploads.Putting(file) || a.exports.Putting(file) }

// openExportBucket opens the bucket for zips. One that is not as it must be fails the start; one
// that does not answer does not keep the drive from serving: zips wait for it.
func (g *ground) openExportBucket(ctx context.Context) (*s3.Objects, error) {
	o := g.cfg.ExportBucket
	bucket, err := s3.New(s3.Options{
		Endpoint: o.Endpoint, Bucket: o.Bucket, Prefix: o.Prefix, Region: o.Region, Insecure: o.Insecure,
		AccessKey: o.Key, SecretKey: string(o.Secret), SessionToken: string(o.Session), SpoolDir: g.cfg.Data, Log: g.log,
	})
	if err != nil {
		return nil, err
	}
	if err := bucket.Check(ctx); drive.IsKind(err, drive.Unavailable) {
		g.log.WarnContext(ctx, "the bucket of exports does not answer; zips for it wait", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("--export-bucket: %w", err)
	}
	return bucket.Objects(), nil
}

// uploads writes zips into the drive.
type uploads struct{ *upload.Sessions }

var _ export.Drive = uploads{}

// Begin implements export.Drive. An open upload of the same mark is found again.
func (u uploads) Begin(ctx context.Context, who drive.Who, f export.DriveFile) (drive.UploadID, error) {
	v, err := u.Sessions.Begin(ctx, who, upload.Begin{
		Parent: f.Folder, Name: f.Name, Size: f.Size, Fingerprint: f.Mark, Conflict: drive.ConflictRename, Mime: "application/zip",
	}, nil)
	return v.ID, err
}

// Look implements export.Drive.
func (u uploads) Look(ctx context.Context, who drive.Who, id drive.UploadID) (export.Upload, error) {
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

// Put implements export.Drive.
func (u uploads) Put(ctx context.Context, who drive.Who, id drive.UploadID, n int, size drive.ByteSize, body io.Reader) error {
	return u.Sessions.Put(ctx, who, id, upload.PutPart{N: n, Size: size}, body)
}

// Cancel implements export.Drive.
func (u uploads) Cancel(ctx context.Context, who drive.Who, id drive.UploadID) error {
	return u.Sessions.Cancel(ctx, who, id)
}

// Complete implements export.Drive.
func (u uploads) Complete(ctx context.Context, who drive.Who, id drive.UploadID) (drive.NodeID, error) {
	v, _, err := u.Sessions.Complete(ctx, who, id, upload.Complete{})
	if err != nil || v.Node == nil {
		return drive.NodeID{}, err
	}
	return v.Node.ID, nil
}
