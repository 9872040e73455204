package upload

import "testing"

// What is known of an upload may be forgotten while its bytes are hashed, after an outcome that is
// not known. The reader ends then; there is no size of a part to reckon with any more.
func TestHasherEndsWhenUploadIsInvalidated(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*liveUpload{
		"nothing is known":         {},
		"another reader has begun": {hasher: &prefixHasher{}, row: Row{State: Active, PartSize: 8}, loaded: true},
	} {
		f := &prefixHasher{busy: true}
		if end, more := l.hashTarget(f); more || end != 0 || f.busy {
			t.Errorf("%s: it goes on to %d", name, end)
		}
		l.hasher, f.busy = f, true
		l.loaded = false
		l.row = Row{}
		if end, more := l.hashTarget(f); more || end != 0 || f.busy {
			t.Errorf("%s, forgotten: it goes on to %d", name, end)
		}
	}
}
