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

// Report is the content of DIR/<container ID>.json. encoding/json reads it; the
// hook itself writes it with AppendJSON. Sizes are strings, see Size.MarshalText.
type Report struct {
	ReportVersion int       `json:"reportVersion"`
	HookVersion   string    `json:"hookVersion"`
	ID            string    `json:"id"`     // container ID
	PID           int       `json:"pid"`    // of the container's init process, 0 where unknown
	Status        string    `json:"status"` // as in the OCI state
	Time          time.Time `json:"time"`   // UTC, to the second
	Want          *Size     `json:"want,omitempty"`
	Outcome       Outcome   `json:"outcome"`
	Message       string    `json:"message"`
	Before        *Limit    `json:"before,omitempty"`
	After         *Limit    `json:"after,omitempty"`
	Warnings      []string  `json:"warnings,omitempty"`
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
	for i, w := range r.Warnings {
		if i == 0 {
			b = append(b, `,"warnings":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, w)
	}
	if len(r.Warnings) > 0 {
		b = append(b, ']')
	}
	return append(b, "}\n"...)
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

// checkID refuses IDs that could name a file elsewhere, and those that start
// with a dot, which readers of the directory take for temporary files.
func checkID(id string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-"
	switch {
	case id == "":
		return errors.New("the OCI state has no container ID")
	case len(id) > maxIDLength:
		return errors.New("the container ID is longer than " + strconv.Itoa(maxIDLength) + " bytes")
	case id[0] == '.' || strings.Trim(id, allowed) != "" || strings.ContainsAny(id, "/\x00"):
		return errors.New("the container ID " + strconv.Quote(id) + " is not a plain name")
	}
	return nil
}

// WriteReport writes DIR/<container ID>.json with mode 0644. A reader sees the
// whole file or none. It is not synced to disk: after a crash of the host the
// container is gone, too.
func WriteReport(dir string, r Report) error {
	if err := checkID(r.ID); err != nil {
		return wrap("write report to "+strconv.Quote(dir), err)
	}
	path := dir + "/" + r.ID + ".json"
	temp := dir + "/." + r.ID + "." + strconv.Itoa(os.Getpid()) + ".tmp"
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
