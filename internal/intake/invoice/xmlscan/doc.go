// Package xmlscan reads XML as a stream of tokens for programs that read documents of strangers.
// Its memory is one buffer, whatever the document says: text comes in pieces, a tag has to fit in
// the buffer, and all else has a limit. It refuses what no data needs and attacks use: a DOCTYPE,
// and with it every entity but the five that XML has. It checks that the document is well-formed,
// resolves namespaces, and skips comments and processing instructions.
//
// It is not encoding/xml: no structs, no entities, no way to be lenient, and several times as fast.
package xmlscan
