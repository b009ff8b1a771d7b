package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// debugKey is the key of the writer for --debug in a context.
type debugKey struct{}

// withDebug returns a context with which a command prints what it reads. It prints names of files and errors, and never
// a file's content or a variable's value.
func withDebug(ctx context.Context, w io.Writer) context.Context {
	return context.WithValue(ctx, debugKey{}, w)
}

// debugRead prints that a file was read, or why not.
func debugRead(ctx context.Context, name string, err error) {
	w, ok := ctx.Value(debugKey{}).(io.Writer)
	if !ok {
		return
	}
	if err != nil {
		fmt.Fprintf(w, "debug: skip %s: %v\n", name, err)
	} else {
		fmt.Fprintf(w, "debug: read %s\n", name)
	}
}

// debugFS returns a file system that prints what is read from it below a directory. Without --debug it is the same.
func debugFS(ctx context.Context, dir string, files fs.ReadLinkFS) fs.ReadLinkFS {
	if ctx.Value(debugKey{}) == nil {
		return files
	}
	return tracedFS{ctx, dir, files}
}

// tracedFS has the methods that fs.ReadFile, fs.ReadDir and fs.Stat look for. So each of them is one line.
type tracedFS struct {
	ctx   context.Context
	dir   string
	files fs.ReadLinkFS
}

func (t tracedFS) note(name string, err error) {
	debugRead(t.ctx, filepath.Join(t.dir, name), err)
}

func (t tracedFS) Open(name string) (fs.File, error) {
	f, err := t.files.Open(name)
	t.note(name, err)
	return f, err
}

func (t tracedFS) ReadFile(name string) ([]byte, error) {
	data, err := fs.ReadFile(t.files, name)
	t.note(name, err)
	return data, err
}

func (t tracedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.files, name)
	t.note(name, err)
	return entries, err
}

func (t tracedFS) ReadLink(name string) (string, error) {
	target, err := t.files.ReadLink(name)
	t.note(name, err)
	return target, err
}

func (t tracedFS) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(t.files, name)
	t.note(name, err)
	return info, err
}

func (t tracedFS) Lstat(name string) (fs.FileInfo, error) {
	info, err := t.files.Lstat(name)
	if err != nil {
		t.note(name, err)
	}
	return info, err
}
