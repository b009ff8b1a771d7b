package importrules_test

import "github.com/rdma-dev/dra-driver-rdma/internal/test/importrules"

const module = "github.com/rdma-dev/dra-driver-rdma"

// bans are the rules on imports beside those of the floors. Each has a package testdata/planted/<name> that
// breaks it.
var bans = []importrules.Ban{{
	Name:    "rdma",
	Why:     "what a host has is a function of one fs value; it knows nothing of Kubernetes, CDI or logging",
	Of:      []string{module + "/pkg/rdma"},
	Links:   []string{"k8s.io/...", "sigs.k8s.io/...", "tags.cncf.io/...", "log/...", "net/..."},
	Imports: []string{"os/...", "golang.org/...", module + "/..."},
	Except:  []string{"net/netip"}, // addresses as values
}, {
	Name:    "cdi",
	Why:     "container edits serve cdi-gen too, which has no Kubernetes",
	Of:      []string{module + "/pkg/cdi"},
	Links:   []string{"k8s.io/...", "google.golang.org/..."},
	Imports: []string{module + "/pkg/topology", module + "/pkg/api/..."},
}, {
	Name:   "cdi-gen",
	Why:    "cdi-gen is for hosts without Kubernetes, and stays small",
	Of:     []string{module + "/cmd/cdi-gen"},
	Links:  []string{"k8s.io/...", "sigs.k8s.io/...", "google.golang.org/...", kube, driver, inspect},
	Except: []string{"sigs.k8s.io/yaml/..."}, // a YAML library, no part of the Kubernetes API machinery
}, {
	Name:   "rdma-hook",
	Why:    "the hook runs on the host in every container start: the standard library, x/sys and its own logic and exit codes",
	Of:     []string{module + "/cmd/rdma-hook"},
	Links:  []string{"..."},
	Except: []string{"golang.org/x/sys/...", module + "/internal/hook", module + "/internal/hook/args", module + "/internal/hook/rdmacore", module + "/internal/hook/usable", module + "/internal/base/exitcode", module + "/internal/base/bytesize", module + "/internal/kernel/podcgroup"},
}, {
	Name:    "pure",
	Why:     "policies, plans and slices are functions of their input: no file, no network, no client; plans and slices know of no policy",
	Of:      []string{module + "/pkg/dra/plan", module + "/pkg/dra/policy", module + "/pkg/dra/resources", module + "/pkg/dra/health", module + "/pkg/dra/podmeta"},
	Imports: []string{"os/...", "io/...", "net/...", "syscall", "golang.org/...", "google.golang.org/...", "k8s.io/client-go/...", "k8s.io/klog/...", "github.com/fsnotify/...", module + "/internal/...", module + "/pkg/dra/policy"},
	Except:  []string{module + "/internal/hostconfig", module + "/internal/hook/args", module + "/internal/base/yamlread", module + "/internal/base/text", "net/netip"}, // decode YAML and escape text, format arguments, and are values of addresses: they touch no host
}, {
	Name:    "api",
	Why:     "what users write in claims is below all that acts on it: it knows only the words of the host's devices",
	Of:      []string{module + "/pkg/api/..."},
	Imports: []string{module + "/..."},
	Except:  []string{module + "/pkg/rdma", module + "/internal/base/bytesize"}, // and of sizes
}, {
	Name:  "kubectl-rdma",
	Why:   "the plugin runs on people's machines, of any system: it writes no file, and makes no spec",
	Of:    []string{module + "/cmd/kubectl-rdma"},
	Links: []string{module + "/pkg/cdi", gen, kube, driver, kernel, hook, file, module + "/internal/base/atomicfile", "tags.cncf.io/..."},
}, {
	Name:    "inspect-pure",
	Why:     "what kubectl rdma answers is a function of what was read: no file, no client",
	Of:      []string{module + "/internal/inspect"},
	Imports: []string{"os/...", "net/...", "syscall", "k8s.io/client-go/...", "k8s.io/cli-runtime/...", module + "/internal/..."},
	Except:  []string{module + "/internal/base/text"}, // text for people and terminals
}, {
	Name:    "node",
	Why:     "the host is a value that all parts of the driver take: it knows none of them",
	Of:      []string{module + "/pkg/dra/node"},
	Imports: []string{module + "/pkg/dra/...", "k8s.io/client-go/..."},
	Except: []string{
		module + "/pkg/dra/claimstore", module + "/pkg/dra/health", module + "/pkg/dra/leaf", module + "/pkg/dra/plan",
	},
}, {
	Name: "offer",
	Why:  "what is published follows from the host, the policy and the records: not from claims, pods or reports",
	Of:   []string{module + "/pkg/dra/offer"},
	Imports: []string{
		module + "/pkg/dra", module + "/pkg/dra/claims", module + "/pkg/dra/pods", module + "/pkg/dra/report",
	},
}, {
	Name: "claims",
	Why:  "a claim is prepared on a host: what is published, pods and reports are interfaces of the package's own",
	Of:   []string{module + "/pkg/dra/claims"},
	Imports: []string{
		module + "/pkg/dra", module + "/pkg/dra/offer", module + "/pkg/dra/pods", module + "/pkg/dra/report",
		module + "/internal/kube/nri", module + "/internal/kernel/podnet", module + "/internal/kernel/rdmanetns",
	},
}, {
	Name:    "pods",
	Why:     "pods ask claims and the host, and nothing else",
	Of:      []string{module + "/pkg/dra/pods"},
	Imports: []string{module + "/pkg/dra", module + "/pkg/dra/offer", module + "/pkg/dra/report"},
}, {
	Name: "report",
	Why:  "what the driver reports is a function of the host and of values: not of claims, pods or what is published",
	Of:   []string{module + "/pkg/dra/report"},
	Imports: []string{
		module + "/pkg/dra", module + "/pkg/dra/claims", module + "/pkg/dra/offer", module + "/pkg/dra/pods",
		module + "/pkg/dra/claimstore", module + "/pkg/dra/attach", module + "/pkg/dra/publisher",
		module + "/pkg/dra/resources", module + "/pkg/dra/podmeta", module + "/pkg/cdi",
		module + "/internal/kube/nri", module + "/internal/kernel/podnet",
		module + "/internal/kernel/rdmanetns", module + "/internal/kernel/watch",
	},
}, {
	Name:  "dra-driver",
	Why:   "the driver on each node carries nothing that only people's tools need",
	Of:    []string{module + "/cmd/dra-driver"},
	Links: []string{gen, inspect, "k8s.io/cli-runtime/..."},
}, {
	Name:  "fixtures",
	Why:   "what runs on a user's host carries nothing that only tests need",
	Of:    []string{module + "/cmd/..."},
	Links: []string{module + "/internal/test/..."},
}, {
	Name:    "rdmamap",
	Why:     "its roots are global, and it panics: package internal/kernel/rdmamap wraps it",
	Of:      []string{module + "/..."},
	But:     []string{module + "/internal/kernel/rdmamap"},
	Imports: []string{"github.com/Mellanox/rdmamap/..."},
}, {
	Name:    "prometheus",
	Why:     "the driver measures by package metrics, and the program serves it: nothing else knows Prometheus",
	Of:      []string{module + "/pkg/...", module + "/internal/..."},
	But:     []string{module + "/pkg/dra/metrics"},
	Imports: []string{"github.com/prometheus/..."},
}}

