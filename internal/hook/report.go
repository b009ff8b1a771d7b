package hook

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// ReportVersion is the version of the report's format. It changes when a field
// changes its meaning or goes; new fields may come without.
const ReportVersion = 1

// Report is the content of a report's file. encoding/json reads it; the hook itself
// writes it with AppendJSON. Sizes and counts are strings, see Size.MarshalText.
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

// AppendJSON appends the report as one line of JSON.
func (r Report) AppendJSON(b []byte) []byte {
	b = append(b, `{"reportVersion":`...)
	b = strconv.AppendInt(b, int64(r.ReportVersion), 10)
	b = appendString(append(b, `,"hookVersion":`...), r.HookVersion)
	b = appendString(append(b, `,"id":`...), r.ID)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(r.PID), 10)
	b = appendString(append(b, `,"status":`...), r.Status)
	b = appendString(append(b, `,"time":`...), r.Time.UTC().Format(time.RFC3339))
	b = appendOptional(b, "claim", r.Claim)
	b = appendOptional(b, "podUID", r.PodUID)
	b = appendOptional(b, "container", r.Container)
	if r.HostNetwork != nil {
		b = strconv.AppendBool(append(b, `,"hostNetwork":`...), *r.HostNetwork)
	}
	if r.Want != nil {
		b = appendSize(append(b, `,"want":`...), *r.Want)
	}
	b = appendString(append(b, `,"outcome":`...), string(r.Outcome))
	b = appendString(append(b, `,"message":`...), r.Message)
	if r.Before != nil {
		b = appendLimit(append(b, `,"before":`...), *r.Before)
	}
	if r.After != nil {
		b = appendLimit(append(b, `,"after":`...), *r.After)
	}
	b = appendList(b, "limits", r.Limits, appendLimitResult)
	b = appendList(b, "warnings", r.Warnings, appendString)
	return append(b, "}\n"...)
}

// appendOptional appends a member that is a string, unless it is empty.
func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendString(append(appendString(append(b, ','), name), ':'), value)
}

// appendList appends a member that is a list, unless it is empty.
func appendList[T any](b []byte, name string, list []T, one func([]byte, T) []byte) []byte {
	for i, v := range list {
		if i == 0 {
			b = append(appendString(append(b, ','), name), ":["...)
		} else {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

func appendLimitResult(b []byte, r LimitResult) []byte {
	b = appendString(append(b, `{"device":`...), r.Device)
	b = append(b, `,"want":{`...)
	if r.Want.Handles != 0 {
		b = appendString(append(b, `"handles":`...), r.Want.Handles.String())
	}
	if r.Want.Handles != 0 && r.Want.Objects != 0 {
		b = append(b, ',')
	}
	if r.Want.Objects != 0 {
		b = appendString(append(b, `"objects":`...), r.Want.Objects.String())
	}
	b = appendString(append(b, `},"outcome":`...), string(r.Outcome))
	b = appendString(append(b, `,"message":`...), r.Message)
	if r.Before != nil {
		b = appendResources(append(b, `,"before":`...), *r.Before)
	}
	if r.After != nil {
		b = appendResources(append(b, `,"after":`...), *r.After)
	}
	return append(b, '}')
}

func appendResources(b []byte, r Resources) []byte {
	b = appendString(append(b, `{"handles":`...), r.Handles.String())
	b = appendString(append(b, `,"objects":`...), r.Objects.String())
	return append(b, '}')
}

func appendLimit(b []byte, l Limit) []byte {
	b = appendSize(append(b, `{"soft":`...), l.Soft)
	b = appendSize(append(b, `,"hard":`...), l.Hard)
	return append(b, '}')
}

func appendSize(b []byte, s Size) []byte {
	text, _ := s.MarshalText() // never fails
	return appendString(b, string(text))
}

// appendString appends a JSON string. U+FFFD stands for what is not UTF-8.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
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
	err := writeFile(temp, r.AppendJSON(nil))
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
