package traffic

import (
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Standing is what the last tests say of the HCAs of a cluster.
type Standing struct {
	Good int `json:"good"`
	// Untested are the HCAs without a figure, or whose node has no result.
	Untested []string `json:"untested"`
	// Failed are the slow HCAs, and those without a clear verdict.
	Failed []FailedHCA `json:"failed"`
	// Oldest and Newest are the times of the results, zero without any.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	// Unread is what could not be read.
	Unread []string `json:"unread,omitempty"`
}

// FailedHCA is an HCA that is not good, with its node's test.
type FailedHCA struct {
	Verdict
	Time   time.Time `json:"time"`
	Driver string    `json:"driver,omitempty"`
}

// Stand compares the published HCAs with the results of tests. A result of an HCA that is not published does not count.
func Stand(hcas []model.HCA, records map[string]*Record) *Standing {
	out := &Standing{Untested: []string{}, Failed: []FailedHCA{}}
	for i := range hcas {
		h := &hcas[i]
		r := records[h.Node]
		result := r.Of(h.Name)
		if result == nil || result.State == NotMeasured {
			out.Untested = append(out.Untested, h.String())
			continue
		}
		if out.Oldest.IsZero() || r.Time.Before(out.Oldest) {
			out.Oldest = r.Time
		}
		if r.Time.After(out.Newest) {
			out.Newest = r.Time
		}
		if result.State == Good {
			out.Good++
		} else {
			result.Node = h.Node // a record is of others
			out.Failed = append(out.Failed, FailedHCA{Verdict: *result, Time: r.Time, Driver: r.Driver})
		}
	}
	return out
}

// Of returns what a record has of an HCA, nil for nothing.
func (r *Record) Of(name string) *Verdict {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.HCAs, func(v Verdict) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &r.HCAs[i]
}

// WriteText writes the sums in a line, and a table of the failed HCAs.
func (s *Standing) WriteText(w io.Writer, now time.Time) error {
	ages := ""
	if !s.Oldest.IsZero() {
		ages = fmt.Sprintf("; results are %s to %s old", age(now, s.Newest), age(now, s.Oldest))
	}
	untested := ""
	if len(s.Untested) > 0 {
		untested = " (" + text.First(s.Untested, 4, ", ") + ")"
	}
	text.Fprintf(w, "Tests by traffic: %d good, %d failed, %d untested%s%s\n", s.Good, len(s.Failed), len(s.Untested),
		untested, ages)
	var rows [][]string
	for _, h := range s.Failed {
		rows = append(rows, []string{
			h.Node + "/" + h.Name + " (" + h.IBDev + ")", string(h.State), rate(h.Alone), rate(h.Together),
			age(now, h.Time), h.Driver,
		})
	}
	return text.Table(w, "FAILED\tRESULT\tALONE\tALL-RAILS\tAGE\tDRIVER", rows)
}

// age prints how long ago something was. Whoever may write ConfigMaps may set any time.
func age(now, then time.Time) string {
	if then.IsZero() || then.After(now) {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}
