package podnet

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Settings of ethtool(8) stay on the hardware when the interface leaves a pod. Each setting is a structure of 32-bit
// words (include/uapi/linux/ethtool.h) with one command to read and another to write.

// setting is a group of settings. Words outside of first and last are read-only.
type setting struct {
	name     string
	get, set uint32
	size     int // in words, the command included
	first    int // of the words that can be set
	last     int
}

var settings = [...]setting{
	{name: "features", get: unix.ETHTOOL_GFEATURES, set: unix.ETHTOOL_SFEATURES}, // see featuresOf
	{name: "private flags", get: unix.ETHTOOL_GPFLAGS, set: unix.ETHTOOL_SPFLAGS, size: 2, first: 1, last: 1},
	{name: "channels", get: unix.ETHTOOL_GCHANNELS, set: unix.ETHTOOL_SCHANNELS, size: 9, first: 5, last: 8},
	{name: "rings", get: unix.ETHTOOL_GRINGPARAM, set: unix.ETHTOOL_SRINGPARAM, size: 9, first: 5, last: 8},
	{name: "coalescing", get: unix.ETHTOOL_GCOALESCE, set: unix.ETHTOOL_SCOALESCE, size: 23, first: 1, last: 22},
	{name: "pause", get: unix.ETHTOOL_GPAUSEPARAM, set: unix.ETHTOOL_SPAUSEPARAM, size: 4, first: 1, last: 3},
	{name: "forward error correction", get: unix.ETHTOOL_GFECPARAM, set: unix.ETHTOOL_SFECPARAM, size: 4, first: 2,
		last: 2},
	{name: "wake on LAN", get: unix.ETHTOOL_GWOL, set: unix.ETHTOOL_SWOL, size: 5, first: 2, last: 4},
	{name: "message level", get: unix.ETHTOOL_GMSGLVL, set: unix.ETHTOOL_SMSGLVL, size: 2, first: 1, last: 1},
}

// featureWords is more than the number of words in the kernel, with 32 features each. The second word of a block has
// the requested state.
const featureWords, featureBlock = 8, 4

// ethtool is a socket to read and change settings of an interface in the thread's namespace.
type ethtool struct {
	fd   int
	name [unix.IFNAMSIZ]byte
}

func newEthtool(link string) (e ethtool, err error) {
	copy(e.name[:unix.IFNAMSIZ-1], link)
	e.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return e, err
}

func (e *ethtool) close() { unix.Close(e.fd) }

// do passes the words to the kernel, which reads or fills them. The first word is the command.
func (e *ethtool) do(words []uint32) error {
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{name: e.name, data: unsafe.Pointer(&words[0])}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// read returns all words of a setting as they are.
func (e *ethtool) read(s *setting) ([]uint32, error) {
	size := s.size
	if s.get == unix.ETHTOOL_GFEATURES {
		size = 2 + featureWords*featureBlock
	}
	words := make([]uint32, size)
	words[0] = s.get
	if s.get == unix.ETHTOOL_GFEATURES {
		words[1] = featureWords
	}
	err := e.do(words)
	return words, err
}

// settable returns the writable words.
func (s *setting) settable(words []uint32) (out []uint32) {
	if s.get != unix.ETHTOOL_GFEATURES {
		return words[s.first : s.last+1]
	}
	for i := range min(words[1], featureWords) {
		out = append(out, words[2+i*featureBlock+1])
	}
	return out
}

// with returns the words to write to change the present words to the wanted settings.
func (s *setting) with(words, want []uint32) []uint32 {
	if s.get != unix.ETHTOOL_GFEATURES {
		copy(words[s.first:s.last+1], want)
		words[0] = s.set
		return words
	}
	out := []uint32{s.set, words[1]}
	for i, now := range s.settable(words) {
		wanted := now
		if i < len(want) {
			wanted = want[i]
		}
		available, fixed := words[2+i*featureBlock], words[2+i*featureBlock+3]
		out = append(out, (now^wanted)&available&^fixed, wanted)
	}
	return out
}

// ethtoolOf returns the settings that the driver of an interface supports.
func ethtoolOf(link string) (map[string][]uint32, error) {
	e, err := newEthtool(link)
	if err != nil {
		return nil, err
	}
	defer e.close()
	out := map[string][]uint32{}
	for _, s := range settings {
		if words, err := e.read(&s); err == nil { // most drivers lack some of them
			out[s.name] = slices.Clone(s.settable(words))
		}
	}
	return out, nil
}

// setEthtool changes the settings of an interface that differ. It continues after an error.
func setEthtool(link string, want map[string][]uint32) error {
	if len(want) == 0 {
		return nil
	}
	e, err := newEthtool(link)
	if err != nil {
		return err
	}
	defer e.close()
	var errs []error
	for _, s := range settings {
		if wanted, ok := want[s.name]; ok {
			if err := e.restore(&s, wanted); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (e *ethtool) restore(s *setting, want []uint32) error {
	words, err := e.read(s)
	if err != nil || slices.Equal(s.settable(words), want) {
		return err
	}
	return e.do(s.with(words, want))
}
