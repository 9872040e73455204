package system_test

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"runtime"
	"testing"

	"example.org/smartdrive/test/system/rig"
)

// TestImagesAreDecodedApart: the released binary decodes images in a child process.
func TestImagesAreDecodedApart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits what a process takes")
	}
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 10*rig.MiB)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 300, 200))); err != nil {
		t.Fatal(err)
	}
	node := u.Do(t, http.MethodPut, "/files/picture.png", picture.Bytes()).JSON(t, http.StatusCreated)
	small := u.Get(t, "/nodes/"+node["id"].(string)+"/thumbnail").Is(t, http.StatusOK)
	if kind := small.Header.Get("Content-Type"); kind != "image/jpeg" {
		t.Errorf("the thumbnail is %s", kind)
	}
	metric(t, s, "thumbnails_apart_total", "1")
}
