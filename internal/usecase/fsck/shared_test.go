package fsck_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// sharedRig returns two instances with a shared staging, and the auditor of the second.
func sharedRig(t *testing.T) (sh *uploadtest.Shared, a, b *uploadtest.Site, auditor *fsck.Checker) {
	t.Helper()
	sh = uploadtest.NewShared()
	dir := t.TempDir()
	a = uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh})
	b = uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh})
	auditor = fsck.New(fsck.Dependencies{
		DB: b.DB, Staging: sh, Store: uploadtest.SharedStore{Shared: sh}, Content: b.Content, Timers: engine{sh.Queue}, IsWriting: b.IsWriting,
		Generation:  generation,
		Ended:       func(context.Context, int64) (bool, error) { return false, nil },
		OldestStart: func(context.Context) (drive.Time, error) { return drive.TimeOf(time.Now()), nil },
	}, fsck.Options{
		Now: sh.Clock.Now, Log: slog.New(slog.DiscardHandler), Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	return sh, a, b, auditor
}

func findings(t *testing.T, auditor *fsck.Checker) (all []string) {
	t.Helper()
	report, err := auditor.Check(t.Context(), fsck.Scope{Repair: true, Deep: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		all = append(all, fmt.Sprint(f))
	}
	return all
}

// A check leaves alone what another instance works on, in every state, also if the journals were
// lost.
func TestCheckBesideAnotherInstance(t *testing.T) {
	t.Parallel()
	sh, a, b, auditor := sharedRig(t)
	who, data := a.Account(t, 0), random(3<<20)
	parked := a.Start(t, who, "/parked", drive.ByteSize(len(data)))
	if err := a.Send(t, who, parked, 0, data); err != nil {
		t.Fatal(err)
	}
	a.AdvanceAndFire(t, time.Minute)
	done, active, failed := a.Start(t, who, "/done", 3<<20), a.Start(t, who, "/active", 3<<20), a.Start(t, who, "/failed", 3<<20)
	for _, v := range []upload.View{done, active, failed} {
		a.SendAll(t, who, v, data)
	}
	if _, _, err := a.Complete(t.Context(), who, done.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	wrong := digest.Set{digest.SHA256: make([]byte, 32)} // leaves the content in place and the upload active
	if _, _, err := a.Complete(t.Context(), who, failed.ID, upload.Complete{Digests: wrong}); !drive.IsKind(err, drive.DigestMismatch) {
		t.Fatal(err)
	}
	small := upload.PutFile{Path: uploadtest.Path(t, "/small"), Size: 3}
	if _, _, err := a.PutFile(t.Context(), who, small, bytes.NewReader([]byte("abc"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if found := findings(t, auditor); len(found) > 0 {
			t.Errorf("not clean: %v", found)
		}
		sh.ForgetJournals()
	}
	for _, v := range []upload.View{active, parked} {
		b.SendAll(t, who, v, data)
		if _, _, err := b.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil {
			t.Errorf("after the check: %v", err)
		}
	}
}

// Bytes without a row are kept; an empty staging is deleted once no live process can have begun it.
func TestStagedStraysOfASharedStaging(t *testing.T) {
	t.Parallel()
	sh, _, _, auditor := sharedRig(t)
	old := func(i byte) blob.Ref {
		id := drive.NewID[drive.UploadID]()
		clear(id[:6])
		id[15] = i
		return blob.Ref{ID: id, PartSize: drive.MiB, Size: 10}
	}
	empty, few := old(1), old(2)
	young := blob.Ref{ID: drive.NewID[drive.UploadID](), PartSize: drive.MiB, Size: 10}
	for _, ref := range []blob.Ref{empty, few, young} {
		if err := sh.Create(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	body := blob.NewBody(bytes.NewReader(make([]byte, 10)), blob.BodyOptions{Size: 10})
	if _, err := sh.Write(t.Context(), few, blob.Write{Gen: 1, Size: 10}, body); err != nil {
		t.Fatal(err)
	}
	if found := findings(t, auditor); len(found) != 1 {
		t.Errorf("%v", found)
	}
	if kept := sh.Quarantined(); len(kept) != 1 || kept[0].Name != few.ID.String() {
		t.Errorf("in quarantine: %v", kept)
	}
	left := map[string]bool{}
	err := sh.ListStaged(t.Context(), func(s blob.Entry) error { left[s.Name] = true; return nil })
	if err != nil || len(left) != 1 || !left[young.ID.String()] {
		t.Errorf("left %v, %v", left, err)
	}
}
