package filelock

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// WritePID replaces the content of the file by the id of this process, which must hold the lock. It
// fails if the file cannot be written; the lock is still held then.
func WritePID(f *os.File) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

// ReadPID returns the process id that WritePID wrote last; 0 if the file is empty or cannot be
// read. That process may have ended.
func ReadPID(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}
