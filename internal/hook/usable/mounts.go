package usable

import (
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/mountinfo"
)

// maxMountinfo bounds the mounts of a process: a hundred bytes for each.
const maxMountinfo = 16 << 20

// local are the file systems that always answer. An unknown one may not.
var local = []string{
	"overlay", "ext4", "xfs", "btrfs", "tmpfs", "proc", "sysfs", "cgroup2", "cgroup", "mqueue", "devpts", "devtmpfs",
	"rootfs", "ramfs", "ext3", "ext2", "f2fs", "zfs", "bcachefs", "erofs", "squashfs", "iso9660", "vfat", "jfs",
	"securityfs", "bpf", "debugfs", "tracefs", "hugetlbfs", "nsfs", "configfs", "pstore", "efivarfs", "binfmt_misc",
	"fusectl", "selinuxfs", "rpc_pipefs",
}

// remotePoints returns the mount points of a mountinfo file whose file systems may not answer: those on FUSE and on the
// network, overlays other than the roots of container and host, and these roots over such file systems. Whoever has
// mounts of his own can mount an overlay over FUSE, and take the latter out of all lists. The layers of a root are
// paths among the host's mounts.
func remotePoints(mounts, host, root string) []string {
	var below, points []string
	hostRoot := ""
	for h := range mountinfo.Parse(host) {
		if h.Point == "/" {
			hostRoot = h.Device
		}
		if !slices.Contains(local, h.Kind) {
			below = append(below, h.Point)
		}
	}
	for m := range mountinfo.Parse(mounts) {
		isFar := !slices.Contains(local, m.Kind)
		if m.Kind == "overlay" {
			isFar = m.Point != root && m.Device != hostRoot || len(below) > 0 && isOver(m.FileSystemOptions, below)
		}
		if isFar {
			points = append(points, m.Point)
		}
	}
	return points
}

// isOver reports whether a layer of an overlay may be on one of the mount points. A layer's path can be relative to an
// unknown directory: containerd and docker use one above the upper layer.
func isOver(options string, points []string) bool {
	var layers []string
	upper := "/"
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch strings.TrimSuffix(key, "+") {
		case "lowerdir", "datadir":
			layers = append(layers, strings.Split(value, ":")...)
		case "upperdir":
			upper = value
			layers = append(layers, value)
		}
	}
	for _, layer := range layers {
		if strings.HasPrefix(layer, "/") {
			if isWithinAny(layer, points) {
				return true
			}
			continue
		}
		for dir := path.Dir(upper); ; dir = path.Dir(dir) {
			if isWithinAny(path.Join(dir, layer), points) {
				return true
			}
			if len(dir) <= 1 {
				break
			}
		}
	}
	return false
}

// isWithinAny reports whether a path is one of the directories or below.
func isWithinAny(name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/"))
		return ok && (rest == "" || rest[0] == '/')
	})
}
