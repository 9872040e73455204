package system_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// TestTheFirstStartMayDieAnywhere: the very first start dies right after creating one of several
// files. The next start completes the installation, and the stored password is the valid one.
func TestTheFirstStartMayDieAnywhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lock", "smartdrive.db", "smartdrive.db-wal", "installation", "staging", "ballast", "initial-password", "admin.sock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := rig.New(t)
			generated := []string{"SMARTDRIVE_ADMIN_PASSWORD="}
			s := site.Launch(t, generated)
			process.Eventually(t, rig.Patience, name+" is made", func() error {
				_, err := os.Lstat(filepath.Join(site.Data, name))
				return err
			})
			s.Kill()
			s = site.StartEnv(t, generated)
			text, err := os.ReadFile(filepath.Join(site.Data, "initial-password"))
			if err != nil {
				t.Fatal(err)
			}
			login := map[string]any{"name": "admin", "password": strings.TrimSpace(string(text))}
			s.Anybody(t).Post(t, "/sessions", login).Is(t, http.StatusCreated)
			s.End(t)
			sound(t, site)
		})
	}
}
