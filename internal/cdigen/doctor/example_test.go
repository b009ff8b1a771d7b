package doctor_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
)

func ExampleDiagnose() {
	report, err := doctor.Diagnose(context.Background(), doctor.Open("/"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.Findings {
		if f.Severity == doctor.Error {
			fmt.Println(f.ID, f.Title, f.Fix)
		}
	}
	if err := report.WriteText(os.Stdout, false); err != nil {
		fmt.Println(err)
	}
}
