package servicetest

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kfake in SMARTDRIVE_TEST_KAFKA asks for a Kafka inside the test process.
const Kfake = "kfake"

// RealKafka reports whether URL names a real Kafka. What depends on how a broker behaves when it
// ends, or on its speed, asks.
func RealKafka() bool {
	url := os.Getenv("SMARTDRIVE_TEST_KAFKA")
	return url != "" && url != Kfake
}

// inside is the Kafka of this process. It is there as long as a test uses it.
var inside struct {
	mu      sync.Mutex
	users   int
	cluster *kfake.Cluster
}

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

func leave() {
	inside.mu.Lock()
	defer inside.mu.Unlock()
	if inside.users--; inside.users == 0 {
		inside.cluster.Close()
		inside.cluster = nil
	}
}
