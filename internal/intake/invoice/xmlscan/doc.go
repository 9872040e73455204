// Package xmlscan reads XML from untrusted sources as a stream of tokens. Its memory is one buffer,
// independent of the document: text arrives in pieces, a tag must fit in the buffer, and everything
// else has a limit. It rejects constructs that no data needs and attacks use: a DOCTYPE, and
// therefore all entities except the five predefined ones. It checks that the document is
// well-formed, resolves namespaces, and skips comments and processing instructions.
//
// Unlike encoding/xml it has no struct decoding, no custom entities and no lenient mode, and is
// several times as fast.
package xmlscan
