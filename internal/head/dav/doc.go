// Package dav is the head of WebDAV (RFC 4918, classes 1, 2 and 3) on the use cases as they are,
// with the quota of RFC 4331, the current-user-principal of RFC 3744 and the Prefer of RFC 8144.
//
// # Words
//
// A view is a tree of files under a prefix of addresses. Its layout says what is at its top:
//
//	Apart   files/ is the caller's own drive, spaces/NAME/ the spaces that they are a member of,
//	        shared/NAME/ what others share with them by name; nothing else can be at the top
//	Home    the caller's own drive, with Spaces/ and "Shared with me"/ among its folders
//
// The package answers /dav/ as Apart; other heads give Serve a view of their own.
//
// # Rules
//
//	D1  A listing is whole or broken off. The status of a multistatus is sent with its first page;
//	    when a later page cannot be read the connection is aborted, since clients take what is
//	    missing for deleted.
//	D2  What is not there is 404 and nothing else.
//	D3  Bytes that were cut leave nothing: a file is made when all of them are there.
//	D4  A MOVE or COPY onto a file adds a version to it, so that the history survives how programs
//	    save.
//	D5  Addresses in answers are below the prefix that the request came by.
//	D6  A lock keeps others out of all heads and instances (package lock). Within this head it keeps
//	    out the owner's own programs, too, unless they bring its token.
package dav
