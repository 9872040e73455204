package local

import "golang.org/x/sys/unix"

// bootID returns the id of the boot session.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return randomBootID()
	}
	return id
}
