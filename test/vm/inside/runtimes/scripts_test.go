package runtimes

import "fmt"

// Scripts for busybox's shell, run in containers of the image of tools. A server and a
// client of one script share a network; the client waits until the server listens,
// without a connection, which would take the place of its own.
const (
	// look says what a container has.
	look = `
echo "user $(id -u) capabilities $(awk '/CapEff/ {print $2}' /proc/self/status)"
echo "memlock soft $(ulimit -S -l) hard $(ulimit -H -l)"
echo "nodes $(ls /dev/infiniband 2>/dev/null | tr '\n' ' ')"
echo "devices $(ibv_devices | tail -n +3 | awk '{printf "%s ", $1}')"
`
	// await PORT waits for a listener.
	await = `
await() { n=0; until netstat -ltn | grep -q ":$1 "; do
	n=$((n+1)); [ $n -lt 300 ] || { echo "nobody listens on $1"; exit 1; }; sleep 0.1
done; }
`
)

// traffic returns the scripts of two containers that send each other messages of 1 MiB,
// more than 64 KiB of locked memory hold, over device.
func traffic(device string) (server, client string) {
	const both = "set -e; %[1]s\ntimeout 60 ibv_rc_pingpong -d %[2]s -g 1 -s 1048576 -n 5 %[3]s\n" +
		"%[4]s\ntimeout 60 ib_write_bw -d %[2]s -x 1 -u 20 -F -n 5 -s 1048576 %[3]s\necho %[5]s done\n"
	server = fmt.Sprintf(both, look, device, "", "", "server")
	client = fmt.Sprintf(both, look+await+"await 18515", device, "127.0.0.1", "await 18515", "client")
	return server, client
}

// connect returns the scripts of two containers that find each other by rdma_cm. A
// client that comes too early is refused, and tries again.
func connect(address string) (server, client string) {
	server = fmt.Sprintf("%s\ntimeout 60 rping -s -a %s -C 3 -v", look, address)
	client = fmt.Sprintf(`%s
n=0
until timeout 10 rping -c -a %s -C 3 -v; do n=$((n+1)); [ $n -lt 50 ] || exit 1; sleep 0.1; done
echo client done`, look, address)
	return server, client
}

// probe tries to open nodes that the container was not given: those that are there, and
// those that it makes by number, as root with CAP_MKNOD.
func probe(numbers ...string) string {
	script := "for node in /dev/infiniband/*; do [ -e $node ] && echo present $node; done\n"
	for i, number := range numbers {
		script += fmt.Sprintf("mknod /tmp/node%[1]d c %[2]s && { head -c1 /tmp/node%[1]d && echo OPENED %[2]s; }\n",
			i, number)
	}
	return script + "true"
}
