package drive_test

import (
	"mime"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func TestMimeOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[drive.Name]string{
		"a.JPG": "image/jpeg", "报告.docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		"a.tar.gz": "application/gzip", ".pdf": "application/pdf", "movie.mkv": "video/matroska", "main.ts": "text/plain; charset=utf-8",
		"README": drive.UnknownMime, "a.": drive.UnknownMime, "a.nope": drive.UnknownMime, ".": drive.UnknownMime, "": drive.UnknownMime,
	} {
		if got := drive.MimeOf(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestMimesAreValid(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{"pdf", "txt", "md", "go", "svg", "mp4", "zip", "woff2", "xlsx", "rs", "c", "vtt"} {
		got := drive.MimeOf(drive.Name("x." + ext))
		if media, _, err := mime.ParseMediaType(got); err != nil || !strings.Contains(media, "/") || got == drive.UnknownMime {
			t.Errorf("%s is %q, %v", ext, got, err)
		}
	}
}
