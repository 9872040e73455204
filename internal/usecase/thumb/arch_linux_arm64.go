package thumb

import "golang.org/x/sys/unix"

// auditArch is the only architecture whose system calls the seccomp filter lets through.
const auditArch = unix.AUDIT_ARCH_AARCH64
