package runtimes

// Names of the runtimes, as they begin a target.
const (
	Podman     = "podman"
	Containerd = "containerd"
	Docker     = "docker"
	CRIO       = "crio"
)

// The directories in the order of rising priority.
const (
	staticDir  = "/etc/cdi"
	dynamicDir = "/var/run/cdi"
)

var bothDirs = []string{staticDir, dynamicDir}

// row is what holds from a version of a runtime on.
type row struct {
	runtime string
	from    version
	max     string // highest CDI version; "" for a release without CDI
	library string // version of tags.cncf.io/container-device-interface
	dirs    []string
	on      bool
	note    string
}

// Notes that several rows have.
const (
	enableCDI  = "set `enable_cdi = true`"
	featureCDI = "set `features.cdi`"
)

// table has the rows of each runtime in order of version. A row stands where a
// release is known to differ; between two known releases the older one's holds,
// which promises too little rather than too much.
var table = []row{
	{Podman, v(3), "", "", nil, false, "has no CDI; upgrade to 4.1 or later"},
	{Podman, v(4, 1), "0.4.0", "0.4.0", bothDirs, true, "RHEL 8"},
	{Podman, v(4, 3), "0.5.0", "0.5.2", bothDirs, true, "Debian 12 (4.3.1)"},
	{Podman, v(4, 7), "0.6.0", "0.6.1", bothDirs, true, "Ubuntu 24.04 (4.9.3)"},
	{Podman, v(5, 1), "0.7.0", "0.7.2", bothDirs, true, ""},
	{Podman, v(5, 2), "0.8.0", "0.8.0", bothDirs, true, "Debian 13 (5.4)"},
	{Podman, v(5, 5), "1.0.0", "1.0.1", []string{staticDir}, true,
		"others with --cdi-spec-dir"},
	{Podman, v(5, 6), "1.0.0", "1.0.1", bothDirs, true, ""},
	{Podman, development, "1.1.0", "1.1.0", bothDirs, true, ""},

	{Containerd, v(1, 6), "", "", nil, false, "has no CDI; upgrade to 1.7 or 2.x"},
	{Containerd, v(1, 7), "0.5.0", "0.5.4", bothDirs, false, enableCDI},
	{Containerd, v(1, 7, 12), "0.6.0", "0.6.1", bothDirs, false, enableCDI},
	{Containerd, v(1, 7, 16), "0.7.0", "0.7.2", bothDirs, false, enableCDI},
	{Containerd, v(1, 7, 27), "0.8.0", "0.8.1", bothDirs, false, enableCDI},
	{Containerd, v(2, 0), "0.8.0", "0.8.0", bothDirs, true, "from here ctr run --device vendor/class=name, too"},
	{Containerd, v(2, 0, 5), "1.0.0", "1.0.0", bothDirs, true, ""},
	{Containerd, v(2, 2, 1), "1.1.0", "1.1.0", bothDirs, true, ""},
	{Containerd, v(2, 3), "1.1.0", "1.1.0", bothDirs, true, "CDI is always on"},
	{Containerd, v(2, 4), "1.1.0", "1.1.1", bothDirs, true, ""},

	{Docker, v(20, 10), "", "", nil, false, "has no CDI; upgrade to 25 or later"},
	{Docker, v(25), "0.6.0", "0.6.2", bothDirs, false, featureCDI},
	{Docker, v(26, 1), "0.7.0", "0.7.2", bothDirs, false, featureCDI},
	{Docker, v(27, 5), "0.8.0", "0.8.0", bothDirs, false, featureCDI},
	{Docker, v(28, 1), "1.0.0", "1.0.1", bothDirs, false, featureCDI},
	{Docker, v(28, 2), "1.0.0", "1.0.1", bothDirs, true, ""},
	{Docker, development, "1.1.0", "1.1.0", bothDirs, true, ""},

	{CRIO, v(1, 24), "0.3.0", "0.3.2", bothDirs, true, ""},
	{CRIO, v(1, 25), "0.5.0", "0.5.0", bothDirs, true, ""},
	{CRIO, v(1, 28), "0.6.0", "0.6.0", bothDirs, true, ""},
	{CRIO, v(1, 30), "0.7.0", "0.7.2", bothDirs, true, ""},
	{CRIO, v(1, 31), "0.8.0", "0.8.0", bothDirs, true, ""},
	{CRIO, v(1, 33), "1.0.0", "1.0.1", bothDirs, true, ""},
	{CRIO, v(1, 35), "1.1.0", "1.1.0", bothDirs, true, ""},
}
