package timertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/engine/timer"
)

// A trace is one step a line:
//
//	+30s                            time passes (a minus: the clock is set back)
//	arm a gen=1 idle=30s max=2m     last=-5s, first=-1h: that long before now
//	touch a
//	cancel a gen=1
//	lease park = a b, none          limit=2 takes at most that many; the names say all that must come out, in any order
//	wait 20s, never                 what the last lease must have said, or the queue's cap
//	done a, retry a in=5s attempt=1, snooze a in=5s       of its newest lease; token=1: of its first one
//	forget                          the queue loses everything
//
// A name is a timer of kind park; "abandon:a" is one of another kind.
type trace struct {
	contract string // the sentence of the contract that it shows; the name of the subtest
	steps    string
}

// hold is the lease time of traces.
const hold = time.Minute

// player runs a trace through a harness.
type player struct {
	*harness
	tokens map[timer.Key][]uint64 // all that were seen, in order
}

func (p *player) play(steps string) {
	p.t.Helper()
	for line := range strings.Lines(steps) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		f := strings.Fields(line)
		p.step(line, f[0], f[1:])
		for k := range p.tokens {
			p.checkShow(k)
		}
		p.checkPending()
	}
}

func (p *player) step(line, verb string, args []string) {
	p.t.Helper()
	if d, err := time.ParseDuration(verb); err == nil {
		p.advance(d)
		return
	}
	switch verb {
	case "arm":
		p.arm(p.entry(args))
	case "touch":
		p.touch(p.key(args[0]))
	case "cancel":
		p.cancel(p.key(args[0]), p.number(args, "gen", 0))
	case "lease":
		p.leaseStep(line, args)
	case "wait":
		want := p.duration(args[0])
		if q, ok := p.queue.(Capped); ok {
			want = min(want, q.MaxWait())
		}
		if p.wait != want {
			p.t.Fatalf("%s: the queue says %v", line, p.wait)
		}
	case "done", "retry", "snooze":
		p.settle(p.outcome(verb, args))
	case "forget":
		p.forgetStep()
	default:
		p.t.Fatalf("unknown step %q", line)
	}
}

func (p *player) leaseStep(line string, args []string) {
	p.t.Helper()
	eq := slices.Index(args, "=")
	kind := p.key(args[0] + ":").Kind
	var got, want []string
	for _, f := range p.lease(kind, int(p.number(args[:eq], "limit", 100)), hold) {
		got = append(got, f.Key.String())
		if !slices.Contains(p.tokens[f.Key], f.Token) {
			p.tokens[f.Key] = append(p.tokens[f.Key], f.Token)
		}
	}
	for _, name := range args[eq+1:] {
		if name != "none" {
			want = append(want, p.key(name).String())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Fatalf("%s: fired %v", line, got)
	}
}

func (p *player) forgetStep() {
	before := p.epoch
	p.forget(p.queue.(Forgetter))
	if p.lease(timer.Park, 1, hold); p.epoch == before {
		p.t.Fatalf("the queue lost everything, and its epoch is still %d", before)
	}
	p.lease(timer.Park, 1, hold) // the first one may bring nothing but the news
}

func (p *player) entry(args []string) timer.Entry {
	ago := func(name string) int64 {
		if _, ok := p.field(args, name); !ok {
			return 0
		}
		return p.model.now + p.span(args, name).Milliseconds()
	}
	return timer.Entry{
		Key: p.key(args[0]), Gen: p.number(args, "gen", 0), Idle: p.span(args, "idle"), Max: p.span(args, "max"),
		Last: driveTime(ago("last")), First: driveTime(ago("first")),
	}
}

func (p *player) outcome(verb string, args []string) timer.Outcome {
	verdicts := map[string]timer.Verdict{"done": timer.Done, "retry": timer.Retry, "snooze": timer.Snooze}
	key := p.key(args[0])
	seen := p.tokens[key]
	which := p.number(args, "token", int64(len(seen)))
	if which < 1 || which > int64(len(seen)) {
		p.t.Fatalf("%s was leased %d times", args[0], len(seen))
	}
	return timer.Outcome{
		Key: key, Token: seen[which-1], Verdict: verdicts[verb], In: p.span(args, "in"), Attempt: int(p.number(args, "attempt", 0)),
	}
}

// key reads "a", "abandon:a", or a kind alone ("park:").
func (p *player) key(name string) timer.Key {
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
	p.t.Fatalf("unknown kind %q", kind)
	return timer.Key{}
}

func (p *player) field(args []string, name string) (string, bool) {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (p *player) number(args []string, name string, absent int64) int64 {
	v, ok := p.field(args, name)
	if !ok {
		return absent
	}
	n, err := strconv.ParseInt(v, 10, 64)
	p.ok(err)
	return n
}

func (p *player) span(args []string, name string) time.Duration {
	v, ok := p.field(args, name)
	if !ok {
		return 0
	}
	return p.duration(v)
}

func (p *player) duration(s string) time.Duration {
	if s == "never" {
		return timer.Never
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		p.ok(fmt.Errorf("in a trace: %w", err))
	}
	return d
}
