// Package timertest is the conformance suite of timer.Queue: what every adapter must do, told three
// times.
//
// The traces are the contract in small stories, each named after the sentence it shows, with what
// must come out written down. The model is the contract in sixty lines: every step of a trace and
// of thousands of random histories is done to the queue and to the model, and what they say must
// agree. The invariants T1 (never early), T2 (never forgotten, and Wait never leads past a due
// time) and what T3 needs (tokens, redelivery unchanged) are checked in each step.
package timertest
