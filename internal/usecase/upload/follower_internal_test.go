package upload

import "testing"

// A hasher ends if its upload is invalidated while it runs.
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
