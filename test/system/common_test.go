package system_test

import (
	"os/exec"
	"testing"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// content returns 1 MiB of content that differs for each n.
func content(n int) history.Content { return history.Content{Seed: uint64(n), Size: rig.MiB} }

// sound fails the test if the independent checker or fsck finds an error in the directory of a
// stopped server.
func sound(t *testing.T, site *rig.Site, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), process.Build(t, "example.org/smartdrive/test/check"), append(args, site.Data)...).CombinedOutput()
	if err != nil {
		t.Errorf("the directory is not sound: %v\n%s", err, out)
	}
	fsck := []string{"fsck", "--deep"}
	for i := 0; i+1 < len(args); i += 2 {
		fsck = append(fsck, "-"+args[i], args[i+1])
	}
	site.Admin(t, "", fsck...).OK(t)
}
