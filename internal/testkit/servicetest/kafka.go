package servicetest

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kfake is the value of SMARTDRIVE_TEST_KAFKA for a Kafka inside of the test process.
const Kfake = "kfake"

// RealKafka reports whether URL returns a real Kafka. Tests that depend on a broker's speed or
// shutdown call it.
func RealKafka() bool {
	url := os.Getenv("SMARTDRIVE_TEST_KAFKA")
	return url != "" && url != Kfake
}

// inside is the Kafka of this process. It runs while a test uses it.
var inside struct {
	mu      sync.Mutex
	users   int
	cluster *kfake.Cluster
}

// fake returns the address of the in-process Kafka, which it starts for its first user.
func fake(t testing.TB) string {
	t.Helper()
	if required(Kafka) {
		t.Fatal("a real kafka is required, and there is only kfake")
	}
	inside.mu.Lock()
	defer inside.mu.Unlock()
	if inside.cluster == nil {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
		if err != nil {
			t.Fatalf("start kfake: %v", err)
		}
		inside.cluster = c
	}
	inside.users++
	t.Cleanup(leave)
	return strings.Join(inside.cluster.ListenAddrs(), ",")
}

// leave stops the in-process Kafka after its last user.
func leave() {
	inside.mu.Lock()
	defer inside.mu.Unlock()
	if inside.users--; inside.users == 0 {
		inside.cluster.Close()
		inside.cluster = nil
	}
}
