package blobtest

import (
	"bytes"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// RunSealer checks sealing from a Staging into its Store. open returns an empty pair for each
// subtest.
func RunSealer(t *testing.T, open func(t *testing.T) (blob.Staging, blob.Store)) {
	for name, check := range map[string]func(*testing.T, blob.Staging, blob.Store){
		"sealed parts are the content named after the upload":       sealing,
		"Seal may be redone, but not with another size":             sealAgain,
		"parts that do not make up the size are PartsMissing":       sealMissing,
		"a running Write is InProgress for Seal":                    sealRunning,
		"a sealed upload is loaded, but takes no part":              sealedStaging,
		"Seal of bytes that are nowhere is NotFound":                sealNothing,
		"an upload without bytes becomes an empty content":          sealEmpty,
		"Unseal brings the parts back and may be redone":            unsealing,
		"Unseal of what was never sealed changes nothing":           unsealUnsealed,
		"OpenStaged reads parts, holes and sealed content":          openStaged,
		"Remove after Seal keeps the content":                       removeSealed,
		"Verify of parts that nothing happened to keeps them":       verifyFine,
		"ListStaged shows every upload, QuarantineStaged takes one": listStaged,
		"what ListStaged shows may be removed meanwhile":            removeListed,
		"Adopt hands over all bytes, or changes nothing":            adopting,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			staging, store := open(t)
			check(t, staging, store)
		})
	}
}

// completeUpload returns a staged upload with all parts, and the bytes of its file.
func completeUpload(t *testing.T, s blob.Staging) (blob.Ref, []byte) {
	t.Helper()
	ref, file := newUpload(t, s)
	for _, n := range []int{2, 0, 1} {
		send(t, s, ref, 1, n, slice(ref, file, n))
	}
	return ref, file
}

// wantContent checks that the store has content want for the upload.
func wantContent(t *testing.T, store blob.Store, ref blob.Ref, want []byte) {
	t.Helper()
	o, err := store.Open(t.Context(), ref.ID.String())
	if got := read(t, o, err); !bytes.Equal(got, want) {
		t.Errorf("content of %d bytes differs from what was sent (%d bytes)", len(got), len(want))
	}
}

// sealing checks that an upload becomes readable content when it is sealed, and not before.
func sealing(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := completeUpload(t, s)
	_, err := store.Open(t.Context(), ref.ID.String())
	wantKind(t, err, drive.NotFound) // P3: not before it is sealed
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, store, ref, file)
}

// sealAgain checks that a repeated Seal succeeds, and that one with another size fails and changes
// nothing.
func sealAgain(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := completeUpload(t, s)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	if err := s.Seal(t.Context(), ref, ref.Size-1); err == nil {
		t.Error("sealed with two sizes")
	}
	wantContent(t, store, ref, file)
}

// sealMissing checks that Seal fails with PartsMissing if the size or a part does not match.
func sealMissing(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, _ := completeUpload(t, s)
	wantKind(t, s.Seal(t.Context(), ref, ref.Size+1), drive.PartsMissing)
	noError(t, s.Drop(t.Context(), ref, 1, 1))
	wantKind(t, s.Seal(t.Context(), ref, ref.Size), drive.PartsMissing)
	wantKind(t, s.Seal(t.Context(), ref, ref.Size-ref.PartSize), drive.PartsMissing)
}

// sealRunning checks that Seal fails with InProgress while a part is being written, and succeeds
// afterwards.
func sealRunning(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 0, slice(ref, file, 0))
	send(t, s, ref, 1, 2, slice(ref, file, 2))
	g, done := startWrite(t, s, ref, 1, 1, slice(ref, file, 1))
	wantKind(t, s.Seal(t.Context(), ref, ref.Size), drive.InProgress)
	g.open <- nil
	noError(t, <-done)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, store, ref, file)
}

// sealedStaging checks that a sealed upload refuses Write and Drop with WrongState, while Load,
// Fence and Create still succeed.
func sealedStaging(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := completeUpload(t, s)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantParts(t, s, ref, partOf(t, ref, 0, slice(ref, file, 0)), partOf(t, ref, 1, slice(ref, file, 1)), partOf(t, ref, 2, slice(ref, file, 2)))
	_, err := Send(t.Context(), s, ref, 9, 1, Bytes(3, ref.PartSize))
	wantKind(t, err, drive.WrongState)
	wantKind(t, s.Drop(t.Context(), ref, 9, 1), drive.WrongState)
	_, err = s.Fence(t.Context(), ref, 9)
	noError(t, err)
	noError(t, s.Create(t.Context(), ref))
	wantContent(t, store, ref, file)
}

// sealNothing checks that Seal, Unseal and OpenStaged of an upload that was never created fail with
// NotFound.
func sealNothing(t *testing.T, s blob.Staging, _ blob.Store) {
	wantKind(t, s.Seal(t.Context(), newRef(s, 5), 5), drive.NotFound)
	wantKind(t, s.Unseal(t.Context(), newRef(s, 5)), drive.NotFound)
	_, err := s.OpenStaged(t.Context(), newRef(s, 5))
	wantKind(t, err, drive.NotFound)
}

// sealEmpty checks that an upload without bytes and parts can be sealed.
func sealEmpty(t *testing.T, s blob.Staging, store blob.Store) {
	ref := newRef(s, 0)
	noError(t, s.Create(t.Context(), ref))
	noError(t, s.Seal(t.Context(), ref, 0))
	wantContent(t, store, ref, nil)
}

