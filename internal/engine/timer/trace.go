package timer

import "time"

// Step is a stage in the life of a timer (D7).
type Step string

// The steps. A caller that sends fired timers over a stream adds Published and Consumed.
const (
	Armed     Step = "armed"     // the timer was armed; the time is Fired.First
	Started   Step = "fired"     // the handler is called; Trace.Began is the due time
	Published Step = "published" // the record of the timer is durable in the stream
	Consumed  Step = "consumed"  // a consumer received the record; Trace.Began is the time of its publication
	Applied   Step = "applied"   // the handler succeeded
	Snoozed   Step = "snoozed"   // the handler returned Later
	Waited    Step = "waited"    // a dependency was unavailable; the delivery is retried
	Failed    Step = "failed"    // the handler failed; the delivery is retried
	Died      Step = "dead"      // the last attempt failed
)

// Trace is one step of a fired timer.
type Trace struct {
	Fired
	Step  Step
	Began time.Time // start of the stage that ends with this step
	At    time.Time
	Err   error // for Waited, Failed and Died
}

// stepOf returns the trace step for the outcome of a delivery, and the error to report with it, if
// any.
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

// trace reports a step of a fired timer, which began at began and ends now, to Options.OnTrace, if
// that is set.
func (e *Engine) trace(f Fired, step Step, began time.Time, err error) {
	if e.opt.OnTrace != nil {
		e.opt.OnTrace(Trace{Fired: f, Step: step, Began: began, At: time.Now(), Err: err})
	}
}
