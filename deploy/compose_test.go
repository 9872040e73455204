// Package deploy_test holds the files for operators to the code.
package deploy_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"example.org/smartdrive/internal/base/config"
)

type composed struct {
	Services map[string]struct {
		Image       string
		Environment map[string]string
		Healthcheck *struct{ Test []string }
		Volumes     []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	Volumes map[string]any
}

func compose(t *testing.T) composed {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c composed
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeHangsTogether(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		if s.Image == "" || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s has the image %q", name, s.Image)
		}
		for on, how := range s.DependsOn {
			other, ok := c.Services[on]
			if !ok || how.Condition == "service_healthy" && other.Healthcheck == nil {
				t.Errorf("%s waits for %s, which is never %s", name, on, how.Condition)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[volume]; !ok {
				t.Errorf("%s has the volume %s, which is not declared", name, volume)
			}
		}
	}
}

func TestComposedInstancesHaveGoodSettings(t *testing.T) {
	t.Parallel()
	services := compose(t).Services
	for _, name := range []string{"smartdrive-1", "smartdrive-2"} {
		var env []string
		for variable, value := range services[name].Environment {
			env = append(env, variable+"="+value)
		}
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		config.AddFlags(flags)
		c, err := config.Load(flags, env, func(string) ([]byte, error) { return nil, errors.New("there are no files") })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.Warnings) > 0 {
			t.Errorf("%s: %v", name, c.Warnings)
		}
		for _, host := range []string{c.MySQL.Addr, c.Redis.Addrs[0], c.Kafka.Brokers[0], c.S3.Endpoint} {
			host, _, _ := strings.Cut(host, ":")
			if _, ok := services[host]; !ok {
				t.Errorf("%s needs %s, which is no service", name, host)
			}
		}
	}
}
