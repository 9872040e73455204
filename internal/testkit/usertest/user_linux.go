package usertest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// nobody is the user and group id of the child process: the overflow id of Linux, which owns
// nothing.
const nobody = 65534

// RunUnprivileged reports whether root runs the test. Then it has run the test in a child process
// under an unprivileged user and group, and has failed t if the child failed or did not run the
// test. The caller returns. For any other user it does nothing and returns false.
//
// t must not be a subtest. The child executes the running test binary, which needs no path that the
// unprivileged user can traverse.
func RunUnprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	//nolint:gosec // the running binary
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.count=1")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
	return true
}
