package services_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/services"
)

var variables = map[servicetest.Service]string{
	servicetest.MySQL: "mysql://elsewhere/", servicetest.Redis: "redis://elsewhere", servicetest.RedisCluster: "redis://a,b,c",
	servicetest.Kafka: "elsewhere:9092", servicetest.S3: "s3://k:s@elsewhere/bucket?insecure=true&region=x",
}

func elsewhere(t *testing.T) *services.Shared {
	t.Helper()
	for name, url := range variables {
		t.Setenv("SMARTDRIVE_TEST_"+strings.ToUpper(string(name)), url)
	}
	dir := t.TempDir()
	t.Setenv("SMARTDRIVE_SERVICES_CACHE", filepath.Join(dir, "cache"))
	return &services.Shared{Dir: filepath.Join(dir, ".services"), Tools: services.Open(dir, nil)}
}

func TestAddressInEnvironmentIsUsed(t *testing.T) { //nolint:paralleltest // changes the environment
	set := elsewhere(t)
	states, err := set.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[servicetest.Service]string{}
	for _, s := range states {
		if s.Err != nil {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
		got[servicetest.Service(s.Name)] = s.URL
	}
	if diff := cmp.Diff(variables, got); diff != "" {
		t.Error(diff)
	}
	if running, err := set.Processes(); err != nil || len(running) > 0 {
		t.Errorf("started: %v, %v", running, err)
	}
	text, err := os.ReadFile(set.EnvFile())
	if err != nil || !strings.Contains(string(text), "SMARTDRIVE_TEST_S3='"+variables[servicetest.S3]+"'") {
		t.Errorf("the file for shells says %s, %v", text, err)
	}
}

func TestUnavailableServicesAreReported(t *testing.T) { //nolint:paralleltest // changes the environment
	set := elsewhere(t)
	t.Setenv("SMARTDRIVE_TEST_KAFKA", "")
	t.Setenv("JAVA_HOME", filepath.Join(t.TempDir(), "nowhere"))
	states, err := set.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if (s.Err != nil) != (s.Name == "kafka") {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
	}
	missing, err := os.ReadFile(set.MissingFile())
	if err != nil || strings.Count(string(missing), "\n") != 1 || !strings.HasPrefix(string(missing), "kafka: ") {
		t.Errorf("missing is %q, %v", missing, err)
	}
	env, err := os.ReadFile(set.EnvFile())
	if err != nil || !strings.Contains(string(env), "SMARTDRIVE_TEST_KAFKA='"+servicetest.Kfake+"'\n") {
		t.Errorf("the file for shells says %s, %v", env, err)
	}
}

func TestServicesInEnvironmentStayUntouched(t *testing.T) { //nolint:paralleltest // changes the environment
	set := elsewhere(t)
	for range 2 {
		states, err := set.Up(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			if s.URL != variables[servicetest.Service(s.Name)] {
				t.Errorf("%s is at %q, %v", s.Name, s.URL, s.Err)
			}
		}
	}
}

// TestOwnAddressesInEnvironmentAreNotForeign: a shell that has read the file of the last Up names
// our own services, which may be down.
func TestOwnAddressesInEnvironmentAreNotForeign(t *testing.T) { //nolint:paralleltest // changes the environment
	set := elsewhere(t)
	t.Setenv("SMARTDRIVE_SERVICES_CACHE", "")
	root, err := services.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	set.Tools = services.Open(root, nil)
	t.Cleanup(func() {
		if err := set.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("SMARTDRIVE_TEST_REDIS", "")
	up := func() services.State {
		t.Helper()
		states, err := set.Up(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if states[1].Err != nil {
			servicetest.Missing(t, servicetest.Redis, states[1].Err.Error())
		}
		return states[1]
	}
	first := up()
	if err := set.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(set.Dir, "redis", "*")); err != nil || len(left) != 2 { // log and ports
		t.Errorf("what it leaves is %v, %v", left, err)
	}
	t.Setenv("SMARTDRIVE_TEST_REDIS", first.URL)
	if again := up(); again.URL != first.URL {
		t.Errorf("it was at %s and is at %s", first.URL, again.URL)
	}
	if running, err := set.Processes(); err != nil || len(running) != 1 || running[0].PID == 0 {
		t.Errorf("running: %v, %v", running, err)
	}
}
