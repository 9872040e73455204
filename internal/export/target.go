package export

import (
	"context"
	"io"

	"example.org/smartdrive/internal/base/drive"
)

// target is the destination of a job's zip. Parts are numbered from 0; all but the last have
// partSize bytes.
type target interface {
	// open finds the upload of the zip, or begins it, and returns its state.
	open(ctx context.Context) (targetState, error)
	// put stores part n, counted from 0, whose size bytes it reads from body. It is called after
	// open, for parts that the target lacks, and may repeat a part.
	put(ctx context.Context, n int, size drive.ByteSize, body io.Reader) error
	// complete publishes the zip after all parts are stored. It is idempotent. If done is false,
	// publication is still running and the caller calls again later.
	complete(ctx context.Context) (done bool, err error)
	// abandon discards the parts of a zip that will not be finished.
	abandon(ctx context.Context) error
}

// targetState is the state of a zip at its target. If done, the zip is complete there and the other
// fields may be unset.
type targetState struct {
	done     bool
	partSize drive.ByteSize
	has      func(n int) bool
}

// DriveUploads is the upload service of the installation, through which jobs write zips into the
// drive. All methods act with the rights of who.
type DriveUploads interface {
	// Begin starts the upload of a file, or returns the open upload with the same IdempotencyKey.
	Begin(ctx context.Context, who drive.Who, f DriveFile) (drive.UploadID, error)
	// State returns the state of an upload. It returns Gone if the upload was cancelled or
	// abandoned; the job then starts over.
	State(ctx context.Context, who drive.Who, id drive.UploadID) (Upload, error)
	// Put stores part n, counted from 0, of an upload and returns nil once it is durable. It
	// repeats no part by itself.
	Put(ctx context.Context, who drive.Who, id drive.UploadID, n int, size drive.ByteSize, body io.Reader) error
	// Complete creates the file and returns its node. It is idempotent. If the file is still
	// being processed, it returns the zero id.
	Complete(ctx context.Context, who drive.Who, id drive.UploadID) (drive.NodeID, error)
	// Cancel discards an unfinished upload and its parts. Gone or NotFound: the upload has ended
	// already.
	Cancel(ctx context.Context, who drive.Who, id drive.UploadID) error
}

// DriveFile describes the file that an upload creates.
type DriveFile struct {
	Folder         drive.NodeID
	Name           drive.Name
	Size           drive.ByteSize
	IdempotencyKey string // idempotency key of the job
}

// Upload is the state of an upload.
type Upload struct {
	PartSize drive.ByteSize
	Has      func(n int) bool // reports whether part n, from 0, is stored
	Done     bool
	Node     drive.NodeID // file of a done upload; zero: deleted since
}

// driveTarget is the target that writes the zip as an upload into a folder of the drive.
type driveTarget struct {
	*jobRunner
	who drive.Who
	j   *Job
	d   Download
}

// open finds or begins the upload. It stores the upload id in the job before any part is sent. If a
// crash prevents that, Begin finds the upload by its IdempotencyKey.
func (t driveTarget) open(ctx context.Context) (targetState, error) {
	if !t.j.upload.IsZero() {
		at, err := t.state(ctx)
		if !drive.IsKind(err, drive.Gone, drive.NotFound) {
			return at, err
		}
	}
	id, err := t.opt.Drive.Begin(ctx, t.who, DriveFile{
		Folder: t.j.Folder, Name: drive.Name(t.j.Name), Size: t.d.Size, IdempotencyKey: "export-job/" + t.j.ID.String(),
	})
	if err != nil {
		return targetState{}, err
	}
	t.testHook("begun")
	if err := t.update(ctx, t.j, "upload_id = ?, sent = 0", id); err != nil {
		return targetState{}, err
	}
	t.j.upload = id
	return t.state(ctx)
}

// state returns the state of the job's upload. If the upload is done, it sets the job's node; zero
// if the file was deleted since. It returns Gone if the upload was cancelled or abandoned; open
// then begins a new one.
func (t driveTarget) state(ctx context.Context) (targetState, error) {
	up, err := t.opt.Drive.State(ctx, t.who, t.j.upload)
	if err == nil && up.Done {
		t.j.node = up.Node
	}
	return targetState{done: up.Done, partSize: up.PartSize, has: up.Has}, err
}

// put sends part n, of size bytes, to the upload of the job. It returns the error of Drive.Put.
func (t driveTarget) put(ctx context.Context, n int, size drive.ByteSize, body io.Reader) error {
	return t.opt.Drive.Put(ctx, t.who, t.j.upload, n, size, body)
}

// complete completes the upload of the job and sets the job's node. It returns false and no error
// while the file is still being sealed.
func (t driveTarget) complete(ctx context.Context) (bool, error) {
	node, err := t.opt.Drive.Complete(ctx, t.who, t.j.upload)
	t.j.node = node
	return !node.IsZero(), err
}

// abandon cancels the upload of the job. A job without an upload and an upload that has ended
// already are no error.
func (t driveTarget) abandon(ctx context.Context) error {
	if t.j.upload.IsZero() {
		return nil
	}
	err := t.opt.Drive.Cancel(ctx, t.who, t.j.upload)
	if drive.IsKind(err, drive.Gone, drive.NotFound, drive.WrongState) {
		return nil
	}
	return err
}
