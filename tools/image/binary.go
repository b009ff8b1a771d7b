package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is a program for the image.
type binary struct {
	name    string
	content []byte
	// revision is the commit it was built from; empty where the toolchain did not
	// record it.
	revision string
}

// machines maps Go's names of architectures to ELF's.
var machines = map[string]elf.Machine{
	"amd64":   elf.EM_X86_64,
	"arm64":   elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64,
	"riscv64": elf.EM_RISCV,
	"s390x":   elf.EM_S390,
}

// readBinary reads a program and refuses one that could not start in an image
// that holds nothing else: of another platform, or dynamically linked.
func readBinary(path string, platform v1.Platform) (binary, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("read binary: %w", err)
	}
	if err := checkStatic(content, platform); err != nil {
		return binary{}, fmt.Errorf("read binary %q: %w", path, err)
	}
	b := binary{name: filepath.Base(path), content: content}
	if info, err := buildinfo.Read(bytes.NewReader(content)); err == nil {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.revision = s.Value
			}
		}
	}
	return b, nil
}

func checkStatic(content []byte, platform v1.Platform) error {
	machine, known := machines[platform.Architecture]
	if platform.OS != "linux" || !known {
		return fmt.Errorf("platform %s is not supported", platform)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("no ELF program: %w", err)
	}
	if program.Machine != machine {
		return fmt.Errorf("built for %v, not for %s: set GOARCH or --platform", program.Machine, platform)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("dynamically linked, and the image holds no libraries: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
