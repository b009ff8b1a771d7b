package job_test

import (
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := job.ReadResult(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a result from nowhere: %v", err)
	}
	test.False(t, job.Started(dir), test.Sprint("started too early"))
	spec := job.Spec{Argv: []string{"sh", "-c", "a \"b\"\n"}, Dir: "/x", Shares: []job.Share{{Tag: "t", Path: "/y", ReadOnly: true}}}
	result := job.Result{Exit: 3, Boot: []job.Moment{{Name: "root", Seconds: 1.5}}}
	must.NoError(t, errors.Join(job.WriteSpec(dir, spec), job.WriteStarted(dir), job.WriteResult(dir, result)))
	gotSpec, err := job.ReadSpec(dir)
	if err != nil || !reflect.DeepEqual(gotSpec, spec) {
		t.Errorf("spec %+v, %v", gotSpec, err)
	}
	gotResult, err := job.ReadResult(dir)
	if err != nil || !reflect.DeepEqual(gotResult, result) {
		t.Errorf("result %+v, %v", gotResult, err)
	}
	test.True(t, job.Started(dir), test.Sprint("not started"))
}
