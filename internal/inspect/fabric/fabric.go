// Package fabric makes one picture of a cluster (kubectl rdma report): nodes by rails, the state of each HCA, and why
// pods wait. Taints, holders, jobs, results of tests and reasons are those of packages model, lists, traffic and why. Of
// all that is true of an HCA, its cell shows one state (hca.go).
package fabric

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
)

// Source is what a picture is made of.
type Source struct {
	Cluster *model.Cluster
	// Tests are the results of kubectl rdma test by node, nil if nobody asked for them.
	Tests map[string]*traffic.Record
	// Drawn are the nodes whose PCIe tree the page has.
	Drawn []string
	// Missing says what could not be read, with the reason: one sentence each.
	Missing []string
	Version string // of kubectl rdma
	// Search is the time to look for changes that would help, for all pods that wait.
	Search time.Duration
}

// Picture is a cluster, as one page shows it.
type Picture struct {
	*Source
	Fleet   *lists.Fleet
	Columns []Column
	Groups  []*Group
	Counts  Counts
	Jobs    []*Job
	Waiting []*Waiting
	// Unexplained counts the pods that wait and are like none of Waiting.
	Unexplained int
	Pods        *metav1.Table
	Rails       *metav1.Table
	Drains      *metav1.Table
	Trees       []lists.NodeTopology
}

// Column has the HCAs of one rail, "" for those without a rail.
type Column struct {
	Rail string
	// Width is the largest number of HCAs that a node has on the rail.
	Width int
}

// Row is a node.
type Row struct {
	lists.Node
	Cells [][]*HCA // by column
}

// Job is who holds HCAs: a job, a pod without one, or a claim without pods.
type Job struct {
	Number int // of jobs with the most HCAs first, from 1
	Name   string
	HCAs   int
	nodes  map[string]bool
}

// colours is how many colours the style sheet has for jobs.
const colours = 6

// Class is the colour of the job in the style sheet.
func (j *Job) Class() string { return fmt.Sprintf("held j%d", (j.Number-1)%colours) }

// Nodes counts the nodes where the job holds HCAs.
func (j *Job) Nodes() int { return len(j.nodes) }

// builder makes a picture.
type builder struct {
	*Picture
	view    *model.View
	jobs    map[string]*Job   // by name
	holders map[string]string // names of jobs by claims
	rows    map[string]*Row
}

// New makes the picture of a cluster.
func New(ctx context.Context, s *Source) (*Picture, error) {
	c := s.Cluster
	pods := lists.Pods(ctx, c)
	b := &builder{
		Picture: &Picture{
			Source: s, Fleet: lists.FleetOf(c, pods), Pods: lists.PodTable(pods, true, false),
			Rails: lists.RailTable(lists.Rails(c, model.NodeChoice{})), Drains: lists.DrainTable(lists.Drains(c), c.Now),
		},
		view: c.View(), jobs: map[string]*Job{}, holders: map[string]string{},
		rows: map[string]*Row{},
	}
	for i := range pods {
		for _, claim := range pods[i].Claims {
			b.holders[pods[i].Namespace+"/"+claim] = pods[i].Owner()
		}
	}
	if err := b.addHCAs(ctx); err != nil {
		return nil, err
	}
	b.numberJobs()
	if err := b.explain(ctx, pods); err != nil {
		return nil, err
	}
	if len(s.Drawn) > 0 {
		var err error
		if b.Trees, err = lists.Topologies(ctx, c, model.NodeChoice{Names: s.Drawn}); err != nil {
			return nil, err
		}
	}
	return b.Picture, nil
}

// addHCAs makes columns, rows and groups of the nodes and HCAs.
func (b *builder) addHCAs(ctx context.Context) error {
	var hcas []*HCA
	for _, published := range b.view.HCAs(model.NodeChoice{}) {
		h, err := b.hca(ctx, published)
		if err != nil {
			return err
		}
		hcas = append(hcas, h)
	}
	for _, published := range b.view.Incomplete() {
		h := b.named(published)
		h.State, h.Why = NotSeen, []string{"its driver is publishing: ResourceSlices are missing"}
		hcas = append(hcas, h)
	}
	at := map[string]int{}
	for _, h := range hcas {
		if _, known := at[h.Rail]; !known {
			at[h.Rail] = 0
			b.Columns = append(b.Columns, Column{Rail: h.Rail})
		}
	}
	slices.SortFunc(b.Columns, func(a, b Column) int {
		return cmp.Or(rank(a.Rail)-rank(b.Rail), cmp.Compare(a.Rail, b.Rail))
	})
	for i := range b.Columns {
		at[b.Columns[i].Rail] = i
	}
	for _, n := range lists.DriverNodes(b.view) {
		b.add(n)
	}
	for _, h := range hcas {
		if b.rows[h.Node] == nil { // somebody else's slice, of several nodes
			b.add(lists.Node{Name: h.Node})
		}
		column := at[h.Rail]
		cell := &b.rows[h.Node].Cells[column]
		*cell = append(*cell, h)
		b.Columns[column].Width = max(b.Columns[column].Width, len(*cell))
		b.Counts[h.State]++
	}
	b.group()
	return nil
}

// add adds a node without HCAs.
func (b *builder) add(n lists.Node) {
	b.rows[n.Name] = &Row{Node: n, Cells: make([][]*HCA, len(b.Columns))}
}

// rank orders the numbers of rails by their lengths. No number comes last.
func rank(rail string) int { return cmp.Or(len(rail), math.MaxInt32) }

// numberJobs numbers the jobs, those with the most HCAs first.
func (b *builder) numberJobs() {
	for _, j := range b.jobs {
		b.Jobs = append(b.Jobs, j)
	}
	slices.SortFunc(b.Jobs, func(x, y *Job) int {
		return cmp.Or(cmp.Compare(y.HCAs, x.HCAs), cmp.Compare(x.Name, y.Name))
	})
	for i, j := range b.Jobs {
		j.Number = i + 1
	}
}
