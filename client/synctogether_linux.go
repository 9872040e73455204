package client

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncTogether makes all that was written to the file system of root durable (syncfs(2)). An error
// means that the files have to be synced one by one, which tells of each. Kernels before 5.8 do not
// tell of bytes that could not be written; what is fetched is there to be fetched once more.
func syncTogether(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
}
