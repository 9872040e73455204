package client

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
)

// Outcomes of a step of an upload, besides failures.
var (
	errUploadGone = errors.New("the upload is gone from the server")
	errUploadDone = errors.New("the upload is done") // multipart.node is set
	errSealing    = errors.New("the upload is being sealed")
)

// maxRounds bounds retries after unexplained failures, such as uploads that vanish, or digest
// mismatches although every part matches.
const maxRounds = 5

// putParts sends a file as an upload in parts. It begins a new upload if the server lost the
// previous one, up to maxRounds times. After that it fails.
func (t *transfer) putParts(ctx context.Context) (Result, error) {
	for round := 1; ; round++ {
		res, err := t.upload(ctx)
		if !errors.Is(err, errUploadGone) {
			return res, err
		}
		if round == maxRounds {
			return res, fmt.Errorf("%w, %d times in a row", err, round)
		}
		t.meter.setBytes(0)
	}
}

// multipart is one upload in parts of a transfer.
type multipart struct {
	*transfer
	upload    Upload
	claimed   bool // the digest has been sent to the server
	tracker   *partTracker
	parts     map[int64]Part // checksums of the unverified parts
	moved     atomic.Int64   // bytes
	duplicate bool           // dest holds the same content already

	node      atomic.Pointer[Node] // set when the upload is done
	claimSent atomic.Bool          // a claim was sent, or begin linked the content
	allSent   bool                 // all parts were sent, so that a done upload is not an instant one
}

// upload sends the file as one upload, from its begin to its end; after a failure that a new look
// at the server may resolve, it continues, up to maxRounds times. It returns errUploadGone if the
// server has no such upload any more; the caller then begins a new one.
func (t *transfer) upload(ctx context.Context) (Result, error) {
	f := &multipart{transfer: t}
	err := f.begin(ctx)
	if err == nil {
		err = f.sendAll(ctx)
	}
	for round := 1; ; round++ {
		if err == nil || errors.Is(err, errSealing) {
			err = f.seal(ctx)
		}
		if err != nil && !errors.Is(err, errUploadDone) && round < maxRounds {
			err = f.recover(ctx, err)
		}
		switch {
		case errors.Is(err, errUploadDone):
			return f.result(ctx)
		case err != nil:
			return Result{}, f.explainError(ctx, err)
		}
		err = f.sendAll(ctx)
	}
}

// begin creates the upload or finds an open one by its fingerprint. It returns errUploadDone or
// errSealing if no parts need to be sent.
func (m *multipart) begin(ctx context.Context) error {
	print, err := fingerprint(m.src, m.file)
	if err != nil {
		return err
	}
	if m.src.Size <= m.u.hashFirst {
		if err := m.hash(); err != nil {
			return err
		}
	}
	size, mtime := m.src.Size, m.src.Mtime.UTC()
	b := NewUpload{
		Path: m.dest, Size: &size, Fingerprint: print, Conflict: m.opt.Conflict, Parents: m.opt.Parents,
		PartSize: m.u.partSize(size), MIME: m.opt.MIME, Digests: m.digests(),
	}
	if !mtime.IsZero() {
		b.Mtime = &mtime
	}
	m.meter.setState(StateSending)
	up, found, err := m.u.c.begin(ctx, b, m.budget)
	if err != nil {
		return err
	}
	if found && up.State != Done { // the reply may be stale: from a retry, or another client's upload
		offer := up.Challenge
		if up, err = m.u.c.upload(ctx, up.ID, m.budget); IsCode(err, CodeNotFound, CodeGone) {
			return errUploadGone
		} else if err != nil {
			return err
		}
		up.Challenge = orDefault(up.Challenge, offer)
		if len(up.Received) == 0 && up.PartSize > b.PartSize && up.Challenge == nil { // begun with larger parts, which a proxy may refuse
			if err := m.u.c.CancelUpload(ctx, up.ID); err != nil {
				return err
			}
			return errUploadGone
		}
	}
	m.upload, m.claimed = up, m.digest != "" && !found
	if err := m.applyConflict(ctx); err != nil {
		return err
	}
	if err := m.handleReply(ctx, up); err != nil {
		return err
	}
	return m.loadParts(ctx)
}

