package hook

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ReportVersion is the version of the report's format. It changes when a field
// changes its meaning or goes; new fields may come without.
const ReportVersion = 1

// Report is the content of a report's file, one line of JSON. Sizes and counts are strings, see Size.MarshalText.
type Report struct {
	ReportVersion int           `json:"reportVersion"`
	HookVersion   string        `json:"hookVersion"`
	ID            string        `json:"id"`                    // container ID
	PID           int           `json:"pid"`                   // of the container's init process, 0 where unknown
	Status        string        `json:"status"`                // as in the OCI state
	Time          time.Time     `json:"time"`                  // UTC, to the second
	Claim         string        `json:"claim,omitempty"`       // of --claim
	PodUID        string        `json:"podUID,omitempty"`      // where the runtime tells
	Container     string        `json:"container,omitempty"`   // its name in the pod, where the runtime tells
	HostNetwork   *bool         `json:"hostNetwork,omitempty"` // of --claim: whether the container is in the host's network namespace; absent where that cannot be seen
	Want          *Size         `json:"want,omitempty"`
	Outcome       Outcome       `json:"outcome"`
	Message       string        `json:"message"`
	Before        *Limit        `json:"before,omitempty"`
	After         *Limit        `json:"after,omitempty"`
	Limits        []LimitResult `json:"limits,omitempty"` // of --limit; what stands before is of --memlock
	Warnings      []string      `json:"warnings,omitempty"`
}

// maxIDLength leaves room for the rest of the temporary file's name in NAME_MAX.
const maxIDLength = 220

// checkName refuses names that could be of a file elsewhere, and those that start
// with a dot, which readers of the directory take for temporary files.
func checkName(id, name string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-"
	switch {
	case id == "":
		return errors.New("the OCI state has no container ID")
	case len(name) > maxIDLength:
		return errors.New("the container ID is longer than " + strconv.Itoa(maxIDLength) + " bytes")
	case name[0] == '.' || strings.Trim(name, allowed) != "" || strings.ContainsAny(name, "/\x00"):
		return errors.New("the container ID " + strconv.Quote(name) + " is not a plain name")
	}
	return nil
}

// name is the report's file name without its end. Every claim has a hook of its own, and
// so has every CDI device with limits, and none should replace what another one says of
// the same container.
func (r Report) name() string {
	name := r.ID
	if r.Claim != "" {
		name += "." + r.Claim
	}
	if len(r.Limits) > 0 {
		name += "." + r.Limits[0].Device
	}
	return name
}

// WriteReport writes DIR/<container ID>.json, with the claim and the first device that is
// limited after the ID where there are any, with mode 0644. A reader sees the whole file or
// none. It is not synced to disk: after a crash of the host the container is gone, too.
func WriteReport(dir string, r Report) error {
	name := r.name()
	if err := checkName(r.ID, name); err != nil {
		return wrap("write report to "+strconv.Quote(dir), err)
	}
	path := dir + "/" + name + ".json"
	temp := dir + "/." + name + "." + strconv.Itoa(os.Getpid()) + ".tmp"
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

// writeFile uses the system calls themselves: os.OpenFile would start the
// runtime's poller for this one file.
func writeFile(path string, data []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0o644)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o644) // whatever the umask of the runtime
	}
	if e := unix.Close(fd); err == nil {
		err = e
	}
	return err
}
