// Package dav serves WebDAV (RFC 4918, classes 1, 2 and 3) directly on the use cases, with the
// quota of RFC 4331, the current-user-principal of RFC 3744 and the Prefer of RFC 8144.
//
// # Terms
//
// A view is a tree of files under a URL prefix. Its layout determines the top-level folders:
//
//	Separate  files/ is the caller's own drive, spaces/NAME/ the spaces that the caller is a member
//	          of, shared/NAME/ what others share with the caller; nothing else can be at the top
//	Merged    the caller's own drive, with Spaces/ and "Shared with me"/ among its folders
//
// A section of a view is one of its parts: the own drive, the spaces, or the shares. The package
// serves /dav/ with the layout Separate. Other heads call Serve with views of their own.
//
// # Rules
//
//	D1  A listing is complete or aborted. The status of a multistatus is sent with its first page;
//	    when a later page cannot be read the connection is aborted, since clients take missing
//	    entries for deleted.
//	D2  A node that does not exist is 404, never another status.
//	D3  A truncated body leaves nothing: a file is created when all of its bytes have arrived.
//	D4  A MOVE or COPY onto a file adds a version to it, so that the history survives how programs
//	    save.
//	D5  URLs in responses are below the prefix of the request.
//	D6  A lock keeps others out of all heads and instances (package lock). Within this head it also keeps
//	    out the owner's other programs, unless they submit its token.
package dav
