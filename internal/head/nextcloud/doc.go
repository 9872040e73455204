// Package nextcloud serves the Nextcloud client protocol: Nextcloud's desktop and phone clients,
// and compatible programs, connect to SmartDrive with it. The product name that they show is
// SmartDrive's own.
//
//	/status.php                      that there is a server
//	/index.php/login/flow, v2        how a client gets an app password (package account, Flow)
//	/ocs/v1.php, /ocs/v2.php         what the server can do, who the user is, app passwords; empty
//	                                 lists where clients only ask
//	/ocs/.../apps/files_sharing/     roles at files and folders, and links to them: the roles of
//	                                 package space and the links of package share, in one list
//	/remote.php/dav/files/USER/      the files: package dav, with additional properties
//	/remote.php/webdav/              the same, as older clients name it
//	/remote.php/dav/uploads/USER/    chunked uploads
//	/remote.php/dav/trashbin/USER/   the trash
//	/remote.php/dav/versions/USER/   older versions of files
//	/index.php/core/preview          small pictures
//
// # Rules
//
//	N1  The ETag of a folder changes with anything below it (tree.ChangeTag), and is read before the
//	    folder's children: a client that stores it with a listing misses no change.
//	N2  A node's number (oc:fileid) is assigned once and never reused (tree.Number).
//	N3  A chunk is appended completely or not at all. Chunks are appended in order; a chunk whose
//	    predecessors are missing waits for them.
//	N4  Nothing becomes a file before a MOVE of .file, and then the upload is sealed without
//	    copying a byte.
package nextcloud
