package claimstore

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
)

// cache avoids reading a record again, because the driver needs all of them after each event of the
// kernel. Other processes write records too, so each read checks with the kernel whether the
// file is still the same. This check takes a tenth of the time of decoding.
type cache struct {
	records sync.Map // of cached, by UID
}

// cached is a record with the identity of its file. Nobody changes the record.
type cached struct {
	file   identity
	record *record
}

// identity distinguishes a file from earlier files with its name. Writers replace a record by
// rename and never write in place, so a different content has a different inode. The kernel reuses
// inodes, and then the times differ.
type identity struct {
	dev, ino         uint64
	size             int64
	modified, change unix.Timespec
}

func identityOf(st *unix.Stat_t) identity {
	return identity{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
}

// read returns the record of a claim, nil if there is none. It reads the file only if that
// changed.
func (c *cache) read(uid types.UID, path string) (*record, error) {
	if was, known := c.records.Load(uid); known {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil && identityOf(&st) == was.(cached).file {
			return was.(cached).record, nil
		}
	}
	now, err := readRecord(path)
	if err != nil || now.record == nil {
		c.records.Delete(uid)
		return nil, err
	}
	c.records.Store(uid, now)
	return now.record, nil
}

// readRecord reads a record. The record is nil if there is no such file.
func readRecord(path string) (cached, error) {
	f, err := atomicfile.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return cached{}, nil
	}
	if err != nil {
		return cached{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return cached{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxState {
		return cached{}, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no file of a record")}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxState))
	if err != nil {
		return cached{}, err
	}
	r := &record{size: len(data)}
	return cached{identityOf(&st), r}, json.Unmarshal(data, r)
}
