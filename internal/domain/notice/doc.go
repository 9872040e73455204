// Package notice keeps what people are told: that somebody has shared something with them, that a
// role will end, that an export is ready. It decides neither who is told nor who may read what.
//
// # Words
//
// A cause is something that happened and that somebody is to be told of. The use case that makes it
// happen publishes it (Due), in its transaction. A notice is a row: what one person is told of one
// cause. A channel is how a person wants to be told of a kind: on the page, by mail, too, or not at
// all.
//
// # Invariants
//
// E4: the id of a notice is that of its cause, so a person has one notice of a cause at most,
// however often the cause is handled. Whoever dies between the cause and the notice leaves the
// cause in the stream, so it is handled again. E5: a person has Most notices; the oldest go first.
//
// The package owns the tables notices and notice_people.
package notice
