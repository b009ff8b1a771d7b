package job_test

import (
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := job.ReadResult(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a result from nowhere: %v", err)
	}
	if job.Started(dir) {
		t.Error("started too early")
	}
	spec := job.Spec{Argv: []string{"sh", "-c", "a \"b\"\n"}, Dir: "/x", Shares: []job.Share{{Tag: "t", Path: "/y", ReadOnly: true}}}
	result := job.Result{Exit: 3, Boot: []job.Moment{{Name: "root", Seconds: 1.5}}}
	if err := errors.Join(job.WriteSpec(dir, spec), job.WriteStarted(dir), job.WriteResult(dir, result)); err != nil {
		t.Fatal(err)
	}
	gotSpec, err := job.ReadSpec(dir)
	if err != nil || !reflect.DeepEqual(gotSpec, spec) {
		t.Errorf("spec %+v, %v", gotSpec, err)
	}
	gotResult, err := job.ReadResult(dir)
	if err != nil || !reflect.DeepEqual(gotResult, result) {
		t.Errorf("result %+v, %v", gotResult, err)
	}
	if !job.Started(dir) {
		t.Error("not started")
	}
}
