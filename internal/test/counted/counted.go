// Package counted counts what is asked of a file system value, for tests and benchmarks of
// what reads sysfs: times differ between machines, counts do not.
package counted

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
)

// FS counts what is asked of a file system, by any number of goroutines.
type FS struct {
	fs.ReadLinkFS
	// Reads are files that were read, Misses those that were not there.
	Reads, Misses, Links, Stats int
	// VPD are files vpd that were opened.
	VPD int
	// Dirs are how often each directory was listed.
	Dirs map[string]int
	// Asked are files and links, in order.
	Asked []Name

	mu sync.Mutex
}

// Name is a file, or a link, that was asked for.
type Name struct {
	Path string
	Link bool
}

// New counts what is asked of sys, which is a file system with links.
func New(sys fs.FS) *FS { return &FS{ReadLinkFS: sys.(fs.ReadLinkFS), Dirs: map[string]int{}} }

func (c *FS) note(n *int, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	if n != &c.Stats {
		c.Asked = append(c.Asked, Name{name, n == &c.Links})
	}
}

// ReadFile implements fs.ReadFileFS.
func (c *FS) ReadFile(name string) ([]byte, error) {
	b, err := fs.ReadFile(c.ReadLinkFS, name)
	if errors.Is(err, fs.ErrNotExist) {
		c.note(&c.Misses, name)
	} else {
		c.note(&c.Reads, name)
	}
	return b, err
}

// ReadLink implements fs.ReadLinkFS.
func (c *FS) ReadLink(name string) (string, error) {
	c.note(&c.Links, name)
	return c.ReadLinkFS.ReadLink(name)
}

// Stat implements fs.StatFS.
func (c *FS) Stat(name string) (fs.FileInfo, error) {
	c.note(&c.Stats, name)
	return fs.Stat(c.ReadLinkFS, name)
}

// ReadDir implements fs.ReadDirFS.
func (c *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	c.mu.Lock()
	c.Dirs[name]++
	c.mu.Unlock()
	return fs.ReadDir(c.ReadLinkFS, name)
}

// Open is what ReadFile and ReadDir of package fs fall back to: nothing may. VPD alone is opened, because it is read in
// parts.
func (c *FS) Open(name string) (fs.File, error) {
	if path.Base(name) == "vpd" {
		c.note(&c.VPD, name)
		return c.ReadLinkFS.Open(name)
	}
	return nil, fmt.Errorf("open %s: not counted", name)
}

// Reset forgets all counts.
func (c *FS) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Reads, c.Misses, c.Links, c.Stats, c.VPD, c.Asked = 0, 0, 0, 0, 0, nil
	clear(c.Dirs)
}

// Listed is how many directories were listed, each as often as it was.
func (c *FS) Listed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed()
}

func (c *FS) listed() int {
	n := 0
	for _, times := range c.Dirs {
		n += times
	}
	return n
}

// Operations is how many files, links and directories were asked for.
func (c *FS) Operations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Reads + c.Misses + c.Links + c.Stats + c.VPD + c.listed()
}

// SystemCalls is how many the operations take with package sysfs: open, read and
// close for a file, one for what is not there, for a link and for a stat, and at
// least four for a directory.
func (c *FS) SystemCalls() int { return 3*c.Reads + c.Misses + c.Links + c.Stats + 4*c.Listed() }
