package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// maxIDLength leaves room for the rest of the temporary file's name in NAME_MAX.
const maxIDLength = 220

// checkName rejects names that could lead to another directory, and names that start with a dot: readers of the
// directory ignore them as temporary files.
func checkName(id, name string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-"
	switch {
	case id == "":
		return errors.New("the OCI state has no container ID")
	case len(name) > maxIDLength:
		return fmt.Errorf("the container ID is longer than %d bytes", maxIDLength)
	case name[0] == '.' || strings.Trim(name, allowed) != "":
		return fmt.Errorf("the container ID %q is not a plain name", name)
	}
	return nil
}

// reportName is the report's file name without its extension. It must be unique for a container: every claim has a hook
// of its own, and so has every CDI device with limits.
func reportName(r record.Report) string {
	name := r.ID
	if r.Claim != "" {
		name += "." + r.Claim
	}
	if len(r.Limits) > 0 {
		name += "." + r.Limits[0].Device
	}
	return name
}

// WriteReport writes DIR/<container ID>.json with mode 0644. The claim and the first limited device follow the ID, if
// there are any. A reader sees the whole file or none. The file is not synced, because after a crash of the host the
// container is gone too.
func WriteReport(dir string, r record.Report) error {
	name := reportName(r)
	if err := checkName(r.ID, name); err != nil {
		return wrap("write report to "+strconv.Quote(dir), err)
	}
	return replaceReport(dir+"/"+name+".json", dir+"/."+name+"."+strconv.Itoa(os.Getpid())+".tmp", r)
}

// WriteLastReport writes a report in place of the one of an earlier container. It makes the directory of the file,
// whose parent must exist. One file needs nobody who removes old reports.
func WriteLastReport(path string, r record.Report) error {
	dir, base := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
	if err := unix.Mkdir(dir, 0o755); err != nil && err != unix.EEXIST {
		return wrap("make the directory "+strconv.Quote(dir)+" of the report", err)
	}
	return replaceReport(path, dir+"/."+base+"."+strconv.Itoa(os.Getpid())+".tmp", r)
}

// replaceReport writes a report whole: a reader sees the old file or the new one.
func replaceReport(path, temp string, r record.Report) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = writeFile(temp, append(data, '\n'))
	}
	if err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		unix.Unlink(temp)
		return wrap("write report "+strconv.Quote(path), err)
	}
	return nil
}

func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return cause(err)
	}
	_, err = f.Write(data)
	// The mode does not depend on the umask of the runtime.
	return cause(errors.Join(err, f.Chmod(0o644), f.Close()))
}
