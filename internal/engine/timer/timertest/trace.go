package timertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

// trace is a sequence of steps with expected results, one step per line:
//
//	+30s                            time passes (with a minus the clock is set back)
//	arm a gen=1 idle=30s max=2m     last=-5s, first=-1h: that long before now
//	touch a
//	cancel a gen=1
//	lease park = a b, none          limit=2 leases at most two; the names are all expected timers, in any order
//	wait 20s, never                 expected Wait of the last lease, at most the queue's MaxWait
//	done a, retry a in=5s attempt=1, snooze a in=5s       settles the newest lease of a; token=1: the first
//	forget                          the queue loses all timers
//
// The name a means a timer of kind park; abandon:a is one of kind abandon.
type trace struct {
	contract string // sentence of the contract that the trace shows; name of the subtest
	steps    string
}

// hold is the duration of leases in traces.
const hold = time.Minute

// traceRunner runs a trace on a harness.
type traceRunner struct {
	*harness
	tokens map[timer.Key][]uint64 // tokens of each timer in the order of its leases
}

// play runs the steps, one a line, on queue and model. After each it compares all timers leased so
// far and the numbers of pending ones.
func (r *traceRunner) play(steps string) {
	r.t.Helper()
	for line := range strings.Lines(steps) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		f := strings.Fields(line)
		r.step(line, f[0], f[1:])
		for k := range r.tokens {
			r.checkShow(k)
		}
		r.checkPending()
	}
}

// step runs one line of a trace: a duration advances the clock, other verbs call the queue or
// compare its answer. It fails the test if the answer differs or the verb is unknown.
func (r *traceRunner) step(line, verb string, args []string) {
	r.t.Helper()
	if d, err := time.ParseDuration(verb); err == nil {
		r.advance(d)
		return
	}
	switch verb {
	case "arm":
		r.arm(r.entry(args))
	case "touch":
		r.touch(r.key(args[0]))
	case "cancel":
		r.cancel(r.key(args[0]), r.number(args, "gen", 0))
	case "lease":
		r.leaseStep(line, args)
	case "wait":
		want := r.duration(args[0])
		if q, ok := r.queue.(Capped); ok {
			want = min(want, q.MaxWait())
		}
		if r.wait != want {
			r.t.Fatalf("%s: the queue says %v", line, r.wait)
		}
	case "done", "retry", "snooze":
		r.settle(r.outcome(verb, args))
	case "forget":
		r.forgetStep()
	default:
		r.t.Fatalf("unknown step %q", line)
	}
}

// leaseStep leases timers and fails the test unless their keys are those after "=" in args, in any
// order; "none" means no timer. It remembers the tokens for later settle steps.
func (r *traceRunner) leaseStep(line string, args []string) {
	r.t.Helper()
	eq := slices.Index(args, "=")
	kind := r.key(args[0] + ":").Kind
	var got, want []string
	for _, f := range r.lease(kind, int(r.number(args[:eq], "limit", 100)), hold) {
		got = append(got, f.Key.String())
		if !slices.Contains(r.tokens[f.Key], f.Token) {
			r.tokens[f.Key] = append(r.tokens[f.Key], f.Token)
		}
	}
	for _, name := range args[eq+1:] {
		if name != "none" {
			want = append(want, r.key(name).String())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: fired %v", line, got)
	}
}

// forgetStep drops all timers and expects a new epoch.
func (r *traceRunner) forgetStep() {
	before := r.epoch
	r.forget(r.queue.(Forgetter))
	if r.lease(timer.Park, 1, hold); r.epoch == before {
		r.t.Fatalf("the queue lost everything, and its epoch is still %d", before)
	}
	r.lease(timer.Park, 1, hold) // the first lease after a loss may only report the epoch
}

// entry parses the arguments of an arm step.
func (r *traceRunner) entry(args []string) timer.Entry {
	ago := func(name string) int64 {
		if _, ok := r.field(args, name); !ok {
			return 0
		}
		return r.model.now + r.span(args, name).Milliseconds()
	}
	return timer.Entry{
		Key: r.key(args[0]), Gen: r.number(args, "gen", 0), Idle: r.span(args, "idle"), Max: r.span(args, "max"),
		Last: driveTime(ago("last")), First: driveTime(ago("first")),
	}
}

// outcome parses the arguments of a done, retry or snooze step.
func (r *traceRunner) outcome(verb string, args []string) timer.Outcome {
	verdicts := map[string]timer.Verdict{"done": timer.Done, "retry": timer.Retry, "snooze": timer.Snooze}
	key := r.key(args[0])
	seen := r.tokens[key]
	which := r.number(args, "token", int64(len(seen)))
	if which < 1 || which > int64(len(seen)) {
		r.t.Fatalf("%s was leased %d times", args[0], len(seen))
	}
	return timer.Outcome{
		Key: key, Token: seen[which-1], Verdict: verdicts[verb], In: r.span(args, "in"), Attempt: int(r.number(args, "attempt", 0)),
	}
}

// key parses the name of a timer: "a" (of kind park), "abandon:a", or a kind alone ("park:"). It
// fails the test for an unknown kind.
func (r *traceRunner) key(name string) timer.Key {
	kind := "park"
	if k, rest, ok := strings.Cut(name, ":"); ok {
		kind, name = k, rest
	}
	for _, k := range timer.Kinds() {
		if k.String() == kind {
			key := timer.Key{Kind: k}
			copy(key.ID[:], name)
			return key
		}
	}
	r.t.Fatalf("unknown kind %q", kind)
	return timer.Key{}
}

// field returns the value of the argument name=value, and false if args has none.
func (r *traceRunner) field(args []string, name string) (string, bool) {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// number returns an integer argument, or absent if it is missing.
func (r *traceRunner) number(args []string, name string, absent int64) int64 {
	v, ok := r.field(args, name)
	if !ok {
		return absent
	}
	n, err := strconv.ParseInt(v, 10, 64)
	r.ok(err)
	return n
}

// span returns a duration argument, or 0 if it is missing.
func (r *traceRunner) span(args []string, name string) time.Duration {
	v, ok := r.field(args, name)
	if !ok {
		return 0
	}
	return r.duration(v)
}

// duration parses a duration; "never" is timer.Never.
func (r *traceRunner) duration(s string) time.Duration {
	if s == "never" {
		return timer.Never
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		r.ok(fmt.Errorf("in a trace: %w", err))
	}
	return d
}