// calls are the rules on functions. Each has a planted violation as well.
var calls = []importrules.Calls{{
	Name: "process",
	Why:  "only a program reads arguments and environment, and ends the process",
	Of:   []string{module + "/..."},
	But: []string{ // the programs
		module + "/cmd/...", module + "/tools/...", module + "/test/...", module + "/internal/test/sysfault/launch",
	},
	Names: []string{
		"os.Args", "os.Exit", "os.Getenv", "os.LookupEnv", "os.Environ", "os.Setenv", "os.Stdin", "os.Stdout", "os.Stderr",
		"log.Fatal", "log.Fatalf", "log.Fatalln",
	},
}, {
	Name: "write",
	Why:  "files are replaced whole, by package atomicfile, or belong to one of the stores",
	Of:   []string{module + "/..."},
	But: []string{
		module + "/pkg/cdi", module + "/pkg/dra/claimstore", module + "/pkg/dra/attach", module + "/internal/base/atomicfile", module + "/internal/hook/...",
		module + "/internal/test/fixture/...", module + "/internal/base/sockets", module + "/internal/kube/deviceinfo",
		module + "/internal/kube/nodefeature",
		module + "/internal/base/hostfs",       // opens, for reading only
		module + "/internal/kube/installcheck", // opens HCAs, and writes the termination log, which is a mount
		module + "/internal/kernel/rdmanetns",  // opens the kernel's settings of a network namespace
		module + "/internal/gen/capture/tree",  // writes trees of sysfs below a directory of tests and tools
		module + "/tools/...", module + "/test/...",
	},
	Names: []string{
		"os.WriteFile", "os.Create", "os.CreateTemp", "os.OpenFile", "os.OpenRoot", "os.Rename", "os.Remove", "os.RemoveAll",
		"os.Symlink", "os.Link", "os.Truncate", "os.Chmod",
	},
}, {
	Name: "read",
	Why: "a FIFO, a device or an endless file of somebody else keeps a reader waiting or fills its memory: package hostfs " +
		"opens regular files within bounds",
	Of: []string{module + "/..."},
	But: []string{
		module + "/internal/base/hostfs", module + "/internal/base/atomicfile",
		module + "/internal/base/yamlread",    // opens the pipe that a shell passes
		module + "/internal/kernel/rdmanetns", // opens network namespaces
		module + "/internal/hook/...",         // reads files of the kernel, and its own program
		// They read and lock directories of their own, which only root can write to.
		module + "/pkg/dra/claimstore", module + "/pkg/dra/attach",
		module + "/internal/test/drivertest/...", module + "/internal/test/fixture/...", // tools of tests
		module + "/tools/...", module + "/test/...",
	},
	Names: []string{"os.ReadFile", "os.Open", "io/ioutil.ReadFile"},
}, {
	Name: "clock",
	Why:  "the same input gives the same output at any time",
	Of: []string{
		module + "/pkg/rdma", module + "/pkg/cdi", module + "/pkg/dra/plan", module + "/pkg/dra/policy",
		module + "/pkg/dra/resources", module + "/pkg/dra/health", module + "/pkg/dra/podmeta", module + "/internal/inspect",
	},
	Names: []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep"},
}, {
	Name: "yaml",
	Why:  "a small file takes all memory from a YAML decoder: package yamlread bounds what it is given",
	Of:   []string{module + "/..."},
	But:  []string{module + "/internal/base/yamlread", module + "/tools/...", module + "/test/..."},
	Names: []string{
		"go.yaml.in/yaml/v3.Unmarshal", "go.yaml.in/yaml/v3.NewDecoder", "go.yaml.in/yaml/v2.Unmarshal", "go.yaml.in/yaml/v2.NewDecoder",
		"sigs.k8s.io/yaml.Unmarshal", "sigs.k8s.io/yaml.UnmarshalStrict", "sigs.k8s.io/yaml.YAMLToJSON", "sigs.k8s.io/yaml.YAMLToJSONStrict",
		"k8s.io/apimachinery/pkg/util/yaml.ToJSON", "k8s.io/apimachinery/pkg/util/yaml.Unmarshal", "k8s.io/apimachinery/pkg/util/yaml.NewYAMLReader",
		"k8s.io/apimachinery/pkg/util/yaml.NewYAMLOrJSONDecoder", "k8s.io/apimachinery/pkg/util/yaml.NewYAMLToJSONDecoder",
	},
}, {
	Name:  "elf",
	Why:   "a small file takes all memory from debug/elf: package rdmacore bounds what it reads",
	Of:    []string{module + "/..."},
	But:   []string{module + "/tools/...", module + "/test/..."},
	Names: []string{"debug/elf.NewFile", "debug/elf.Open"},
}, {
	Name: "specs",
	Why:  "the CDI library panics on some specs: package cdi reads them",
	Of:   []string{module + "/..."},
	But:  []string{module + "/pkg/cdi", module + "/tools/...", module + "/test/..."},
	Names: []string{
		"tags.cncf.io/container-device-interface/pkg/cdi.ParseSpec", "tags.cncf.io/container-device-interface/pkg/cdi.ReadSpec",
		"tags.cncf.io/container-device-interface/pkg/cdi.NewCache", "tags.cncf.io/container-device-interface/pkg/cdi.GetDefaultCache",
	},
}, {
	Name:  "quantity",
	Why:   "1e-2147483648 does not end within minutes: package v1alpha1 bounds what is parsed",
	Of:    []string{module + "/..."},
	But:   []string{module + "/pkg/api/v1alpha1", module + "/tools/...", module + "/test/..."},
	Names: []string{"k8s.io/apimachinery/pkg/api/resource.ParseQuantity", "k8s.io/apimachinery/pkg/api/resource.MustParse"},
}, {
	Name: "answers",
	Why: "a proxy's page reads as \"not found\" or \"exists\" too: answer.Gone and Said count only what the API server says " +
		"about the very object",
	Of:  []string{module + "/..."},
	But: []string{module + "/internal/base/answer", module + "/tools/...", module + "/test/..."},
	Names: []string{
		"k8s.io/apimachinery/pkg/api/errors.IsNotFound", "k8s.io/apimachinery/pkg/api/errors.IsAlreadyExists",
		"k8s.io/apimachinery/pkg/api/errors.IsConflict", "k8s.io/apimachinery/pkg/api/errors.IsGone",
		"k8s.io/apimachinery/pkg/api/errors.IsResourceExpired", "k8s.io/apimachinery/pkg/api/errors.ReasonForError",
	},
}, {
	Name: "links",
	Why:  "an interface may be larger than the library's buffer, and a pod may have any number: package podnet reads them",
	Of:   []string{module + "/..."},
	But:  []string{module + "/internal/test/drivertest/soak", module + "/tools/...", module + "/test/..."},
	Names: []string{
		"github.com/vishvananda/netlink.LinkByName", "github.com/vishvananda/netlink.LinkByIndex",
		"github.com/vishvananda/netlink.LinkByAlias", "github.com/vishvananda/netlink.LinkList",
		"github.com/vishvananda/netlink.RuleList", "github.com/vishvananda/netlink.RuleListFiltered",
	},
}}

// methods is the rule on the size of types. It has a planted violation as well.
var methods = importrules.Methods{
	Name: "methods",
	Why:  "more than 25 methods are two stories in one type: give one of them a value of its own, with its own fields",
	Of:   []string{module + "/..."},
	But:  []string{module + "/internal/test/..."}, // tools of tests
	Most: 25,
}
