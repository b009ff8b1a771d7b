// Package fabric makes one picture of a cluster (kubectl rdma report): nodes by rails, the state of each HCA, and why
// pods wait. Taints, holders, jobs, results of tests and reasons are those of packages model, lists, traffic and why.
// Of all that is true of an HCA, its cell shows one state (hca.go).
package fabric

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

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
	// LeafName returns what the page calls a leaf switch, nil if that is its name.
	LeafName func(string) string
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
	// Unexplained counts the pods that wait and are like none of Waiting: there are too many, or the time was over.
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

// maxColumns bounds the columns. The last one then has all other rails: whoever writes slices can number many.
const maxColumns = 64

// noNode is the name of the row for HCAs that no single node has.
const noNode = "(no node)"

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
	view   *model.View
	jobs   map[string]*Job     // by name
	owners map[string][]string // of the pods of a claim: names of jobs
	rows   map[string]*Row
}

// New makes the picture of a cluster.
func New(ctx context.Context, s *Source) (*Picture, error) {
	c, own := s.Cluster, *s
	pods := lists.Pods(ctx, c)
	b := &builder{
		Picture: &Picture{
			Source: &own, Fleet: lists.FleetOf(c, pods), Pods: lists.PodTable(pods, true, false),
			Rails: lists.RailTable(lists.Rails(c, model.NodeChoice{})), Drains: lists.DrainTable(lists.Drains(c), c.Now),
		},
		view: c.View(), jobs: map[string]*Job{}, owners: map[string][]string{},
		rows: map[string]*Row{},
	}
	b.findOwners(pods)
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
	for _, name := range s.Drawn {
		if !slices.ContainsFunc(b.Trees, func(n lists.NodeTopology) bool { return n.Node == name }) {
			b.Missing = append(slices.Clip(b.Missing), "no PCIe tree of node "+name+": no complete pool has a device of it")
		}
	}
	return b.Picture, nil
}

// findOwners finds the jobs for whose pods claims are reserved. Other pods that name a claim wait for it.
func (b *builder) findOwners(pods []lists.Pod) {
	for i := range pods {
		p := &pods[i]
		for _, name := range p.Claims {
			claim := b.view.Claims[types.NamespacedName{Namespace: p.Namespace, Name: name}]
			if claim == nil || !slices.Contains(model.PodsOf(claim), p.Name) &&
				(p.Question() == nil || !resourceclaim.IsReservedForPod(&p.Question().Pod, claim, true)) {
				continue
			}
			key := model.ClaimName(claim)
			b.owners[key] = model.AppendNew(b.owners[key], p.Owner())
		}
	}
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
		h := b.newHCA(published)
		h.State, h.Why = NotSeen, append(h.Why, "its pool lacks ResourceSlices")
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
		at[b.Columns[i].Rail] = min(i, maxColumns-1)
	}
	if len(b.Columns) > maxColumns {
		b.Columns = append(b.Columns[:maxColumns-1], Column{Rail: "others"})
	}
	for _, n := range lists.DriverNodes(b.view) {
		b.add(n.Name, n)
	}
	for _, h := range hcas {
		if b.rows[h.Node] == nil { // somebody else's slice, of several nodes
			b.add(h.Node, lists.Node{Name: noNode})
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

// add adds a row without HCAs.
func (b *builder) add(node string, n lists.Node) {
	b.rows[node] = &Row{Node: n, Cells: make([][]*HCA, len(b.Columns))}
}

// rank orders the numbers of rails by their lengths. HCAs without a rail come last.
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
