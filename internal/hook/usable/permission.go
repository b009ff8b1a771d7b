package usable

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
)

// overflowID is the owner of a file whose owner the reader's user namespace does not have.
const overflowID = 65534

// permission checks whether the container's user may open the node of an HCA for reading and writing.
func (c *Container) permission(h args.HCA) Check {
	p, at := &c.Process, "/"+nodeDir+"/"+h.Node
	fd, err := c.Root.path(at)
	if err != nil {
		return notChecked(Permission, h.IBDev, at+" cannot be looked at: "+err.Error())
	}
	defer unix.Close(fd)
	var node unix.Stat_t
	if err := unix.Fstat(fd, &node); err != nil {
		return notChecked(Permission, h.IBDev, at+" cannot be looked at: "+err.Error())
	}
	switch {
	case p.Unknown != "":
		return notChecked(Permission, h.IBDev, p.Unknown)
	case node.Mode&unix.S_IFMT != unix.S_IFCHR:
		return notChecked(Permission, h.IBDev, at+" is no device")
	case p.mayOpen(node):
		return Check{Kind: Permission, HCA: h.IBDev, Result: OK, Message: at + describe(node)}
	case node.Uid == overflowID || node.Gid == overflowID:
		return notChecked(Permission, h.IBDev, "the owner of "+at+" is not known in this user namespace")
	case hasACL(fd):
		return notChecked(Permission, h.IBDev, at+" has an access control list")
	}
	who := "user " + strconv.FormatUint(uint64(p.UID), 10) + ", group " + strconv.FormatUint(uint64(p.GID), 10)
	if len(p.Groups) > 0 {
		who += fmt.Sprintf(", groups %v", p.Groups[:min(len(p.Groups), 8)])
	}
	if p.UIDs != nil {
		who += " on the host, because of a user namespace"
	}
	remedy := fmt.Sprintf("give the container the group %d (supplementalGroups, --group-add), or make the node readable and "+
		"writable for all on the host: rdma-core has a udev rule with mode 0666", node.Gid)
	if p.UIDs != nil && !has(p.GIDs, node.Gid) {
		remedy = "make the node readable and writable for all on the host: rdma-core has a udev rule with mode 0666"
	}
	return Check{Kind: Permission, HCA: h.IBDev, Result: Unusable, Fails: true, Remedy: remedy,
		Message: "the container's user cannot open " + at + describe(node) + ": it runs as " + who}
}

func describe(node unix.Stat_t) string {
	return fmt.Sprintf(" (mode %04o, owner %d:%d)", node.Mode&0o777, node.Uid, node.Gid)
}

// mayOpen reports whether a process may open a file for reading and writing, as the kernel checks its mode.
func (p *Process) mayOpen(f unix.Stat_t) bool {
	const readWrite = 6
	if p.Override && has(p.UIDs, f.Uid) && has(p.GIDs, f.Gid) {
		return true
	}
	mode := f.Mode
	switch {
	case p.UID == f.Uid:
		mode >>= 6
	case p.GID == f.Gid || slices.Contains(p.Groups, f.Gid):
		mode >>= 3
	}
	return mode&readWrite == readWrite
}

// hasACL reports whether a file has an access control list, or cannot be asked for one.
func hasACL(fd int) bool {
	_, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(fd), "system.posix_acl_access", nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}