// applyConflict sets this run's conflict policy on an upload that an earlier run began with another
// one. Replace then refers to the version that exists now. With an unchanged policy nothing is
// sent, so that a version added since the earlier run is not overwritten unseen. It fails with
// errUploadGone if the upload no longer exists.
func (m *multipart) applyConflict(ctx context.Context) error {
	if m.upload.Conflict == m.opt.Conflict || m.upload.State != Active && m.upload.State != Parked && m.upload.State != Verifying {
		return nil
	}
	up, err := m.u.c.amend(ctx, m.upload.ID, UploadChange{Conflict: m.opt.Conflict}, m.budget)
	switch {
	case IsCode(err, CodeNotFound, CodeGone):
		return errUploadGone
	case IsCode(err, CodeParentGone): // seal reports it too, and recreates the folder
		return nil
	case err != nil:
		return err
	}
	m.upload.Conflict = up.Conflict
	return nil
}

// digests returns the declared BLAKE3 digest of the file for a request; nil if it is not known yet.
func (m *multipart) digests() Digests {
	if m.digest == "" {
		return nil
	}
	return Digests{blake3Name: m.digest}
}

// handleReply answers the challenge in a reply to begin or a claim, if there is one. It returns nil
// if parts must be sent, also after a refused proof, or else errUploadDone, errSealing,
// errUploadGone, or the error of a request.
func (m *multipart) handleReply(ctx context.Context, up Upload) error {
	if up.Challenge != nil && up.State != Done {
		m.meter.setState(StateVerifying)
		answer, err := keyedAnswer(up.Challenge, m.file, m.src.Size)
		if err != nil {
			return err
		}
		proved, err := m.u.c.prove(ctx, m.upload.ID, blake3Name, answer, m.budget)
		switch {
		case err == nil && proved.State == Done:
			up.State, up.Node = Done, proved.Node
		case isProblem(err): // a refused proof means sending the parts; but an earlier attempt with a lost reply may have succeeded
			if now, err := m.u.c.upload(ctx, m.upload.ID, m.budget); err == nil {
				up.State, up.Node = now.State, now.Node
			}
		case err != nil:
			return err
		}
		m.meter.setState(StateSending)
	}
	if up.State == Done {
		m.claimSent.Store(true)
	}
	return m.checkState(up)
}

// checkState maps an upload's state to an outcome: nil to continue sending, errUploadDone,
// errSealing, or errUploadGone. It fails for an unknown state, and if the finished file has been
// deleted.
func (m *multipart) checkState(up Upload) error {
	switch up.State {
	case Done:
		if up.Node == nil {
			return fmt.Errorf("%s was sent, but it has been deleted since", m.dest)
		}
		m.node.Store(up.Node)
		return errUploadDone
	case Sealing:
		return errSealing
	case Gone:
		return errUploadGone
	case Active, Parked, Verifying: // parts sent while verifying are refused once the upload is done
		return nil
	}
	return fmt.Errorf("upload %s is in state %q, which this client does not know", up.ID, up.State)
}

// refresh fetches the upload's state after an unexpected reply. It returns nil if sending can
// continue, errUploadDone, errSealing, errUploadGone if the upload no longer exists, or the error
// of the request.
func (m *multipart) refresh(ctx context.Context) error {
	up, err := m.u.c.upload(ctx, m.upload.ID, m.budget)
	if IsCode(err, CodeNotFound, CodeGone) {
		return errUploadGone
	}
	if err != nil {
		return err
	}
	return m.checkState(up)
}

// loadParts builds the part tracker from the server's list of parts. Received parts without a
// checksum are sent again; the server compares them. It fails if the server names another size, or
// with errUploadGone.
func (m *multipart) loadParts(ctx context.Context) error {
	if m.upload.PartSize < 1 || m.upload.Size != nil && *m.upload.Size != m.src.Size {
		return fmt.Errorf("upload %s: the server answered with another size", m.upload.ID)
	}
	n := (m.src.Size + m.upload.PartSize - 1) / m.upload.PartSize
	m.tracker = newPartTracker(n, m.upload.Received)
	m.parts = make(map[int64]Part)
	if len(m.upload.Received) == 0 {
		return nil
	}
	if err := m.listParts(ctx); err != nil {
		return err
	}
	var have int64
	for i := range n {
		if !m.tracker.isUnverified(i) {
			continue
		}
		if _, known := m.parts[i]; !known {
			m.tracker.markMissing(i)
			continue
		}
		_, size := m.span(i)
		have += size
	}
	m.meter.setBytes(have)
	return nil
}

