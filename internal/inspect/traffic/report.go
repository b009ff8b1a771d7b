package traffic

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Report is the answer of a test.
type Report struct {
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Stopped says why the test ended early, "" if it did not.
	Stopped string    `json:"stopped,omitempty"`
	HCAs    []Verdict `json:"hcas"`
	// Pairs are what was measured.
	Pairs []Result `json:"pairs"`
	// LeftOut are the HCAs that were not tested. Busy says why.
	LeftOut []model.HCA `json:"leftOut,omitempty"`
	// Drained are the HCAs that the test took out of service.
	Drained []string `json:"drained,omitempty"`
}

// NewReport makes the report of results.
func NewReport(hcas []model.HCA, results []Result, least float64) *Report {
	return &Report{HCAs: Judge(hcas, results, least), Pairs: append([]Result{}, results...)}
}

// Count counts the HCAs with a state.
func (r *Report) Count(s State) (n int) {
	for i := range r.HCAs {
		if r.HCAs[i].State == s {
			n++
		}
	}
	return n
}

// Complete reports whether each HCA and each pair has a figure, and each HCA a clear verdict.
func (r *Report) Complete() bool {
	for i := range r.Pairs {
		if r.Pairs[i].Error != "" {
			return false
		}
	}
	return r.Stopped == "" && r.Count(NotMeasured) == 0 && r.Count(Unclear) == 0
}

// maxErrors is how many errors the text lists; -o json has all.
const maxErrors = 20

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var rows [][]string
	for i := range r.HCAs {
		v := &r.HCAs[i]
		rows = append(rows, []string{
			v.String(), v.Rail, rate(float64(v.RateGbps)), rate(v.Alone), rate(v.Together), v.Reason(),
		})
	}
	if err := text.Table(w, "HCA\tRAIL\tPORT\tALONE\tALL-RAILS\tRESULT", rows); err != nil {
		return err
	}
	r.writeErrors(w)
	for i := range r.LeftOut {
		text.Fprintf(w, "Left out: %s: %s\n", r.LeftOut[i].String(), text.Bound(r.LeftOut[i].Busy, text.MaxForeign))
	}
	if r.Stopped != "" {
		text.Fprintf(w, "Stopped early: %s\n", text.Bound(r.Stopped, text.MaxForeign))
	}
	for _, name := range r.Drained {
		text.Fprintf(w, "Drained: %s\n", name)
	}
	_, err := fmt.Fprintf(w, "%s: %d good, %d slow, %d unclear, %d not measured\n", text.Count(len(r.HCAs), "HCA"),
		r.Count(Good), r.Count(Slow), r.Count(Unclear), r.Count(NotMeasured))
	return err
}

func (r *Report) writeErrors(w io.Writer) {
	n := 0
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if p.Error == "" {
			continue
		}
		if n++; n <= maxErrors {
			text.Fprintf(w, "Not measured: %s with %s%s: %s\n", p.A, p.B, p.when(), text.Bound(p.Error, text.MaxForeign))
		}
	}
	if n > maxErrors {
		fmt.Fprintf(w, "Not measured: %s more: see -o json\n", text.Count(n-maxErrors, "pair"))
	}
}

func (p *Result) when() string {
	if p.Together {
		return ", all rails at once"
	}
	return ""
}

// Reason is the state, and for a slow HCA the reason to name it.
func (v *Verdict) Reason() string {
	switch v.State {
	case Slow:
		return fmt.Sprintf("slow: below %s with %s, which %s good with others", rate(v.Least),
			text.Some(v.SlowWith, ", "), map[bool]string{true: "is", false: "are"}[len(v.SlowWith) == 1])
	case Unclear:
		if len(v.SlowWith) == 0 {
			return "unclear: there is no other pair to compare with"
		}
		return fmt.Sprintf("unclear: below %s with %s", rate(v.Least), text.Some(v.SlowWith, ", "))
	}
	return string(v.State)
}

// Recorded is what is left of the reason in a [Record], which has no peers: the state, and the rates unless it is good.
func (v *Verdict) Recorded() string {
	var rates []string
	if v.Alone > 0 {
		rates = append(rates, "alone "+rate(v.Alone))
	}
	if v.Together > 0 {
		rates = append(rates, "with all rails "+rate(v.Together))
	}
	if v.State == Good || rates == nil {
		return string(v.State)
	}
	return string(v.State) + ": " + strings.Join(rates, ", ")
}

// rate prints a rate in Gb/s with three digits.
func rate(gbps float64) string {
	switch {
	case gbps <= 0:
		return "-"
	case gbps < 0.1:
		return fmt.Sprintf("%.3gMb/s", gbps*1000)
	case gbps < 1000:
		return fmt.Sprintf("%.3gGb/s", gbps)
	}
	return fmt.Sprintf("%.0fGb/s", gbps)
}
