package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/supervisor"
)

// These environment variables tell the program that it was started as process 1.
const (
	stageEnv = "DRA_RDMA_CLUSTER_STAGE"
	stateEnv = "DRA_RDMA_CLUSTER_STATE"

	stageCgroups = "cgroups"
	stageSetup   = "setup"
)

// supervisorConfig is what process 1 is told, in <state>/supervisor.json.
type supervisorConfig struct {
	Sandbox    sandbox.Config         `json:"sandbox"`
	Components []supervisor.Component `json:"components"`
}

const supervisorFile = "supervisor.json"

// Init turns the program into the cluster's process 1 where Up has started it as
// that, and then never returns. Otherwise it does nothing.
func Init() {
	stage := os.Getenv(stageEnv)
	if stage == "" {
		return
	}
	if err := superviseStage(stage, os.Getenv(stateEnv)); err != nil {
		fmt.Fprintf(os.Stderr, "cluster supervisor: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func superviseStage(stage, stateDir string) error {
	config, err := readSupervisorConfig(stateDir)
	if err != nil {
		return err
	}
	switch stage {
	case stageCgroups:
		return sandbox.EnterCgroups(config.Sandbox.Cgroups, os.Args, supervisorEnv(stageSetup, stateDir))
	case stageSetup:
		return supervise(stateDir, config)
	}
	return fmt.Errorf("unknown stage %q in %s", stage, stageEnv)
}

func readSupervisorConfig(stateDir string) (config supervisorConfig, err error) {
	data, err := os.ReadFile(filepath.Join(stateDir, supervisorFile))
	if err != nil {
		return config, fmt.Errorf("read the supervisor's configuration: %w", err)
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return config, fmt.Errorf("parse the supervisor's configuration: %w", err)
	}
	return config, nil
}

func supervise(stateDir string, config supervisorConfig) error {
	// The lock that says that a cluster runs is ours, not our components'.
	unix.CloseOnExec(lockFD)
	if err := sandbox.Setup(config.Sandbox); err != nil {
		return err
	}
	return supervisor.NewServer(config.Components).Serve(stateDir)
}

func supervisorEnv(stage, stateDir string) []string {
	return []string{stageEnv + "=" + stage, stateEnv + "=" + stateDir, "PATH=" + os.Getenv("PATH"), "HOME=/root"}
}
