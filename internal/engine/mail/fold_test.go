package mail_test

import (
	"mime"
	netmail "net/mail"
	"strings"
	"testing"
)

// A long subject is folded: RFC 5322 §2.1.1 takes lines of 998 bytes, and servers refuse longer
// ones, which is no fault of the address.
func TestLongSubjectsAreFolded(t *testing.T) {
	t.Parallel()
	h := newHost(t, &host{implicit: true})
	long := letter
	long.Subject = "SmartDrive：" + strings.Repeat("王", 21) + " 与您共享了“" + strings.Repeat("长", 85) + "”：编辑者（到 2027-01-01 23:59 UTC 为止）"
	if err := h.server("drive").Send(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range strings.SplitSeq(h.took[0], "\n") {
		if len(line) > 100 {
			t.Errorf("a line has %d bytes: %.60s...", len(line), line)
		}
	}
	m, err := netmail.ReadMessage(strings.NewReader(h.took[0]))
	if err != nil {
		t.Fatal(err)
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil || subject != long.Subject {
		t.Errorf("the subject is %q: %v", subject, err)
	}
}
