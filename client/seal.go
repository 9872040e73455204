package client

import (
	"context"
	"errors"
	"fmt"
	"path"
)

// seal completes the upload and waits until the file is published. It sends the digest, so that the
// server refuses content that differs from the local file. It returns errUploadDone on success; the
// caller passes any other error to recover.
func (m *multipart) seal(ctx context.Context) error {
	if err := m.src.check(); err != nil {
		return err
	}
	if m.digest == "" { // the upload was found sealing, so the file has not been read yet
		if err := m.hash(); err != nil {
			return err
		}
	}
	m.meter.setState(StateVerifying)
	m.allSent = true
	a := UploadChange{Digests: m.digests()}
	if m.upload.Conflict != m.opt.Conflict { // found sealing, with an earlier run's conflict policy
		a.Conflict = m.opt.Conflict
	}
	pause := m.u.c.opt.MinBackoff
	for unfit := 0; ; pause = min(2*pause, m.u.c.opt.MaxBackoff) {
		up, err := m.u.c.complete(ctx, m.upload.ID, a, m.budget)
		switch {
		case IsCode(err, CodeState, CodeNotFound, CodeGone):
			err = m.refresh(ctx)
		case err == nil:
			err = m.checkState(up)
		}
		switch unfit++; {
		case errors.Is(err, errSealing):
			unfit = 0
		case err != nil:
			return err
		case unfit == maxRounds: // the upload stays open and cannot be completed
			return fmt.Errorf("upload %s does not end, it stays %s", m.upload.ID, up.State)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// recover handles a refused begin or seal. nil: send the missing parts and seal again.
// errUploadDone: the content is already on the server. errUploadGone: begin a new upload. Any other
// error is final.
func (m *multipart) recover(ctx context.Context, refused error) error {
	switch CodeOf(refused) {
	case CodePartsMissing:
		return m.markLost(ctx, refused)
	case CodeDigestMismatch:
		return m.handleMismatch(ctx, refused)
	case CodeParentGone:
		return m.recreateParent(ctx, refused)
	case CodeNameTaken:
		return m.handleNameTaken(ctx, refused)
	default:
		return refused
	}
}

// markLost marks the parts that the server reports missing as to be sent. If refused does not name
// any, it returns refused.
func (m *multipart) markLost(ctx context.Context, refused error) error {
	var (
		p    *Problem
		lost []Span
	)
	if m.tracker == nil { // found sealing, so the parts were never loaded
		return m.reload(ctx)
	}
	if !errors.As(refused, &p) || !p.Arg("missing", &lost) || len(lost) == 0 {
		return refused
	}
	for _, s := range lost {
		for n := max(0, s[0]); n <= s[1] && n < int64(len(m.tracker.parts)); n++ {
			_, length := m.span(n)
			m.meter.add(-length)
			m.tracker.markMissing(n)
		}
	}
	return nil
}

// handleMismatch handles a digest mismatch: a part was damaged, or the file changed without a new
// mtime. The first time it re-reads the file and compares every part. The second time it cancels
// the upload and returns errUploadGone. The third time it fails.
func (m *multipart) handleMismatch(ctx context.Context, refused error) error {
	m.mismatches++
	m.digest = ""
	switch m.mismatches {
	case 1:
		return m.reload(ctx)
	case 2:
		if err := m.u.c.CancelUpload(ctx, m.upload.ID); err != nil {
			return err
		}
		return errUploadGone
	}
	return fmt.Errorf("%s is not what was sent, although every part was compared: is it being written to? %w", m.src.Name, refused)
}

// recreateParent creates the missing target folder, if PutOptions.Parents allows it, and redirects
// the upload to the new folder. Otherwise it returns refused.
func (m *multipart) recreateParent(ctx context.Context, refused error) error {
	if !m.opt.Parents {
		return refused
	}
	folder, _, err := m.u.c.MakeFolder(ctx, DirPath(m.dest))
	if err != nil {
		return err
	}
	up, err := m.u.c.amend(ctx, m.upload.ID, UploadChange{Parent: folder.ID, Name: path.Base(m.dest)}, m.budget)
	if err != nil {
		return err
	}
	return m.checkState(up)
}

// handleNameTaken handles a name conflict at seal. If the existing file has the same content, it
// returns errUploadDone, otherwise refused.
func (m *multipart) handleNameTaken(ctx context.Context, refused error) error {
	n, found, err := m.findSame(ctx)
	if err != nil || !found {
		return refused
	}
	return m.useExisting(ctx, n)
}

// useExisting cancels the upload because node n already has its content. It returns errUploadDone.
func (m *multipart) useExisting(ctx context.Context, n Node) error {
	if m.upload.ID != "" {
		_ = m.u.c.CancelUpload(ctx, m.upload.ID) // best effort: the server reclaims an abandoned upload
	}
	m.duplicate = true
	m.node.Store(&n)
	return errUploadDone
}

// reload fetches the upload from the server and rebuilds the part tracker. It fails with the
// outcome of checkState if the upload takes no more parts.
func (m *multipart) reload(ctx context.Context) error {
	m.allSent = false
	up, err := m.u.c.upload(ctx, m.upload.ID, m.budget)
	if err != nil {
		return err
	}
	if err := m.checkState(up); err != nil {
		return err
	}
	m.upload = up
	return m.loadParts(ctx)
}
