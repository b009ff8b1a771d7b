package doctor_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
)

func ExampleDiagnose() {
	report, err := doctor.Diagnose(context.Background(), doctor.Open("/"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.Findings {
		if f.Severity == finding.Error {
			fmt.Println(f.ID, f.Message, f.Remedy)
		}
	}
	if err := text.WriteFindings(os.Stdout, report.Findings, false); err != nil {
		fmt.Println(err)
	}
}
