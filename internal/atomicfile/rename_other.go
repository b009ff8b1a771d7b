//go:build !linux

package atomicfile

import "syscall"

// Only Linux has renameat2. kubectl-rdma links this package on other systems, and writes no file.
const (
	renameExchange = iota + 1
	renameNoReplace
)

func sysRenameat2(string, string, uint) error { return syscall.ENOSYS }
