package cluster

// CgroupName is the name of the cgroup that holds every daemon and every pod.
func CgroupName(stateDir string) string {
	return layout{Options: Options{StateDir: stateDir}}.cgroup()
}
