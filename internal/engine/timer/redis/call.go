package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"smartdrive/internal/base/drive"
)

// call is one run of a script on one shard.
type call struct {
	script *script
	shard  *shard
	keys   []string
	args   []any // those after the prelude's
	quiet  bool  // a loss that it finds is known
	lost   bool  // it found one

	reply
	err error
}

// reply is what all scripts return; rest is the script's own.
type reply struct {
	now  int64
	rest []any
}

// next reads "when the first comes up": never for -1.
func (r *reply) next() int64 { return orNever(r.number(0)) }

func orNever(ms int64) int64 {
	if ms < 0 {
		return never
	}
	return ms
}

func (r *reply) number(i int) int64 {
	if i >= len(r.rest) {
		return -1
	}
	switch v := r.rest[i].(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return n
		}
	}
	return -1
}

func (r *reply) text(i int) string {
	if i >= len(r.rest) {
		return ""
	}
	s, _ := r.rest[i].(string)
	return s
}

func (r *reply) list(i int) []any {
	if i >= len(r.rest) {
		return nil
	}
	l, _ := r.rest[i].([]any)
	return l
}

func (r *reply) texts(i int) []string {
	l := r.list(i)
	out := make([]string, 0, len(l))
	for _, v := range l {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// run makes calls in one pipeline. A server that does not know a script gets all of them, and the
// calls that it refused are made again; they did nothing. It returns the first error; each call has
// its own.
func (q *Queue) run(ctx context.Context, calls ...*call) error {
	todo := calls
	for try := range maxRuns {
		q.pipeline(ctx, todo)
		if todo = again(todo, try == 0); len(todo) == 0 {
			break
		}
		if redis.HasErrorPrefix(todo[0].err, "NOSCRIPT") {
			if err := q.load(ctx); err != nil {
				return err
			}
		}
	}
	var first error
	for _, c := range calls {
		if c.err != nil && first == nil {
			first = fmt.Errorf("redis script %s: %w", c.script.name, classify(c.err))
		}
	}
	return first
}

// maxRuns is how often a call is made: once, once more over a new connection, and after scripts
// were loaded.
const maxRuns = 4

// again lists the calls to make again: those that the server refused because it has not got their
// script, or, after the first try, those that got no reply. All but a lease may be made twice; what
// a lease took without a reply is regained by the next.
func again(calls []*call, first bool) []*call {
	var noScript, noReply []*call
	for _, c := range calls {
		switch {
		case redis.HasErrorPrefix(c.err, "NOSCRIPT"):
			noScript = append(noScript, c)
		case first && c.script != leaseScript && c.err != nil && drive.IsKind(classify(c.err), drive.Unavailable):
			noReply = append(noReply, c)
		}
	}
	return append(noScript, noReply...)
}

func (q *Queue) pipeline(ctx context.Context, calls []*call) {
	pipe, cmds := q.client.Pipeline(), make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = pipe.EvalSha(ctx, c.script.sha, c.keys, append(q.header(c.shard), c.args...)...)
	}
	_, err := pipe.Exec(ctx) // also the first error of a command
	for i, c := range calls {
		c.err = nil
		v, cmdErr := cmds[i].Result()
		if cmdErr == nil && v == nil {
			cmdErr = err // never sent
		}
		if c.err = cmdErr; c.err == nil {
			c.err = q.read(c, v)
		}
	}
}

// header makes the arguments that every script begins with.
func (q *Queue) header(sh *shard) []any {
	now := q.opt.Now()
	epoch, reckoned := sh.knows(now)
	guess, clock := "", ""
	if reckoned > 0 {
		guess = strconv.FormatInt(reckoned, 10)
	}
	if q.opt.Clock != nil {
		clock = strconv.FormatInt(q.opt.Clock().UnixMilli(), 10)
	}
	return []any{epoch, newEpoch(), guess, now.UnixMilli(), clock}
}

// read takes a reply apart and notes what it says of the shard.
func (q *Queue) read(c *call, v any) error {
	list, ok := v.([]any)
	if !ok || len(list) < 3 {
		return fmt.Errorf("script %s returned %T", c.script.name, v)
	}
	r := reply{rest: list}
	epoch, now, stepped := r.text(0), r.number(1), r.number(2)
	c.now, c.rest = now, list[3:]
	if c.shard.learns(epoch, now, q.opt.Now()) {
		q.count.Losses.Add(1)
		c.lost = true
		if !c.quiet {
			q.lossSeen.Store(true)
		}
	}
	if stepped != 0 {
		q.count.Steps.Add(1)
		q.steps.report(time.Duration(stepped)*time.Millisecond, q.opt.Now(), q.opt.Stepped)
	}
	return nil
}

// load brings the scripts to every master.
func (q *Queue) load(ctx context.Context) error {
	one := func(ctx context.Context, c redis.Scripter) error {
		for _, s := range scripts() {
			if err := c.ScriptLoad(ctx, s.text).Err(); err != nil {
				return classify(err)
			}
		}
		return nil
	}
	var err error
	if c, ok := q.client.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return one(ctx, c) })
	} else {
		err = one(ctx, q.client)
	}
	if err != nil {
		return fmt.Errorf("load scripts into redis: %w", err)
	}
	return nil
}

// passing are errors of a server that will work again.
var passing = []string{
	"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "OOM", "NOREPLICAS", "MISCONF", "BUSY", "NOSCRIPT", "ERR max number of clients",
	"UNKILLABLE", "MOVED", "ASK",
}

// classify turns an error of the client into ours: what the server will not do is Internal (a
// mistake of ours, or a missing right), all else is that it cannot be reached.
func classify(err error) error {
	var ours *drive.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	var said redis.Error
	var network net.Error
	if !errors.As(err, &said) || errors.As(err, &network) {
		return drive.Wrap(err, drive.Unavailable)
	}
	for _, p := range passing {
		if strings.HasPrefix(said.Error(), p) {
			return drive.Wrap(err, drive.Unavailable)
		}
	}
	return drive.Wrap(err, drive.Internal)
}
