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

	"example.org/smartdrive/internal/base/drive"
)

// call is one run of a script on one shard: the request, then the reply or the error.
type call struct {
	script    *script
	shard     *shard
	keys      []string // of the script
	args      []any    // arguments after those of the prelude
	lossKnown bool     // the caller handles a loss found by this call
	lost      bool     // set if the call found a loss

	reply
	err error
}

// reply is the reply of a script: the shard's clock in ms, and the elements that depend on the
// script.
type reply struct {
	now  int64
	rest []any // values after those of the prelude
}

// next returns the first element, the time in ms at which a timer is next reached; never for -1.
func (r *reply) next() int64 { return orNever(r.number(0)) }

// orNever returns ms, or never if ms is negative.
func orNever(ms int64) int64 {
	if ms < 0 {
		return never
	}
	return ms
}

// number returns element i as an integer, or -1 if it is missing or not a number.
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

// text returns element i as a string, or "" if it is missing or of another type.
func (r *reply) text(i int) string {
	if i >= len(r.rest) {
		return ""
	}
	s, _ := r.rest[i].(string)
	return s
}

// list returns element i as a list, or nil if it is missing or of another type.
func (r *reply) list(i int) []any {
	if i >= len(r.rest) {
		return nil
	}
	l, _ := r.rest[i].([]any)
	return l
}

// texts returns element i as a list of strings; empty if it is missing or no list. An element that
// is no string becomes "".
func (r *reply) texts(i int) []string {
	l := r.list(i)
	out := make([]string, 0, len(l))
	for _, v := range l {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// run executes calls in one pipeline and sets reply or err of each. It loads missing scripts into
// the servers and repeats refused calls, which had no effect. It repeats calls without a reply once
// (see retriable). It returns the first error.
func (q *Queue) run(ctx context.Context, calls ...*call) error {
	todo := calls
	for try := range maxRuns {
		q.pipeline(ctx, todo)
		if todo = retriable(todo, try == 0); len(todo) == 0 {
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

// maxRuns bounds the attempts of a call: the first, one over a new connection, and those after
// loading scripts.
const maxRuns = 4

// retriable returns the calls to repeat: those whose server lacks the script and, after the first
// attempt, those without a reply. A lease is never repeated; the next lease recovers the timers
// that a lost reply contained.
func retriable(calls []*call, first bool) []*call {
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

// pipeline sends calls in one pipeline and sets either the reply or err of each. A failed pipeline
// becomes the error of the calls that were not answered.
func (q *Queue) pipeline(ctx context.Context, calls []*call) {
	pipe, cmds := q.client.Pipeline(), make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = pipe.EvalSha(ctx, c.script.sha, c.keys, append(q.header(c.shard), c.args...)...)
	}
	_, err := pipe.Exec(ctx) // err is also the first error of a command
	for i, c := range calls {
		c.err = nil
		v, cmdErr := cmds[i].Result()
		if cmdErr == nil && v == nil {
			cmdErr = err // the command was never sent
		}
		if c.err = cmdErr; c.err == nil {
			c.err = q.read(c, v)
		}
	}
}

// header returns the arguments common to all scripts; lua/prelude.lua describes them.
func (q *Queue) header(sh *shard) []any {
	now := q.opt.Now()
	epoch, reckoned := sh.epochAndClock(now)
	guess, clock := "", ""
	if reckoned > 0 {
		guess = strconv.FormatInt(reckoned, 10)
	}
	if q.opt.Clock != nil {
		clock = strconv.FormatInt(q.opt.Clock().UnixMilli(), 10)
	}
	return []any{epoch, newEpoch(), guess, now.UnixMilli(), clock}
}

// read parses the reply of a script into c, and updates the epoch and clock of the shard. It counts
// a loss (another epoch) in c.lost and the counters, and reports a step of the server's clock. It
// fails if v is not a reply of a script.
func (q *Queue) read(c *call, v any) error {
	list, ok := v.([]any)
	if !ok || len(list) < 3 {
		return fmt.Errorf("script %s returned %T", c.script.name, v)
	}
	r := reply{rest: list}
	epoch, now, stepped := r.text(0), r.number(1), r.number(2)
	c.now, c.rest = now, list[3:]
	if c.shard.observe(epoch, now, q.opt.Now()) {
		q.count.Losses.Add(1)
		c.lost = true
		if !c.lossKnown {
			q.lossSeen.Store(true)
		}
	}
	if stepped != 0 {
		q.count.Steps.Add(1)
		q.steps.report(time.Duration(stepped)*time.Millisecond, q.opt.Now(), q.opt.OnClockStep)
	}
	return nil
}

// load loads all scripts into every master, as they are lost when a server restarts. It fails if
// one master cannot be reached.
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

// transient lists the prefixes of errors of a server that will recover.
var transient = []string{
	"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "OOM", "NOREPLICAS", "MISCONF", "BUSY", "NOSCRIPT", "ERR max number of clients",
	"UNKILLABLE", "MOVED", "ASK",
}

// classify turns an error of the client library into a drive.Error. A refused command (a bug, or a
// missing permission) becomes Internal, everything else Unavailable. Drive errors and nil stay
// unchanged.
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
	for _, p := range transient {
		if strings.HasPrefix(said.Error(), p) {
			return drive.Wrap(err, drive.Unavailable)
		}
	}
	return drive.Wrap(err, drive.Internal)
}
