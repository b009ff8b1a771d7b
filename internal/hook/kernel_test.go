package hook

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// kernel is the part of /proc and of one cgroup file system that the hook sees, with
// the kernel's rules.
type kernel struct {
	t       *testing.T
	proc    map[string]string // files of /proc, by path
	mount   string            // of the cgroup file system
	v1      bool              // it is the rdma hierarchy of cgroup v1
	devices []string          // those that the controller knows; nil: there is no controller
	procs   map[string][]int  // the processes of each cgroup, by its path below the mount
	max     map[string]string // limits that differ from max, by cgroup and device: "4 max"
	enabled map[string]bool   // cgroups of v2 whose subtree_control has rdma
	deny    map[string]error  // of writes, by path
	writes  []string
}

// hookPID is the process ID of the hook itself; it is in cgroup /runtime.
const hookPID, containerPID = 77, 4242

// v2Kernel has a container in /pods/web and rdma enabled for it.
func v2Kernel(t *testing.T) *kernel {
	return &kernel{
		t: t,
		proc: map[string]string{"/proc/4242/cgroup": "0::/pods/web\n", "/proc/self/cgroup": "0::/runtime\n",
			"/proc/self/mountinfo": ""},
		mount:   "/sys/fs/cgroup",
		devices: []string{"rxe0", "rxe01", "siw0"},
		procs:   map[string][]int{"": nil, "/runtime": {hookPID}, "/pods": nil, "/pods/web": {containerPID}},
		max:     map[string]string{},
		enabled: map[string]bool{"": true, "/pods": true},
	}
}

// v1Kernel has the same container in the rdma hierarchy of cgroup v1.
func v1Kernel(t *testing.T) *kernel {
	k := v2Kernel(t)
	k.v1, k.mount = true, "/sys/fs/cgroup/rdma"
	k.proc["/proc/4242/cgroup"] = "9:rdma:/pods/web\n1:name=systemd:/pods/web\n0::/\n"
	k.proc["/proc/self/cgroup"] = "9:rdma:/runtime\n1:name=systemd:/x\n0::/\n"
	return k
}

func (k *kernel) Read(path string) (string, error) {
	if text, ok := k.proc[path]; ok {
		return text, nil
	}
	group, file, err := k.find(path)
	if err != nil {
		return "", err
	}
	switch file {
	case "cgroup.procs":
		var b strings.Builder
		for _, pid := range k.procs[group] {
			b.WriteString(strconv.Itoa(pid) + "\n")
		}
		return b.String(), nil
	case "cgroup.subtree_control":
		return map[bool]string{true: "cpu rdma\n", false: "cpu\n"}[k.enabled[group]], nil
	case "cgroup.controllers":
		return map[bool]string{true: "cpu memory rdma pids\n", false: "cpu memory pids\n"}[k.devices != nil], nil
	}
	var b strings.Builder
	for _, d := range k.devices {
		now := k.limit(group, d)
		b.WriteString(d + " hca_handle=" + now.Handles.String() + " hca_object=" + now.Objects.String() + " \n")
	}
	return b.String(), nil
}

// find takes a path of the cgroup file system apart; a file that the kernel would not
// make is not there.
func (k *kernel) find(path string) (group, file string, err error) {
	below, ok := strings.CutPrefix(path, k.mount+"/")
	slash := strings.LastIndexByte("/"+below, '/')
	group, file = ("/" + below)[:slash], ("/" + below)[slash+1:]
	_, exists := k.procs[group]
	if !ok || !exists {
		return "", "", unix.ENOENT
	}
	parent, _, _ := cutLast(group)
	switch {
	case file == "cgroup.procs",
		!k.v1 && (file == "cgroup.controllers" || file == "cgroup.subtree_control"),
		file == "rdma.max" && group != "" && k.devices != nil && (k.v1 || k.enabled[parent]):
		return group, file, nil
	}
	return "", "", unix.ENOENT
}

func cutLast(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

func counts(handles, objects args.Count) record.Resources {
	return record.Resources{Handles: handles, Objects: objects}
}

func (k *kernel) limit(group, device string) (r record.Resources) {
	r = counts(args.NoLimit, args.NoLimit)
	if text, ok := k.max[group+" "+device]; ok {
		handles, objects, _ := strings.Cut(text, " ")
		if err := errors.Join(r.Handles.UnmarshalText([]byte(handles)),
			r.Objects.UnmarshalText([]byte(objects))); err != nil {
			k.t.Fatal(err)
		}
	}
	return r
}

func (k *kernel) Write(path, text string) error {
	group, file, err := k.find(path)
	if err == nil {
		err = k.deny[path]
	}
	if err != nil {
		return err
	}
	k.writes = append(k.writes, path+" "+text)
	if file == "cgroup.subtree_control" {
		if len(k.procs[group]) > 0 && group != "" {
			return unix.EBUSY
		}
		k.enabled[group] = text == "+rdma"
		return nil
	}
	words := strings.Fields(text)
	if file != "rdma.max" || len(words) != 3 || !slices.Contains(k.devices, words[0]) {
		return unix.EINVAL
	}
	k.max[group+" "+words[0]] = strings.TrimPrefix(words[1], "hca_handle=") + " " +
		strings.TrimPrefix(words[2], "hca_object=")
	return nil
}

func (k *kernel) limits() string {
	var b strings.Builder
	for _, at := range slices.Sorted(maps.Keys(k.max)) {
		b.WriteString(at + ": " + k.max[at] + "; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}
