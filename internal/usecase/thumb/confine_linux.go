//go:build amd64 || arm64

package thumb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canConfine reports whether the kernel supports Landlock (Linux 5.13), without which helpers are
// not run.
func canConfine() bool {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && version >= 1
}

// confine drops the privileges that a helper does not need and replaces this process by argv. It
// returns only on an error; privileges already dropped are not restored.
func confine(limit limits, dir string, argv []string) error {
	runtime.LockOSThread() // the restrictions apply to one thread, and exec keeps the calling one
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := limit.set(); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // the OOM killer picks the helper before the server
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := restrictFiles(dir, filepath.Dir(argv[0])); err != nil {
		return err
	}
	if err := blockCalls(); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ())) //nolint:gosec // the helper that was found at the start
}

// Sets of file access rights, as far as the first version of Landlock knows them.
const (
	canRead     = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	canExecute  = canRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	canWrite    = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	otherRights = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// restrictFiles denies the process all files except dir, where it may read and write, and the
// directories of programs, libraries and fonts, where it may read.
func restrictFiles(dir, programs string) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: canExecute | canWrite | otherRights}
	// The first field is all that the first version of Landlock knows.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0) //nolint:gosec // the call takes a pointer
	if errno != 0 {
		return fmt.Errorf("make a set of rules for files: %w", errno)
	}
	defer unix.Close(int(fd)) //nolint:errcheck // it goes with the process
	for path, access := range map[string]uint64{
		dir: canRead | canWrite, programs: canExecute, "/usr": canExecute, "/lib": canExecute, "/lib64": canExecute, "/etc/fonts": canRead, "/etc/ld.so.cache": unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/var/cache/fontconfig": canRead, "/dev/null": unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE,
		"/dev/urandom": unix.LANDLOCK_ACCESS_FS_READ_FILE,
	} {
		if err := allowPath(int(fd), path, access); err != nil {
			return fmt.Errorf("allow access to %s: %w", path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("give up files: %w", errno)
	}
	return nil
}

// allowPath allows access to what is at and below path in the Landlock ruleset rules. A missing
// path is skipped without an error.
func allowPath(rules int, path string, access uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at) //nolint:errcheck // it was only named
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(at)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 { //nolint:gosec // likewise
		return errno
	}
	return nil
}

// blockedCalls are the system calls that reach the network, other processes or much of the kernel.
var blockedCalls = []uint32{
	unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT4, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KILL, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SETTIMEOFDAY, unix.SYS_OPEN_BY_HANDLE_AT,
}

// blockCalls makes the system calls of blockedCalls fail with EPERM from now on (seccomp(2)). A
// call of another architecture kills the process.
func blockCalls() error {
	const (
		number, arch = 0, 4       // offsets in struct seccomp_data
		compat       = 0x40000000 // numbers from here on are the x32 calls of amd64
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	end := func(how uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: how}
	}
	refuse := end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	equal := uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
	program := []unix.SockFilter{
		load(arch),
		{Code: equal, Jt: 1, K: auditArch},
		end(unix.SECCOMP_RET_KILL_PROCESS),
		load(number),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: compat},
		refuse,
	}
	for _, call := range blockedCalls {
		program = append(program, unix.SockFilter{Code: equal, Jf: 1, K: call}, refuse)
	}
	program = append(program, end(unix.SECCOMP_RET_ALLOW))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter))) //nolint:gosec // likewise
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("give up calls: %w", errno)
	}
	return nil
}
