package rest

import "testing"

func TestExecutableTypesAreNotPassive(t *testing.T) {
	t.Parallel()
	for mime, want := range map[string]bool{
		"image/png": true, "IMAGE/PNG": true, "video/mp4; codecs=avc1": true, "audio/ogg": true,
		"image/svg+xml": false, "image/SVG+XML": false, "image/x+xml": false, "video/x+XML": false, "text/html": false,
		"application/pdf": false, "": false,
	} {
		if got := passive(mime); got != want {
			t.Errorf("%q: %t", mime, got)
		}
	}
}
