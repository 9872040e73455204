// Package timertest is the conformance suite of timer.Queue.
//
// The suite states the contract three times. Traces are short step sequences with their expected
// results, each named after the sentence of the contract that it shows. The model is a simple
// implementation: the suite runs every trace step, and thousands of random step sequences, on the
// queue and on the model, and compares the results. Each step also checks the invariants T1 (never
// early) and T2 (never lost, and Wait never exceeds the time until the next due timer), and the
// basis of T3 (tokens, unchanged redelivery).
package timertest
