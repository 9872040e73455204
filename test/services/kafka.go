package services

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaVersion is the version of Apache Kafka to download.
const KafkaVersion = "4.1.1"

// pom lists the dependencies of a broker. Kafka logs through slf4j; slf4j-simple writes to standard
// error.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>smartdrive</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + KafkaVersion + `</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// broker is an Apache Kafka that is its own controller (KRaft).
type broker struct {
	java       program
	jars       string
	advertised string // address for clients instead of its own
	session    time.Duration
}

const (
	// shortSession is the time after which a killed broker may return, in tests that wait for it.
	shortSession = 3 * time.Second
	// longSession tolerates a busy machine: without heartbeats a broker accepts no requests.
	longSession = 30 * time.Second
)

// Kafka returns a broker with data in dir. It must be started.
func (t *Tools) Kafka(ctx context.Context, dir string, o Options) (*Server, error) {
	b := &broker{advertised: o.Advertised, session: longSession}
	if o.Bound {
		b.session = shortSession
	}
	var err error
	if b.java, err = java(ctx); err != nil {
		return nil, err
	}
	if b.jars, err = t.kafkaJars(ctx); err != nil {
		return nil, fmt.Errorf("kafka %s: %w", KafkaVersion, err)
	}
	return &Server{Dir: dir, Bound: o.Bound, kind: b}, nil
}

// java returns a Java 17 or newer.
func java(ctx context.Context) (program, error) {
	p := program{path: filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java")}
	if os.Getenv("JAVA_HOME") == "" {
		path, ok := lookPath("java")
		if !ok {
			return p, errors.New("no java on PATH; Kafka needs 17 or later, such as openjdk-17-jre-headless")
		}
		p.path = path
	}
	return p, p.atLeast(ctx, 17, 0, "-version")
}

// kafkaJars returns the directory of the jars of an installed Kafka, or of downloaded ones.
func (t *Tools) kafkaJars(ctx context.Context) (string, error) {
	if script, ok := lookPath("kafka-server-start.sh"); ok {
		if script, err := filepath.EvalSymlinks(script); err == nil {
			libs := filepath.Join(filepath.Dir(script), "..", "libs")
			if found, _ := filepath.Glob(filepath.Join(libs, "kafka-server-4.*.jar")); len(found) > 0 {
				return libs, nil
			}
		}
	}
	return t.cached("kafka-"+KafkaVersion, func(dir string) error {
		if _, err := exec.LookPath("mvn"); err != nil {
			return errors.New("not on PATH, and no Maven (mvn) to fetch it with")
		}
		file := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(file, []byte(pom), 0o600); err != nil {
			return err
		}
		_, err := output(exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies", // fixed arguments
			"-DincludeScope=runtime", "-DoutputDirectory="+dir))
		return err
	})
}

// ports returns 2.
func (b *broker) ports() int { return 2 } // clients and controller

// properties are the settings of Kafka's own tests where they differ from the defaults: one
// replica, small offset topics, no initial rebalance delay. Topics are created explicitly.
const properties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[4]s
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[3]s
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=5
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
broker.session.timeout.ms=%[5]d
broker.heartbeat.interval.ms=500
`

// configure writes the settings file and returns its path.
func (b *broker) configure(s *Server) (string, error) {
	file := s.path("server.properties")
	advertised := cmp.Or(b.advertised, s.addr(0))
	return file, os.WriteFile(file, fmt.Appendf(nil, properties, s.addr(0), s.addr(1), s.path("data"), advertised, b.session.Milliseconds()), 0o600)
}

// create formats the data directory.
func (b *broker) create(_ context.Context, s *Server) error {
	file, err := b.configure(s)
	if err != nil {
		return err
	}
	return s.run(b.run("-Xmx128m", "kafka.tools.StorageTool", "format", "-t", clusterID(), "-c", file))
}

// clusterID returns a random UUID in Kafka's encoding, which must not start with a dash.
func clusterID() string {
	for {
		id := uuid.New()
		if text := base64.RawURLEncoding.EncodeToString(id[:]); !strings.HasPrefix(text, "-") {
			return text
		}
	}
}

// run returns a command that runs a Java class of Kafka.
func (b *broker) run(heap, class string, args ...string) *exec.Cmd {
	flags := []string{
		heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true", // fast start, little memory
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", filepath.Join(b.jars, "*"), class,
	}
	return b.java.command(append(flags, args...)...)
}

// command returns the command of the broker.
func (b *broker) command(s *Server) (*exec.Cmd, error) {
	file, err := b.configure(s) // the ports may have changed
	return b.run("-Xmx256m", "kafka.Kafka", file), err
}

// ready returns nil when the broker has joined its controller.
func (b *broker) ready(ctx context.Context, s *Server) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer c.Close()
	brokers, err := kadm.NewClient(c).ListBrokers(ctx)
	if err == nil && len(brokers) != 1 {
		err = errors.New("the broker has not joined its controller")
	}
	return err
}

// url returns the bootstrap address.
func (b *broker) url(s *Server) string { return s.Addr() }