// listParts loads the checksums of the parts that the server has into m.parts. It fails with
// errUploadGone if the upload no longer exists.
func (m *multipart) listParts(ctx context.Context) error {
	fetch := func(p Page) (List[Part], error) { return m.u.c.parts(ctx, m.upload.ID, p, m.budget) }
	for part, err := range all(fetch) {
		if IsCode(err, CodeNotFound, CodeGone) {
			return errUploadGone
		}
		if err != nil {
			return err
		}
		m.parts[int64(part.N)] = part
	}
	return nil
}

// span returns the offset and length of part n in bytes; the last one may be shorter.
func (m *multipart) span(n int64) (offset, length int64) {
	offset = n * m.upload.PartSize
	return offset, min(m.upload.PartSize, m.src.Size-offset)
}

// noteReplaced is the Result.Note of a file that arrived and was then replaced.
const noteReplaced = "replaced since by another upload"

// errOtherContent reports that dest holds other content, and that the sent content is not among its
// versions.
var errOtherContent = errors.New("another upload has put something else there")

// result compares the finished node with the local file and returns the transfer's result. Other
// content at dest is an error, unless the sent content is an older version there.
func (m *multipart) result(ctx context.Context) (Result, error) {
	n := *m.node.Load()
	res := Result{Node: n, State: StateSent, Moved: m.moved.Load()}
	if got := n.Digests[blake3Name]; n.Size != m.src.Size || got != "" && m.digest != "" && got != m.digest {
		had, err := m.isOldVersion(ctx, n)
		if err == nil && !had {
			err = errOtherContent
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: the server holds %d bytes with digest %s, not %s: %w", n.Path, n.Size, got, m.digest, err)
		}
		res.Note = noteReplaced
	}
	switch {
	case m.claimSent.Load() && !m.allSent:
		res.State = StateInstant
	case m.duplicate:
		res.State, res.Note = StateSkipped, "same content"
	}
	return res, nil
}

// isOldVersion reports whether the sent content is among the recent versions of n (the first page),
// but not the current one. It is false if the digest is unknown.
func (m *multipart) isOldVersion(ctx context.Context, n Node) (bool, error) {
	versions, err := m.u.c.Versions(ctx, n.ID, Page{})
	return slices.ContainsFunc(versions.Items, func(v Version) bool {
		return !v.Current && m.digest != "" && v.Digests[blake3Name] == m.digest
	}), err
}

// explainError returns err with a text that says what became of the bytes sent; other errors are
// returned unchanged. If the local file changed, it cancels the upload. If the remote file has a
// new version and the caller wants to replace it, it tells the server to replace that version when
// the upload is sent again.
func (m *multipart) explainError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrChanged) && m.upload.ID != "":
		_ = m.u.c.CancelUpload(ctx, m.upload.ID) // the parts received match no content; if this fails, the server reclaims them
		return err
	case IsCode(err, CodeVersionChanged):
		if m.upload.ID != "" && m.opt.Conflict == Replace { // accept the new version as the one to replace
			_, _ = m.u.c.AmendUpload(ctx, m.upload.ID, UploadChange{Conflict: Replace}) // if this fails, the next run reports the conflict again
		}
		return fmt.Errorf("%w: somebody else replaced %s meanwhile and nothing was overwritten; what was sent is kept: "+
			"put it again to replace what is there now, or with --conflict rename to keep both", err, path.Base(m.dest))
	case IsCode(err, CodeQuota, CodeDiskFull) && m.upload.ID != "":
		return fmt.Errorf("%w: what was sent is kept, put it again when there is room", err)
	}
	return err
}

// isProblem reports whether err is or wraps a Problem, that is, an answer of SmartDrive itself.
func isProblem(err error) bool { return CodeOf(err) != "" }
