package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Date returns the date of everything in a package: SOURCE_DATE_EPOCH if it is
// set (https://reproducible-builds.org/specs/source-date-epoch/), else that of the
// last commit.
func Date(ctx context.Context, source string) (time.Time, error) {
	epoch, from := os.Getenv("SOURCE_DATE_EPOCH"), "SOURCE_DATE_EPOCH"
	if epoch == "" {
		from = "date of the last commit"
		out, err := command(ctx, source, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, fmt.Errorf("find the date of the last commit (set SOURCE_DATE_EPOCH outside of a git checkout): %w", err)
		}
		epoch = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("parse %s %q: want seconds since 1970", from, epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// build links the programs for an architecture and returns their directory. What
// would change the result is set here, whatever the environment says.
func (r *run) build(ctx context.Context, arch string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(r.work, "bin-"+arch))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // the host's own, built for its manual pages
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make directory for programs: %w", err)
	}
	r.progress("building for %s", arch)
	_, err = command(ctx, r.Source, buildEnv("linux", arch), "go", r.buildArgs(dir+"/", "./cmd/cdi-gen", "./cmd/rdma-hook")...)
	if err != nil {
		return "", fmt.Errorf("build for %s: %w", arch, err)
	}
	return dir, nil
}

// compileFlags are those of hack/env.sh, whose cache of compiled packages serves then. Programs are stripped anyway.
const compileFlags = "-trimpath -gcflags=all=-dwarf=false"

// buildEnv is all of the environment that changes what is linked.
func buildEnv(goos, arch string) []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=" + compileFlags, "GOEXPERIMENT=", "GOWORK=off"}
}

func (r *run) buildArgs(out string, packages ...string) []string {
	ldflags := "-s -w -X github.com/rdma-dev/dra-driver-rdma/internal/base/version.Version=" + r.Version + " -X main.version=" + r.Version
	// grpcnotrace: the Makefile says why.
	flags := []string{"build", "-tags", "grpcnotrace", "-buildvcs=false", "-ldflags", ldflags, "-o", out}
	return append(flags, packages...)
}

// command runs a program and returns what it prints. The error has its messages.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w\n%s", cmd, err, stderr.Bytes())
	}
	return out, nil
}
