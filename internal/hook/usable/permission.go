package usable

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// overflowID is the owner of a file whose owner the reader's user namespace does not have.
const overflowID = 65534

// permission checks whether the container's user may open the node of an HCA for reading and writing.
func (c *Container) permission(h args.HCA) finding.Finding {
	p, at := &c.Process, "/"+nodeDir+"/"+h.Node
	fd, err := c.Root.path(at)
	if err != nil {
		return record.Permission.Found(finding.NotSeen, at+" cannot be looked at: "+err.Error()).About(h.IBDev)
	}
	defer unix.Close(fd)
	var node unix.Stat_t
	if err := unix.Fstat(fd, &node); err != nil {
		return record.Permission.Found(finding.NotSeen, at+" cannot be looked at: "+err.Error()).About(h.IBDev)
	}
	switch {
	case p.Unknown != "":
		return record.Permission.Found(finding.NotSeen, p.Unknown).About(h.IBDev)
	case node.Mode&unix.S_IFMT != unix.S_IFCHR:
		return record.Permission.Found(finding.NotSeen, at+" is no device").About(h.IBDev)
	case p.may(node, readWrite):
		if closed := c.closedDir(h); closed != nil {
			return *closed
		}
		return record.Permission.Found(finding.OK, at+describe(node)).About(h.IBDev)
	case node.Uid == overflowID || node.Gid == overflowID:
		return record.Permission.Found(finding.NotSeen, "the owner of "+at+" is not known in this user namespace").
			About(h.IBDev)
	case hasACL(fd):
		return record.Permission.Found(finding.NotSeen, at+" has an access control list").About(h.IBDev)
	}
	remedy := fmt.Sprintf("give the container the group %d (supplementalGroups, --group-add), or make the node readable and "+
		"writable for all on the host: rdma-core has a udev rule with mode 0666", node.Gid)
	if p.UIDs != nil && !has(p.GIDs, node.Gid) {
		remedy = "make the node readable and writable for all on the host: rdma-core has a udev rule with mode 0666"
	}
	return record.Permission.Found(finding.Error,
		"the container's user cannot open "+at+describe(node)+": it runs as "+p.who()).About(h.IBDev).Do(remedy)
}

// closedDir returns the check of an HCA if the container's user cannot search a directory of its node, else nil.
func (c *Container) closedDir(h args.HCA) *finding.Finding {
	for _, dir := range []string{path.Dir(nodeDir), nodeDir} {
		if c.Process.Override {
			break // this costs the hook of most containers nothing
		}
		fd, err := c.Root.path(dir)
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
			defer unix.Close(fd)
		}
		switch {
		case err != nil:
			check := record.Permission.Found(finding.NotSeen, "/"+dir+" cannot be looked at: "+err.Error()).About(h.IBDev)
			return &check
		case !c.Process.may(st, search) && !hasACL(fd):
			check := record.Permission.Found(finding.Error,
				"the container's user cannot search /"+dir+describe(st)+": it runs as "+c.Process.who()).
				About(h.IBDev).Do("make the directory searchable for all: mode 0755")
			return &check
		}
	}
	return nil
}

// who says as whom a process runs.
func (p *Process) who() string {
	who := "user " + strconv.FormatUint(uint64(p.UID), 10) + ", group " + strconv.FormatUint(uint64(p.GID), 10)
	if len(p.Groups) > 0 {
		who += fmt.Sprintf(", groups %v", p.Groups[:min(len(p.Groups), 8)])
	}
	if p.UIDs != nil {
		who += " on the host, because of a user namespace"
	}
	return who
}

func describe(node unix.Stat_t) string {
	return fmt.Sprintf(" (mode %04o, owner %d:%d)", node.Mode&0o777, node.Uid, node.Gid)
}

// Bits of a mode.
const readWrite, search = 6, 1

// may reports whether a process has bits of a file's mode, as the kernel checks them.
func (p *Process) may(f unix.Stat_t, bits uint32) bool {
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
	return mode&bits == bits
}

// hasACL reports whether a file has an access control list, or cannot be asked for one.
func hasACL(fd int) bool {
	_, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(fd), "system.posix_acl_access", nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}
