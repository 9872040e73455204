package servicetest_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/testkit/servicetest"
)

func TestKfakeIsOneForAllTestsThatRun(t *testing.T) { //nolint:paralleltest // changes the environment
	t.Setenv("SMARTDRIVE_TEST_KAFKA", servicetest.Kfake)
	t.Setenv("SMARTDRIVE_TEST_REQUIRE", "")
	first := servicetest.URL(t, servicetest.Kafka)
	t.Run("another", func(t *testing.T) {
		if again := servicetest.URL(t, servicetest.Kafka); again != first {
			t.Errorf("another test got %s instead of %s", again, first)
		}
	})
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(first, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	topic := servicetest.Unique()
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		t.Error(err)
	}
	if servicetest.RealKafka() {
		t.Error("kfake is taken for a real Kafka")
	}
}

func TestUniqueNamesAreNames(t *testing.T) {
	t.Parallel()
	a, b := servicetest.Unique(), servicetest.Unique()
	if a == b || len(a) > 24 || strings.Trim(a, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		t.Errorf("%q and %q", a, b)
	}
}
