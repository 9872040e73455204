// Package nextcloud is the head of the Nextcloud client protocol: what the desktop and phone
// clients of Nextcloud, and programs that speak as they do, need to work against a SmartDrive. The
// product says its own name.
//
//	/status.php                      that there is a server
//	/index.php/login/flow, v2        how a client gets an app password (package account, Flow)
//	/ocs/v1.php, /ocs/v2.php         what the server can do, who the user is, app passwords; empty
//	                                 lists where clients only ask
//	/ocs/.../apps/files_sharing/     roles at files and folders, and links to them: the roles of
//	                                 package space and the links of package share, in one list
//	/remote.php/dav/files/USER/      the files: package dav, with properties of our own
//	/remote.php/webdav/              the same, as older clients name it
//	/remote.php/dav/uploads/USER/    files that come in chunks
//	/remote.php/dav/trashbin/USER/   the trash
//	/remote.php/dav/versions/USER/   older versions of files
//	/index.php/core/preview          small pictures
//
// # Rules
//
//	N1  The tag of a folder changes with anything below it (tree.Mark), and is read before what is
//	    in the folder: a client that keeps it with a listing misses nothing.
//	N2  A node's number (oc:fileid) is given once and never reused (tree.Number).
//	N3  A chunk counts as a whole or not at all. Chunks come in order; one whose predecessors are
//	    missing waits for them.
//	N4  Nothing becomes a file before a MOVE of .file says so, and then it is sealed as it is: no
//	    byte is copied.
package nextcloud
