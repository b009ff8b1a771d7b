package doctor

// Looks of several kinds of findings. Words are what the report calls them if they fail.
const (
	pciFunctionsRead = "/sys/bus/pci/devices"
	moduleTables     = "/lib/modules/*/modules.*"
	classInfiniband  = "/sys/class/infiniband"
	netnsMode        = "network namespace mode of RDMA devices"
	portState        = "/sys/class/infiniband/*/ports/*/state"
	portAddresses    = "/sys/class/infiniband/*/ports/*/gids"
	deviceNodes      = "/dev/infiniband/*"
	processes        = "processes*"
	containersRead   = "running containers"
	hooksRead        = "hook *"
	hookReports      = "report of the hook*"
	mountsRead       = "mounts of the host*"
	specsRead        = "spec*" // a file, or a directory of them
)
