package usable

import (
	"path"
	"slices"
	"strings"
)

// maxMountinfo bounds the mounts of a process: a hundred bytes for each.
const maxMountinfo = 16 << 20

// mount is one line of mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	device, point, kind, options string // device and options are those of the file system
}

type mounts []mount

func parseMounts(text string) mounts {
	var out mounts
	for line := range strings.SplitSeq(text, "\n") {
		front, back, _ := strings.Cut(line, " - ")
		kind, rest, _ := strings.Cut(back, " ")
		_, options, _ := strings.Cut(rest, " ")
		fields := strings.SplitN(front, " ", 6)
		if len(fields) > 4 && strings.HasPrefix(fields[4], "/") {
			out = append(out, mount{fields[2], unescape(fields[4]), kind, options})
		}
	}
	return out
}

// unescape decodes the characters that the kernel escapes in paths.
func unescape(s string) string {
	if strings.Contains(s, `\`) {
		return escapes.Replace(s)
	}
	return s
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// local are the file systems that always answer. An unknown one may not.
var local = []string{
	"overlay", "ext4", "xfs", "btrfs", "tmpfs", "proc", "sysfs", "cgroup2", "cgroup", "mqueue", "devpts", "devtmpfs",
	"rootfs", "ramfs", "ext3", "ext2", "f2fs", "zfs", "bcachefs", "erofs", "squashfs", "iso9660", "vfat", "jfs",
	"securityfs", "bpf", "debugfs", "tracefs", "hugetlbfs", "nsfs", "configfs", "pstore", "efivarfs", "binfmt_misc",
	"fusectl", "selinuxfs", "rpc_pipefs",
}

// remote returns the mount points whose file systems may not answer: those on FUSE and on the network, overlays other than
// the roots of container and host, and these roots over such file systems. Whoever has mounts of his own can mount an
// overlay over FUSE, and take the latter out of all lists. The layers of a root are paths among the host's mounts.
func (m mounts) remote(host mounts, root string) []string {
	var below, points []string
	hostRoot := ""
	for _, h := range host {
		if h.point == "/" {
			hostRoot = h.device
		}
		if !slices.Contains(local, h.kind) {
			below = append(below, h.point)
		}
	}
	for _, c := range m {
		isFar := !slices.Contains(local, c.kind)
		if c.kind == "overlay" {
			isFar = c.point != root && c.device != hostRoot || len(below) > 0 && isOver(c.options, below)
		}
		if isFar {
			points = append(points, c.point)
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
		key, value, _ := strings.Cut(unescape(option), "=")
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
