package app

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// An instance does not start if all instances together could open more connections than the server
// allows. Its error says so, the running instances are not affected, and it starts after another
// one has stopped.
func TestConnectionsAreBudgetedAtAStart(t *testing.T) {
	t.Parallel()
	args := clusterArgs(t, false)
	probe, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: args[1], Log: silent})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := probe.MaxConnections(t.Context())
	if err := errors.Join(err, probe.Close()); err != nil || allowed < 50 {
		t.Fatalf("the server allows %d, %v", allowed, err)
	}
	with := func(connections int) []string {
		settings := append([]string{"--start-wait", "0"}, args[:len(args)-2]...)
		settings[3] = args[1] + "?connections=" + strconv.Itoa(connections)
		return settings
	}
	if sqldb.MaxServerConnections(0) != 48 || sqldb.MaxServerConnections(4) != 6 {
		t.Errorf("an instance takes %d by default, and %d with 4", sqldb.MaxServerConnections(0), sqldb.MaxServerConnections(4))
	}
	var refused *StartError
	if _, err := Open(t.Context(), testConfig(t, with(allowed)...), silent); !errors.As(err, &refused) || !refused.Configuration() {
		t.Errorf("one that wants more than there are: %v", err)
	}
	half := allowed / 2 // and half of that for reading: more than half of what there is
	first, err := Open(t.Context(), testConfig(t, with(half)...), silent)
	if err != nil {
		t.Fatal(err)
	}
	second := testConfig(t, with(half)...)
	if _, err := Open(t.Context(), second, silent); !errors.As(err, &refused) || refused.Configuration() || !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	opens(t, second)
}
