package services

import (
	"context"
	"errors"
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

func (*portMapper) ready(ctx context.Context, s *Server) error { return connect(ctx, s) }

func (*portMapper) url(s *Server) string { return s.Addr() }

// RabbitMQ returns a function that returns a broker with its directory. The broker registers with
// epmd, which the caller has started. Of Debian's package it starts the script itself: the wrapper
// on PATH insists on a user and on directories of the system.
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

// ready connects: the broker listens when it has started everything else.
func (*delayBroker) ready(ctx context.Context, s *Server) error { return connect(ctx, s) }

func (*delayBroker) url(s *Server) string { return "amqp://guest:guest@" + s.Addr() + "/" }

func connect(ctx context.Context, s *Server) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	return c.Close()
}
