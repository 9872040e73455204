package export

import (
	"context"
	"io"

	"smartdrive/internal/base/drive"
)

// A place is where a job writes its zip. Its parts are numbered from 0, all but the last of them
// partSize long.
type place interface {
	// open finds what is there of the zip, or begins it.
	open(ctx context.Context) (there, error)
	put(ctx context.Context, n int, size drive.ByteSize, body io.Reader) error
	// complete publishes the zip once all parts are there; again is not an error. Not done: it
	// still takes a while.
	complete(ctx context.Context) (done bool, err error)
	// abandon gives up what is there of a zip that will not be finished.
	abandon(ctx context.Context) error
}

// there is what a place has of a zip.
type there struct {
	done     bool
	partSize drive.ByteSize
	has      func(n int) bool
}

// Drive is the uploads of the installation, as a job needs them.
type Drive interface {
	// Begin begins the upload of a file, or finds the open one that was begun under the same mark.
	Begin(ctx context.Context, who drive.Who, f DriveFile) (drive.UploadID, error)
	// Look returns how the upload stands. Gone: it was cancelled or abandoned, and the job begins
	// again.
	Look(ctx context.Context, who drive.Who, id drive.UploadID) (Upload, error)
	// Put sends a part.
	Put(ctx context.Context, who drive.Who, id drive.UploadID, n int, size drive.ByteSize, body io.Reader) error
	// Complete makes a file of it; again is not an error. A zero node: it still takes a while.
	Complete(ctx context.Context, who drive.Who, id drive.UploadID) (drive.NodeID, error)
	// Cancel ends one that is not complete, with all that has come of it. Gone or NotFound: it has
	// ended.
	Cancel(ctx context.Context, who drive.Who, id drive.UploadID) error
}

// DriveFile is a file that shall be made.
type DriveFile struct {
	Folder drive.NodeID
	Name   drive.Name
	Size   drive.ByteSize
	Mark   string // of the job
}

// Upload is how an upload stands.
type Upload struct {
	PartSize drive.ByteSize
	Has      func(n int) bool
	Done     bool
	Node     drive.NodeID // of one that is done; zero: it was deleted since
}

// inDrive is a folder of the drive as a place.
type inDrive struct {
	*courier
	who drive.Who
	j   *Job
	d   Download
}

// open finds the job's upload, or begins it. Its id is written down before a byte is sent; one that
// was begun and not written down is found by its mark.
func (p inDrive) open(ctx context.Context) (there, error) {
	if !p.j.upload.IsZero() {
		at, err := p.look(ctx)
		if !drive.IsKind(err, drive.Gone, drive.NotFound) {
			return at, err
		}
	}
	id, err := p.opt.Drive.Begin(ctx, p.who, DriveFile{
		Folder: p.j.Folder, Name: drive.Name(p.j.Name), Size: p.d.Size, Mark: "export-job/" + p.j.ID.String(),
	})
	if err != nil {
		return there{}, err
	}
	p.halt("begun")
	if err := p.update(ctx, p.j, "upload_id = ?, sent = 0", id); err != nil {
		return there{}, err
	}
	p.j.upload = id
	return p.look(ctx)
}

func (p inDrive) look(ctx context.Context) (there, error) {
	up, err := p.opt.Drive.Look(ctx, p.who, p.j.upload)
	if err == nil && up.Done {
		p.j.node = up.Node
	}
	return there{done: up.Done, partSize: up.PartSize, has: up.Has}, err
}

func (p inDrive) put(ctx context.Context, n int, size drive.ByteSize, body io.Reader) error {
	return p.opt.Drive.Put(ctx, p.who, p.j.upload, n, size, body)
}

func (p inDrive) complete(ctx context.Context) (bool, error) {
	node, err := p.opt.Drive.Complete(ctx, p.who, p.j.upload)
	p.j.node = node
	return !node.IsZero(), err
}

func (p inDrive) abandon(ctx context.Context) error {
	if p.j.upload.IsZero() {
		return nil
	}
	err := p.opt.Drive.Cancel(ctx, p.who, p.j.upload)
	if drive.IsKind(err, drive.Gone, drive.NotFound, drive.WrongState) {
		return nil
	}
	return err
}