// unsealUnsealed: a seal may be refused before its first step, because of a name that exists.
func unsealUnsealed(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := completeUpload(t, s)
	noError(t, s.Unseal(t.Context(), ref))
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, store, ref, file)
}

// unsealing checks that a sealed upload can be opened again, repeatedly, with all its parts, and
// sealed with a changed part.
func unsealing(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := completeUpload(t, s)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	noError(t, s.Unseal(t.Context(), ref))
	noError(t, s.Unseal(t.Context(), ref))
	if _, err := store.Open(t.Context(), ref.ID.String()); !s.Caps().Shared {
		wantKind(t, err, drive.NotFound)
	}
	wantParts(t, s, ref, partOf(t, ref, 0, slice(ref, file, 0)), partOf(t, ref, 1, slice(ref, file, 1)), partOf(t, ref, 2, slice(ref, file, 2)))
	noError(t, s.Drop(t.Context(), ref, 2, 1))
	b := Bytes(6, ref.PartSize)
	send(t, s, ref, 2, 1, b)
	copy(file[ref.PartSize:], b)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, store, ref, file)
}

// openStaged checks that OpenStaged reads the bytes of an unfinished upload, zeros where parts are
// missing, and of a sealed one. A store without ReadableParts may return NotFound for the former.
func openStaged(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 2, slice(ref, file, 2))
	want := make([]byte, len(file))
	copy(want[2*ref.PartSize:], slice(ref, file, 2))
	o, err := s.OpenStaged(t.Context(), ref)
	if !s.Caps().ReadableParts && err != nil {
		wantKind(t, err, drive.NotFound)
	} else if got := read(t, o, err); !bytes.Equal(got, want) {
		t.Error("staged bytes differ")
	}
	send(t, s, ref, 1, 0, slice(ref, file, 0))
	send(t, s, ref, 1, 1, slice(ref, file, 1))
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	o, err = s.OpenStaged(t.Context(), ref)
	if got := read(t, o, err); !bytes.Equal(got, file) {
		t.Error("sealed bytes differ")
	}
}

// removeSealed checks that Remove after Seal keeps the content and ends the upload, and that a
// repeated Seal still succeeds.
func removeSealed(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := completeUpload(t, s)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	noError(t, s.Remove(t.Context(), ref))
	wantContent(t, store, ref, file)
	noError(t, s.Seal(t.Context(), ref, ref.Size)) // a repeated seal still finds its work done
	_, err := s.Load(t.Context(), ref)
	wantKind(t, err, drive.NotFound)
}

// verifyFine checks that Verify of an intact upload returns all parts and no suspicion.
func verifyFine(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, _ := completeUpload(t, s)
	got, err := s.Verify(t.Context(), ref, 1)
	noError(t, err)
	if len(got.Parts) != 3 || got.Suspect {
		t.Errorf("%d parts, suspect %v", len(got.Parts), got.Suspect)
	}
}

// listStaged checks that ListStaged lists each upload once, and that QuarantineStaged, which may be
// repeated, removes only the given one.
func listStaged(t *testing.T, s blob.Staging, _ blob.Store) {
	first, _ := completeUpload(t, s)
	second, _ := newUpload(t, s)
	names := map[string]blob.Entry{}
	noError(t, s.ListStaged(t.Context(), func(stray blob.Entry) error {
		names[stray.Name] = stray
		return nil
	}))
	if len(names) != 2 || names[first.ID.String()].Size < first.Size || names[second.ID.String()].Path == "" {
		t.Fatalf("listed %v", names)
	}
	noError(t, s.QuarantineStaged(t.Context(), names[first.ID.String()]))
	noError(t, s.QuarantineStaged(t.Context(), names[first.ID.String()]))
	_, err := s.OpenStaged(t.Context(), first)
	wantKind(t, err, drive.NotFound)
	wantParts(t, s, second)
}

// removeListed: an auditor removes uploads while it lists them; the directories of a day may
// disappear with the last one.
func removeListed(t *testing.T, s blob.Staging, _ blob.Store) {
	refs := map[string]blob.Ref{}
	for range 3 {
		ref, _ := newUpload(t, s)
		refs[ref.ID.String()] = ref
	}
	noError(t, s.ListStaged(t.Context(), func(stray blob.Entry) error { return s.Remove(t.Context(), refs[stray.Name]) }))
	noError(t, s.ListStaged(t.Context(), func(stray blob.Entry) error {
		t.Errorf("%s was removed and is listed", stray.Path)
		return nil
	}))
}

// adopting checks both results of Adopt: after true the new upload has the parts, without sessions,
// and after false the old one. It seals whichever has the bytes.
func adopting(t *testing.T, s blob.Staging, store blob.Store) {
	from, file := completeUpload(t, s)
	_, err := s.Fence(t.Context(), from, 1) // durable
	noError(t, err)
	ref := newRef(s, from.Size)
	noError(t, s.Create(t.Context(), ref))
	adopted, err := s.Adopt(t.Context(), ref, from)
	noError(t, err)
	if adopted {
		var parts []blob.Part
		for n := range 3 {
			p := partOf(t, ref, n, slice(ref, file, n))
			p.Session = [16]byte{}
			parts = append(parts, p)
		}
		wantParts(t, s, ref, parts...)
		noError(t, s.Remove(t.Context(), from))
	} else {
		wantParts(t, s, ref)
		noError(t, s.Remove(t.Context(), ref))
		ref = from
	}
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, store, ref, file)
}
