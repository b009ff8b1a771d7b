package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

var slicesCodes = exitcode.List{
	exitcode.OK: "done", exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage + ", or a bad policy",
	exitUnapplied: "printed, but rails or ipam of the file do not apply on this node",
}

// slicesPath is where the driver answers on its socket. It is not on the HTTP address: a file can cost a driver memory
// and time, and who may use the socket may do anything to it.
const slicesPath = "/slices"

// tried is the driver's answer about a policy. As JSON it is a ResourceSliceList with two more fields.
type tried struct {
	Kind       string                      `json:"kind,omitempty"`
	APIVersion string                      `json:"apiVersion,omitempty"`
	Metadata   metav1.ListMeta             `json:"metadata"`
	Items      []resourceapi.ResourceSlice `json:"items"`
	Unapplied  []string                    `json:"unapplied,omitempty"`
	Notes      []string                    `json:"notes,omitempty"`
}

func newSlices(env func(string) string) *cobra.Command {
	var cfg dra.Config
	var config, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "slices",
		Short: "Print the ResourceSlices that the driver of this pod would publish with another policy",
		Long: `slices asks the running driver of this pod what it would publish with another
policy, and prints it as a list of ResourceSlices. It changes nothing. The
driver takes its claims, the health of its HCAs, its flags and the features of the API
server into account. Under notes, it says which features the API server lacks or may
lack, and which rules and fields of selectors match no HCA. kubectl rdma policy test runs
it on nodes, and compares.

` + slicesCodes.Help(),
		Example: `  kubectl -n dra-driver-rdma exec -i daemonset/dra-driver-rdma -- \
      dra-driver slices --config - < new.yaml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if formats := []string{"json", "yaml"}; !slices.Contains(formats, output) {
				return cli.Usagef("--output %q: want one of %v", output, formats)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			answer, err := tryFile(ctx, statusSocket(&cfg), config, cmd.InOrStdin())
			if err != nil {
				return err
			}
			write := map[string]func(io.Writer, any) error{"json": text.JSON, "yaml": text.YAML}[output]
			reasons := answer.Unapplied
			answer.Unapplied = nil
			if err := write(cmd.OutOrStdout(), answer); err != nil {
				return err
			}
			return unapplied("node", reasons)
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "-", "policy `FILE`, - for standard input")
	f.StringVar(&cfg.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "root `DIRECTORY` of the kubelet")
	f.StringVar((*string)(&cfg.PodUID), "pod-uid", env("POD_UID"), "`UID` of the driver's pod (default $POD_UID)")
	f.StringVarP(&output, "output", "o", "yaml", "`FORMAT`: json or yaml")
	f.DurationVar(&timeout, "timeout", 30*time.Second, "`TIME` for the answer")
	return cmd
}

// unapplied returns an error if rails or ipam of a file do not apply.
func unapplied(where string, reasons []string) error {
	if len(reasons) == 0 {
		return nil
	}
	all := strings.Join(reasons, "; ")
	return &cli.Coded{Code: exitUnapplied, Err: fmt.Errorf("the policy does not apply on this %s: %s", where, all)}
}

// tryFile asks the driver about a file.
func tryFile(ctx context.Context, socket, config string, stdin io.Reader) (answer tried, err error) {
	data, err := yamlread.Config.ReadArgument(config, stdin)
	if err != nil {
		return answer, cli.Usagef("read policy: %w", err)
	}
	if _, err := policy.Parse(data); err != nil {
		return answer, cli.Usagef("read policy %q: %w", config, err)
	}
	body, err := askDriver(ctx, socket, "its slices", http.MethodPost, url.URL{Path: slicesPath}, bytes.NewReader(data))
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("read the driver's answer: %w", err)
	}
	answer.APIVersion, answer.Kind = resourceapi.SchemeGroupVersion.String(), "ResourceSliceList"
	return answer, nil
}

// slicesHandler answers what try says of a file. It tries one file at a time, because a file takes memory.
func slicesHandler(try func(context.Context, *policy.Config) dra.Trial) http.HandlerFunc {
	var one sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(yamlread.Config.Size)))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		one.Lock()
		defer one.Unlock()
		c, err := policy.Parse(data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		trial := try(r.Context(), c)
		answer := tried{Items: trial.Slices, Unapplied: trial.Unapplied, Notes: trial.Notes}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client sees what is missing
	}
}
