package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
)

// Epmd returns the name server of Erlang's nodes, which RabbitMQ needs, with its directory.
func (*Tools) Epmd(_ context.Context, dir string, o Options) (*Server, error) {
	path, ok := lookPath("epmd")
	if !ok {
		return nil, errNoRabbit
	}
	return &Server{Dir: dir, Bound: o.Bound, kind: &portMapper{program{path: path}}}, nil
}

var errNoRabbit = errors.New("RabbitMQ is not installed: apt-get install rabbitmq-server")

// portMapper is Erlang's epmd.
type portMapper struct{ program program }

func (*portMapper) ports() int { return 1 }

func (*portMapper) create(context.Context, *Server) error { return nil }

func (p *portMapper) command(s *Server) (*exec.Cmd, error) {
	return p.program.command("-port", s.port(0), "-address", loopback), nil
}

func (*portMapper) ready(ctx context.Context, s *Server) error { return exchange(ctx, s, "", 0) }

func (*portMapper) url(s *Server) string { return s.Addr() }

// RabbitMQ returns a broker with its directory, that registers with an epmd which has been started.
// It is the one of Debian's package, whose wrapper, which insists on its own user and directories,
// is left out.
func (*Tools) RabbitMQ(epmd *Server) func(context.Context, string, Options) (*Server, error) {
	return func(_ context.Context, dir string, o Options) (*Server, error) {
		path, ok := lookPath("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
		if !ok {
			return nil, errNoRabbit
		}
		return &Server{Dir: dir, Bound: o.Bound, kind: &delayBroker{program{path: path}, epmd}}, nil
	}
}

// delayBroker is RabbitMQ.
type delayBroker struct {
	program program
	epmd    *Server
}

func (*delayBroker) ports() int { return 2 } // clients, other nodes

func (*delayBroker) create(_ context.Context, s *Server) error {
	return os.WriteFile(s.path("plugins"), []byte("[].\n"), 0o600)
}

func (b *delayBroker) command(s *Server) (*exec.Cmd, error) {
	cmd := b.program.command()
	cmd.Env = append(
		cmd.Env,
		"RUNNING_UNDER_SYSTEMD=true",         // the script becomes the broker and does not stay as its parent
		"HOME="+s.path("data"),               // of the cookie
		"RABBITMQ_CONF_ENV_FILE="+os.DevNull, // nothing of the machine's own broker
		"RABBITMQ_CONFIG_FILE="+s.path("none"),
		"RABBITMQ_NODENAME=compare"+s.port(0)+"@localhost",
		"RABBITMQ_NODE_IP_ADDRESS="+loopback,
		"RABBITMQ_NODE_PORT="+s.port(0),
		"RABBITMQ_DIST_PORT="+s.port(1),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"ERL_EPMD_ADDRESS="+loopback,
		"ERL_EPMD_PORT="+b.epmd.port(0),
		"RABBITMQ_MNESIA_BASE="+s.path("data"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+s.path("plugins"),
		"RABBITMQ_LOG_BASE="+s.path("data"),
		"RABBITMQ_LOGS=-",
	)
	return cmd, nil
}

// ready says hello in AMQP 0-9-1; a broker that serves answers with a frame of the kind "method".
func (*delayBroker) ready(ctx context.Context, s *Server) error {
	return exchange(ctx, s, "AMQP\x00\x00\x09\x01", 1)
}

func (*delayBroker) url(s *Server) string { return "amqp://guest:guest@" + s.Addr() + "/" }

// exchange connects, says hello, and wants an answer that begins with a byte; without a hello a
// connection is enough.
func exchange(ctx context.Context, s *Server, hello string, answer byte) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil || hello == "" {
		if err == nil {
			err = c.Close()
		}
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	first := make([]byte, 1)
	if _, err := io.WriteString(c, hello); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, first); err != nil {
		return err
	}
	if first[0] != answer {
		return fmt.Errorf("the answer begins with %d", first[0])
	}
	return nil
}
