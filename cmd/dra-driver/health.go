package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

// Bounds of the answer of probe --health. A host may have a thousand HCAs, and Node Problem Detector reads 4 KiB.
const (
	maxDrivers    = 8   // sockets that are asked
	maxDevices    = 64  // HCAs with a condition
	maxConditions = 16  // of one HCA
	maxText       = 256 // bytes of a message
)

// The verdicts of probe --health.
const (
	verdictWell    = "well"
	verdictSick    = "sick"
	verdictUnknown = "unknown"
)

// healthAnswer is what probe --health prints, on one line. The message is first, because a reader may cut the rest.
type healthAnswer struct {
	Message string `json:"message"`
	// Verdict is well, sick or unknown.
	Verdict string `json:"verdict"`
	Node    string `json:"node,omitempty"`
	// At is when the driver answered.
	At *time.Time `json:"at,omitempty"`
	// HCAs is how many there are. Devices are those with a condition, also with one that needs no repair.
	HCAs    int            `json:"hcas"`
	Devices []deviceHealth `json:"devices"`
	Omitted int            `json:"omitted,omitempty"` // devices with a condition beyond the bound
}

// deviceHealth is an HCA with conditions.
type deviceHealth struct {
	Name       string                 `json:"name"` // by its slot
	IBDev      string                 `json:"ibdev"`
	Health     string                 `json:"health"`
	Conditions []nodestatus.Condition `json:"conditions"`
	History    string                 `json:"history,omitempty"`
}

// health prints the health of the node's HCAs as JSON, also if it is not known. It returns an error for a sick HCA, and
// one with exitUnknown if the health is not known.
func (p *probe) health(ctx context.Context) error {
	page, err := p.page(ctx)
	answer := healthAnswer{Verdict: verdictUnknown, Devices: []deviceHealth{}}
	if err != nil {
		answer.Message, err = bounded(err.Error()), &cli.Coded{Code: exitUnknown, Err: err}
	} else {
		err = answer.judge(page)
	}
	line, errJSON := json.Marshal(answer)
	if errJSON != nil {
		return errJSON
	}
	if _, errPrint := fmt.Fprintf(p.out, "%s\n", line); errPrint != nil {
		return &cli.Coded{Code: exitUnknown, Err: fmt.Errorf("print the health: %w", errPrint)}
	}
	return err
}

// judge fills the answer from the driver's page.
func (a *healthAnswer) judge(page *nodestatus.Status) error {
	a.Node, a.At, a.HCAs = bounded(page.Node), &page.At, len(page.HCAs)
	sick, unknown, judged := "", "", 0
	for _, h := range page.HCAs {
		if h.Health != "" { // else no container can have it, and nobody has looked at its health
			judged++
		}
		one := deviceHealth{
			Name: bounded(h.Name), IBDev: bounded(h.IBDev), Health: bounded(h.Health), History: bounded(h.History),
		}
		for _, c := range h.Conditions[:min(len(h.Conditions), maxConditions)] {
			c.Condition, c.Message = bounded(c.Condition), bounded(c.Message)
			one.Conditions = append(one.Conditions, c)
			if c.Sick && sick == "" {
				sick = fmt.Sprintf("%s: %s: %s", cmp.Or(one.IBDev, one.Name), c.Condition, c.Message)
			}
		}
		if h.Health == string(health.Unknown) && unknown == "" {
			unknown = fmt.Sprintf("the health of %s is not known", cmp.Or(one.IBDev, one.Name))
		}
		switch {
		case one.Conditions == nil:
		case len(a.Devices) == maxDevices:
			a.Omitted++
		default:
			a.Devices = append(a.Devices, one)
		}
	}
	switch {
	case sick != "":
		a.Verdict, a.Message = verdictSick, bounded(sick)
		return errors.New(a.Message)
	case unknown != "":
	case judged == 0 && len(page.HCAs) > 0:
		unknown = fmt.Sprintf("the health of no HCA is known: %s", cmp.Or(page.HCAs[0].Reason, "no container can have them"))
	case judged == 0 && len(page.Problems) > 0:
		unknown = "no HCA was found, and the driver has a problem: " + page.Problems[0]
	}
	if unknown != "" {
		a.Message = bounded(unknown)
		return &cli.Coded{Code: exitUnknown, Err: errors.New(a.Message)}
	}
	a.Verdict, a.Message = verdictWell, "no HCA of "+text.Count(judged, "HCA")+" is sick"
	if others := len(page.HCAs) - judged; others > 0 {
		a.Message += fmt.Sprintf("; %d more cannot be used, and their health is not known", others)
	}
	return nil
}

// bounded makes a text of the driver short and harmless.
func bounded(s string) string { return text.Bound(text.Terminal(text.Bound(s, maxText)), maxText) }

// page returns the page of the driver. Without the UID of the driver's pod, as outside of the pod, it asks all drivers
// of the node, since a rolling update has two, and takes the one that started last.
func (p *probe) page(ctx context.Context) (*nodestatus.Status, error) {
	sockets := []string{statusSocket(&p.cfg)}
	if p.cfg.PodUID == "" {
		found, err := filepath.Glob(filepath.Join(p.cfg.PluginDir(), "status-*.sock"))
		if err != nil {
			return nil, err
		}
		sockets = append(sockets, found[:min(len(found), maxDrivers)]...)
	}
	var last *nodestatus.Status
	var failed error
	for _, socket := range sockets {
		each, cancel := context.WithTimeout(ctx, p.timeout/time.Duration(len(sockets))) // one of them may hang
		page, err := readPage(each, socket, "the health of HCAs")
		cancel()
		switch {
		case err != nil && failed == nil:
			failed = err
		case err != nil:
		case last == nil || page.Started.After(last.Started):
			last = page
		}
	}
	if last == nil {
		return nil, failed
	}
	return last, nil
}
