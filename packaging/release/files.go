package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rdma-dev/dra-driver-rdma/packaging/manpage"
)

// file is a file of a package.
type file struct {
	path   string      // where it is installed
	mode   fs.FileMode // 0755 or 0644
	source string      // the file it is copied from
	only   string      // the kinds of packages that have it, such as "deb rpm"; all if empty
}

const (
	docDir     = "/usr/share/doc/" + Name
	licenseDir = "/usr/share/licenses/" + Name // of an rpm
)

// programs are the binaries in a directory.
func programs(bin string) []file {
	var out []file
	for _, name := range []string{"cdi-gen", "rdma-hook"} {
		out = append(out, file{path: "/usr/bin/" + name, mode: 0o755, source: filepath.Join(bin, name)})
	}
	return out
}

// texts returns the files of the checkout that are packaged as they are. Unit files
// and udev rules are found by their endings, so that one can be added without a
// word here.
func (r *run) texts() ([]file, error) {
	license := filepath.Join(r.Source, "LICENSE")
	out := []file{
		{path: licenseDir + "/LICENSE", source: license, only: "rpm"},
		{path: docDir + "/LICENSE", source: license, only: "tar"},
		{path: "/etc/default/" + Name, source: filepath.Join(r.Source, "packaging/default", Name), only: "deb rpm"},
		{
			path:   "/usr/share/lintian/overrides/" + Name,
			source: filepath.Join(r.Source, "packaging/debian/lintian-overrides"), only: "deb",
		},
	}
	for _, g := range []struct{ pattern, dir string }{
		{"docs/*.svg", docDir},
		{"docs/*.png", docDir},
		{"packaging/systemd/*.service", "/usr/lib/systemd/system"},
		{"packaging/systemd/*.path", "/usr/lib/systemd/system"},
		{"packaging/systemd/*.timer", "/usr/lib/systemd/system"},
		{"packaging/udev/*.rules", "/usr/lib/udev/rules.d"},
	} {
		files, err := filepath.Glob(filepath.Join(r.Source, filepath.FromSlash(g.pattern)))
		if err != nil {
			return nil, fmt.Errorf("find files %q: %w", g.pattern, err)
		}
		for _, f := range files {
			out = append(out, file{path: path.Join(g.dir, filepath.Base(f)), source: f})
		}
	}
	for i := range out {
		out[i].mode = 0o644
		if _, err := os.Stat(out[i].source); err != nil {
			return nil, fmt.Errorf("find file to package: %w", err)
		}
	}
	return out, nil
}

// manPages makes the manual pages of both programs and of all commands of cdi-gen.
func (r *run) manPages(ctx context.Context, bin string) ([]file, error) {
	r.progress("writing manual pages and completions")
	pages, err := r.commandPages(ctx, bin, []string{"cdi-gen"}, "write CDI specs for the RDMA devices of this host")
	if err != nil {
		return nil, err
	}
	codes, err := command(ctx, "", nil, filepath.Join(bin, "cdi-gen"), "help", "exit-codes")
	if err != nil {
		return nil, fmt.Errorf("read the exit codes of cdi-gen: %w", err)
	}
	pages[0].Help += "\n" + string(codes)
	help, err := command(ctx, "", nil, filepath.Join(bin, "rdma-hook"), "--help")
	if err != nil {
		return nil, fmt.Errorf("read the help of rdma-hook: %w", err)
	}
	pages = append(pages, manpage.Page{Name: "rdma-hook", Section: 8, Summary: "raise the locked memory limit of a container", Help: string(help)})
	var out []file
	for _, p := range pages {
		p.Version, p.Date = Name+" "+r.version, r.Date
		for _, other := range pages {
			if other.Name != p.Name && (p.Name == "cdi-gen" || other.Name == "cdi-gen") {
				p.SeeAlso = append(p.SeeAlso, other.Reference())
			}
		}
		slices.Sort(p.SeeAlso)
		f, err := r.manPage(p)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// commandPages returns the page of a command and those of its subcommands.
func (r *run) commandPages(ctx context.Context, bin string, words []string, summary string) ([]manpage.Page, error) {
	help, err := command(ctx, "", nil, filepath.Join(bin, words[0]), append(slices.Clone(words[1:]), "--help")...)
	if err != nil {
		return nil, fmt.Errorf("read the help of %s: %w", strings.Join(words, " "), err)
	}
	pages := []manpage.Page{{Name: strings.Join(words, " "), Section: 1, Summary: summary, Help: string(help)}}
	names, summaries := manpage.Commands(string(help))
	for _, name := range names {
		below, err := r.commandPages(ctx, bin, append(slices.Clone(words), name), lowerFirst(summaries[name]))
		if err != nil {
			return nil, err
		}
		pages = append(pages, below...)
	}
	return pages, nil
}

// lowerFirst turns a sentence into the summary of a manual page (lexgrog(1)).
func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[size:]
}

// manPage writes a page, compressed as distributions have it.
func (r *run) manPage(p manpage.Page) (file, error) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return file{}, err
	}
	data, err := compress(b.Bytes())
	if err != nil {
		return file{}, err
	}
	return r.made(fmt.Sprintf("/usr/share/man/man%d/%s.gz", p.Section, p.File()), data)
}

// compress is gzip -9n.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// completions are written by the program itself. Debian and others keep those of
// zsh in different directories.
func (r *run) completions(ctx context.Context, bin string) ([]file, error) {
	var out []file
	for _, c := range []struct{ shell, path, only string }{
		{"bash", "/usr/share/bash-completion/completions/cdi-gen", ""},
		{"fish", "/usr/share/fish/vendor_completions.d/cdi-gen.fish", ""},
		{"zsh", "/usr/share/zsh/vendor-completions/_cdi-gen", "deb"},
		{"zsh", "/usr/share/zsh/site-functions/_cdi-gen", "rpm"},
		{"zsh", "/usr/share/zsh/site-functions/_cdi-gen", "tar"},
	} {
		text, err := command(ctx, "", nil, filepath.Join(bin, "cdi-gen"), "completion", c.shell)
		if err != nil {
			return nil, fmt.Errorf("write completion for %s: %w", c.shell, err)
		}
		f, err := r.made(c.path, text)
		if err != nil {
			return nil, err
		}
		f.only = c.only
		out = append(out, f)
	}
	return out, nil
}

// made keeps a file that was made here, for the packagers to copy.
func (r *run) made(installed string, data []byte) (file, error) {
	f := file{path: installed, mode: 0o644, source: filepath.Join(r.work, "made", filepath.FromSlash(installed))}
	if err := os.MkdirAll(filepath.Dir(f.source), 0o755); err != nil {
		return f, fmt.Errorf("make directory for %s: %w", installed, err)
	}
	if err := os.WriteFile(f.source, data, 0o644); err != nil {
		return f, fmt.Errorf("write %s: %w", installed, err)
	}
	return f, nil
}

// forKind returns the files of one kind of package, in the order of their paths.
func forKind(kind string, files []file) []file {
	var out []file
	for _, f := range files {
		if f.only == "" || slices.Contains(strings.Fields(f.only), kind) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return out
}
