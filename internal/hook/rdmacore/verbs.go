package rdmacore

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Verbs contains the provider settings that are compiled into libibverbs.
type Verbs struct {
	Path        string // without a leading slash, for messages
	ABI         string // such as 34
	ProviderDir string // absolute: VERBS_PROVIDER_DIR
	ConfigDir   string // absolute: IBV_CONFIG_DIR
}

// VerbsLibrary is the SONAME of libibverbs, PrivateVersion the beginning of the symbol version that it shares with its
// providers.
const (
	VerbsLibrary   = "libibverbs.so.1"
	PrivateVersion = "IBVERBS_PRIVATE_"
)

// ErrNotVerbs is in the error for a libibverbs that is not built like that of rdma-core.
var ErrNotVerbs = errors.New("no provider directory and no libibverbs.d compiled in: not the libibverbs of rdma-core")

// ReadVerbs reads the provider settings that are compiled into libibverbs: the strings of load_driver and read_config
// in rdma-core's libibverbs/dynamic_driver.c.
func ReadVerbs(o *Object, at string) (Verbs, error) {
	v := Verbs{Path: at}
	for text := range strings.SplitSeq(string(o.ROData), "\x00") {
		if !strings.HasPrefix(text, "/") || len(text) > MaxPath {
			continue
		}
		if dir, abi, ok := providerFormat(text); ok && v.ProviderDir == "" {
			v.ProviderDir, v.ABI = path.Clean(dir), abi
		}
		if strings.HasSuffix(text, "/libibverbs.d") && v.ConfigDir == "" {
			v.ConfigDir = path.Clean(text)
		}
	}
	if v.ProviderDir == "" || v.ConfigDir == "" {
		return Verbs{}, fmt.Errorf("read library /%s: %w", at, ErrNotVerbs)
	}
	if !slices.Contains(o.Defines, PrivateVersion+v.ABI) {
		return Verbs{}, fmt.Errorf("read library /%s: it loads providers of private ABI %s, but does not define %s%s: "+
			"reinstall rdma-core", at, v.ABI, PrivateVersion, v.ABI)
	}
	return v, nil
}

// providerFormat parses DIR/lib%s-rdmavABI.so.
func providerFormat(text string) (dir, abi string, ok bool) {
	dir, rest, ok := strings.Cut(text, "/lib%s-rdmav")
	abi, hasSuffix := strings.CutSuffix(rest, ".so")
	return dir, abi, ok && hasSuffix && abi != "" && strings.Trim(abi, "0123456789") == "" && len(abi) < 10
}

// File returns the absolute path where libibverbs looks first for a provider. A name with a slash is a path without the
// suffix.
func (v *Verbs) File(driver string) string {
	if strings.HasPrefix(driver, "/") {
		return driver + v.Suffix()
	}
	return path.Join(v.ProviderDir, "lib"+driver+v.Suffix())
}

// Suffix is the end of the names of providers.
func (v *Verbs) Suffix() string { return "-rdmav" + v.ABI + ".so" }

// PrivateABIs returns the numbers of the private ABIs among symbol versions, "none" for none.
func PrivateABIs(versions []string) string {
	var abis []string
	for _, v := range versions {
		if abi, ok := strings.CutPrefix(v, PrivateVersion); ok {
			abis = append(abis, abi)
		}
	}
	if len(abis) == 0 {
		return "none"
	}
	return strings.Join(abis, ", ")
}

// MaxConfig bounds the size of a file in the configuration directory, which has one line.
const MaxConfig = 1 << 20

// ParseDrivers returns the names in one file of the configuration directory, as libibverbs reads it (read_config_file):
// each line is "driver NAME", and # begins a comment.
func ParseDrivers(data string) []string {
	var names []string
	for line := range strings.Lines(data) {
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
		if len(fields) >= 2 && fields[0] == "driver" {
			names = append(names, fields[1])
		}
	}
	return names
}
