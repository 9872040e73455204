package timer

import "time"

// Step is a point on the way of a timer (D7).
type Step string

// The steps. Who carries fired timers over a stream adds those between fired and applied.
const (
	Armed     Step = "armed"     // it began to count: Fired.First
	Started   Step = "fired"     // its handler is called; it was due at Trace.Began
	Published Step = "published" // its record is durable
	Consumed  Step = "consumed"  // its record reached a consumer; it was published at Trace.Began
	Applied   Step = "applied"   // its handler had nothing more to do
	Snoozed   Step = "snoozed"   // its handler asked to look again
	Waited    Step = "waited"    // something was unavailable; it is tried again
	Failed    Step = "failed"    // its handler failed; it is tried again
	Died      Step = "dead"      // its last attempt failed
)

// Trace is one step of a fired timer.
type Trace struct {
	Fired
	Step  Step
	Began time.Time // of what has ended with the step
	At    time.Time
	Err   error // of Waited, Failed and Died
}

// stepOf is what a delivery came to.
func stepOf(f Fired, out Outcome, err error) (Step, error) {
	switch {
	case out.Verdict == Snooze:
		return Snoozed, nil
	case out.Verdict == Retry && out.Attempt > f.Attempt:
		return Failed, err
	case out.Verdict == Retry:
		return Waited, err
	case err != nil:
		return Died, err
	}
	return Applied, nil
}

// trace tells of a step, where somebody listens.
func (e *Engine) trace(f Fired, step Step, began time.Time, err error) {
	if e.opt.Traced != nil {
		e.opt.Traced(Trace{Fired: f, Step: step, Began: began, At: time.Now(), Err: err})
	}
}
