package usable

import (
	"encoding/json"
	"errors"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is the process that a container starts with.
type Process struct {
	UID, GID uint32 // as the reader sees them, like the owners of files
	Groups   []uint32
	// Override means that the process may open a file whatever its mode, where its user namespace has the file's owner.
	Override bool
	// UIDs and GIDs are the owners in the process's user namespace, nil for all.
	UIDs, GIDs []idRange
	// Unknown is why its permissions are not known, "" if they are.
	Unknown string
	Env     []string
	Cwd     string
	Memlock *uint64 // the soft limit: that of the OCI spec or of the running process, nil for none or unknown
	// IPCLock means that no limit of locked memory applies to the process. It is set for running ones only.
	IPCLock bool
}

// bundle is what is needed of config.json of an OCI bundle.
type bundle struct {
	Process struct {
		User struct {
			UID, GID       uint32
			AdditionalGids []uint32
		}
		Capabilities struct{ Bounding, Effective, Ambient []string }
		Env          []string
		Cwd          string
		Rlimits      []struct {
			Type string
			Soft uint64
		}
	}
	Root        struct{ Path string }
	Annotations map[string]string
}

// maxBundle bounds config.json. It has the annotations of the pod: at most 256 KiB.
const maxBundle = 8 << 20

// ReadBundle reads config.json of an OCI bundle. pid is the container's process, whose user namespace tells which IDs
// of the reader its IDs are. root is the path of the root file system on the host.
func ReadBundle(dir string, pid int) (p Process, root string, err error) {
	data, err := readFile(dir+"/config.json", maxBundle)
	if err != nil {
		return p, "", wrap("read config.json of the bundle "+quote(dir), err)
	}
	b, err := parseBundle(data)
	if err != nil {
		return p, "", err
	}
	root = b.Root.Path
	if !strings.HasPrefix(root, "/") {
		root = path.Join(dir, root)
	}
	p = b.process()
	p.mapIDs(pid)
	return p, path.Clean(root), nil
}

func parseBundle(data []byte) (b bundle, err error) {
	if err := json.Unmarshal(data, &b); err != nil {
		return b, wrap("parse config.json of the bundle", err)
	}
	if b.Root.Path == "" {
		return b, errors.New("parse config.json of the bundle: it names no root file system")
	}
	return b, nil
}

func (b *bundle) process() Process {
	user, caps := b.Process.User, b.Process.Capabilities
	p := Process{UID: user.UID, GID: user.GID, Groups: user.AdditionalGids, Env: b.Process.Env, Cwd: b.Process.Cwd}
	const override = "CAP_DAC_OVERRIDE"
	// A program of root gets what is bounding. Others keep what is ambient.
	p.Override = slices.Contains(caps.Ambient, override) || slices.Contains(caps.Effective, override) ||
		user.UID == 0 && slices.Contains(caps.Bounding, override)
	if b.Annotations["run.oci.keep_original_groups"] != "" {
		p.Unknown = "the runtime gives the process its own groups"
	}
	for _, l := range b.Process.Rlimits {
		if l.Type == "RLIMIT_MEMLOCK" {
			p.Memlock = &l.Soft
		}
	}
	return p
}

// mapIDs replaces the IDs of the process's user namespace by those of the reader's.
func (p *Process) mapIDs(pid int) {
	proc := "/proc/" + strconv.Itoa(pid)
	var own, other unix.Stat_t
	if unix.Stat("/proc/self/ns/user", &own) != nil || unix.Stat(proc+"/ns/user", &other) != nil {
		p.Unknown = "the user namespace of the process cannot be read"
		return
	}
	if own.Ino == other.Ino && own.Dev == other.Dev {
		return
	}
	var known [2]bool
	p.UIDs, known[0] = readRanges(proc + "/uid_map")
	p.GIDs, known[1] = readRanges(proc + "/gid_map")
	mapped := func(ranges []idRange, id *uint32) bool {
		if ranges == nil {
			return true
		}
		for _, r := range ranges {
			if *id >= r.inside && *id-r.inside < r.count {
				*id += r.outside - r.inside
				return true
			}
		}
		return false
	}
	ok := known[0] && known[1] && mapped(p.UIDs, &p.UID) && mapped(p.GIDs, &p.GID)
	p.Groups = slices.Clone(p.Groups)
	for i := range p.Groups {
		ok = ok && mapped(p.GIDs, &p.Groups[i])
	}
	if !ok {
		p.Unknown = unknownIDs
	}
}

const unknownIDs = "the IDs of the process's user namespace are not known"

// idRange is a line of uid_map or gid_map (user_namespaces(7)).
type idRange struct{ inside, outside, count uint32 }

// readRanges reads the IDs of a user namespace, nil for one that has all IDs as they are.
func readRanges(name string) (out []idRange, ok bool) {
	text, err := readFile(name, 64<<10)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(string(text)) {
		var n [3]uint32
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, false
		}
		for i, f := range fields {
			v, err := strconv.ParseUint(f, 10, 32)
			if err != nil {
				return nil, false
			}
			n[i] = uint32(v)
		}
		out = append(out, idRange{n[0], n[1], n[2]})
	}
	if slices.Equal(out, []idRange{{0, 0, math.MaxUint32}}) {
		return nil, true
	}
	return out, len(out) > 0
}

// has reports whether the IDs of the reader have an ID of the ranges, nil for all.
func has(ranges []idRange, id uint32) bool {
	return ranges == nil || slices.ContainsFunc(ranges, func(r idRange) bool {
		return id >= r.outside && id-r.outside < r.count
	})
}

// environment has the variables of a process. The last value of a repeated name counts, as in most runtimes.
type environment struct {
	values map[string]string
	cwd    string
}

// environment returns those variables that the checks look at.
func (p *Process) environment() environment {
	e := environment{values: map[string]string{}, cwd: p.Cwd}
	for _, v := range p.Env {
		if name, value, ok := strings.Cut(v, "="); ok && slices.Contains(looked, name) {
			e.values[name] = value
		}
	}
	return e
}

var looked = []string{
	"LD_LIBRARY_PATH", "LD_PRELOAD", "IBV_DRIVERS", "RDMAV_DRIVERS", "NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST",
}

func (e environment) get(name string) string { return e.values[name] }

// maxLibraryPath bounds the directories of LD_LIBRARY_PATH.
const maxLibraryPath = 64

// libraryPath returns the directories of LD_LIBRARY_PATH. An empty one is the working directory.
func (e environment) libraryPath() (dirs []string) {
	if e.get("LD_LIBRARY_PATH") == "" {
		return nil
	}
	for dir := range strings.SplitSeq(strings.ReplaceAll(e.get("LD_LIBRARY_PATH"), ";", ":"), ":") {
		if !strings.HasPrefix(dir, "/") {
			dir = path.Join("/", e.cwd, dir)
		}
		if dirs = append(dirs, dir); len(dirs) == maxLibraryPath {
			break
		}
	}
	return dirs
}
