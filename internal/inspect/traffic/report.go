package traffic

import (
	"encoding/xml"
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
	Pairs []PairReport `json:"pairs"`
	// LeftOut are the HCAs that were not tested. Busy says why.
	LeftOut []model.HCA `json:"leftOut,omitempty"`
	// Drained are the HCAs that the test took out of service.
	Drained []string `json:"drained,omitempty"`
}

// PairReport is a Result for programs.
type PairReport struct {
	A        string `json:"a"`
	B        string `json:"b"`
	Together bool   `json:"together,omitempty"`
	// AToB and BToA are rates by the counters of the receiving HCA. Perftest is perftest's own figure for both directions.
	AToB     float64 `json:"aToBGbps,omitempty"`
	BToA     float64 `json:"bToAGbps,omitempty"`
	Perftest float64 `json:"perftestGbps,omitempty"`
	// ByPerftest says that the rates are those of perftest's messages, since the pods do not see the HCAs' counters.
	ByPerftest bool   `json:"byPerftest,omitempty"`
	Error      string `json:"error,omitempty"`
}

// NewReport makes the report of results.
func NewReport(hcas []model.HCA, results []Result, least float64) *Report {
	out := &Report{HCAs: Judge(hcas, results, least), Pairs: []PairReport{}}
	for i := range results {
		r := &results[i]
		out.Pairs = append(out.Pairs, PairReport{
			A: hcas[r.A].String(), B: hcas[r.B].String(), Together: r.Together,
			AToB: r.Gbps[0], BToA: r.Gbps[1], Perftest: r.Tool, ByPerftest: r.ByTool, Error: r.Error,
		})
	}
	return out
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
	if n := r.byPerftest(); n > 0 {
		text.Fprintf(w, "The rates of %s are those of perftest's messages: the host hides the counters from pods\n",
			text.Count(n, "pair"))
	}
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

func (r *Report) byPerftest() (n int) {
	for i := range r.Pairs {
		if r.Pairs[i].ByPerftest {
			n++
		}
	}
	return n
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

func (p *PairReport) when() string {
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

// The elements of JUnit's format that CI systems read: https://github.com/testmoapp/junitxml.
type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string  `xml:"name,attr"`
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Errors   int     `xml:"errors,attr"`
		Skipped  int     `xml:"skipped,attr"`
		Time     string  `xml:"time,attr"`
		Stamp    string  `xml:"timestamp,attr"`
		Cases    []jcase `xml:"testcase"`
	}
	jcase struct {
		Name    string `xml:"name,attr"`
		Class   string `xml:"classname,attr"`
		Failure *note  `xml:"failure,omitempty"`
		Error   *note  `xml:"error,omitempty"`
		Skipped *note  `xml:"skipped,omitempty"`
		Out     string `xml:"system-out,omitempty"`
	}
	note struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the report for CI systems: a slow HCA is a failure, one without a clear verdict an error, and one
// that was left out is skipped.
func (r *Report) WriteJUnit(w io.Writer) error {
	s := suite{
		Name: "kubectl rdma test", Time: fmt.Sprintf("%.0f", r.Ended.Sub(r.Started).Seconds()),
		Stamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
	}
	for i := range r.HCAs {
		v := &r.HCAs[i]
		c := jcase{Name: clean(v.Name), Class: clean(v.Node), Out: clean(fmt.Sprintf("alone %s, all rails at once %s",
			rate(v.Alone), rate(v.Together)))}
		switch v.State {
		case Slow:
			c.Failure = &note{clean(v.Reason())}
			s.Failures++
		case Unclear, NotMeasured:
			c.Error = &note{clean(strings.Join(append([]string{v.Reason()}, v.Errors...), "; "))}
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
	}
	for i := range r.LeftOut {
		h := &r.LeftOut[i]
		s.Cases = append(s.Cases, jcase{Name: clean(h.Name), Class: clean(h.Node), Skipped: &note{clean(h.Busy)}})
		s.Skipped++
	}
	s.Tests = len(s.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suites{Suites: []suite{s}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// clean makes a text of others harmless, for a terminal too.
func clean(s string) string { return text.Bound(s, text.MaxForeign) }
