package servicetest

import (
	"os/exec"
	"testing"
)

// packages maps programs to Debian packages of another name.
var packages = map[string]string{
	"nginx": "nginx-light", "7z": "p7zip-full", "bsdtar": "libarchive-tools", "java": "openjdk-17-jre-headless", "node": "nodejs", "nextcloudcmd": "nextcloud-desktop-cmd",
}

// Tool returns the path of a program, searched on PATH and then elsewhere. Without it the test is
// skipped, or fails if SMARTDRIVE_TEST_REQUIRE lists the program.
func Tool(t testing.TB, name string, elsewhere ...string) string {
	t.Helper()
	for _, candidate := range append([]string{name}, elsewhere...) {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	pkg := packages[name]
	if pkg == "" {
		pkg = name
	}
	Missing(t, Service(name), "it is not installed (Debian: apt-get install "+pkg+")")
	return ""
}
