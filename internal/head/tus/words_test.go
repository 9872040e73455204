package tus

import (
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// A refusal names the invalid value and what is expected instead.
func TestRefusalsNameExpectedValue(t *testing.T) {
	t.Parallel()
	said := func(err error) string {
		w := httptest.NewRecorder()
		problem.Write(w, httptest.NewRequestWithContext(t.Context(), "PATCH", "/tus/x", nil), err)
		return w.Body.String()
	}
	_, err := parseChecksum("sha1 MTIzNA==") // four bytes
	if s := said(err); !strings.Contains(s, "sha1, a space, and 20 bytes in base64") {
		t.Errorf("of a checksum that is too short: %s", s)
	}
	if s := said(drive.Fail(drive.Forbidden, "reason", "finished")); !strings.Contains(s, "has become a file") || strings.Contains(s, "administrator") {
		t.Errorf("of a finished upload: %s", s)
	}
}
