# One end of a pair: ROLE DEVICE PORT TCP-PORT SECONDS [SERVER-ADDRESS], with ROLE server or client.
# It runs in a container with perftest, by any POSIX shell. measure.go reads what it prints:
#
#   listening         the server waits for its client
#   down              the port is not active: perftest need not notice, and may end as if all were well
#   tool TEXT         a line of perftest
role=$1 device=$2 port=$3 tcp=$4 seconds=$5 server=${6-}
base=/sys/class/infiniband/$device/ports/$port
if [ ! -d "$base" ]; then
	echo "tool the pod has no RDMA device $device with a port $port"
	echo "tool exit 1"
	exit 0
fi

# The GID of RoCE v2, rather one with an IPv4 address than a global one, and rather that than a link-local one. The
# shell reads by itself: soft-RoCE has 1,024 entries, and a program for each takes a minute on a busy machine.
gid='' rank=0 layer='' type='' value=''
read -r layer 2>/dev/null <"$base/link_layer"
if [ "$layer" = Ethernet ]; then
	for file in "$base"/gid_attrs/types/*; do
		read -r type 2>/dev/null <"$file" && [ "$type" = "RoCE v2" ] || continue
		index=${file##*/}
		read -r value 2>/dev/null <"$base/gids/$index" || continue
		case $value in
		0000:0000:0000:0000:0000:0000:0000:0000 | '') continue ;;
		0000:0000:0000:0000:0000:ffff:*) is=3 ;;
		fe80:*) is=1 ;;
		*) is=2 ;;
		esac
		if [ $is -gt $rank ]; then gid=$index rank=$is; fi
	done
	if [ -z "$gid" ]; then
		echo "tool the RDMA device $device has no GID of RoCE v2 in the pod"
		echo "tool exit 1"
		exit 0
	fi
fi

uptime() { # sets now to whole seconds
	read -r now _ </proc/uptime
	now=${now%%.*}
}
look() {
	if read -r state 2>/dev/null <"$base/state"; then
		case $state in *ACTIVE*) ;; *) echo down ;; esac
	fi
}

# The driver's hook raises the limit of locked memory for the container, and not for what runs in it by exec.
ulimit -S -l "$(ulimit -H -l)"

# A lost packet is sent again after a second at the latest, seven times.
{
	timeout $((seconds + 100)) ib_write_bw -d "$device" -i "$port" ${gid:+-x $gid} -p "$tcp" -D "$seconds" -b -F -u 18 \
		-s 65536 --report_gbits $server
	echo "exit $?"
} </dev/null 2>&1 | sed 's/^/tool /' &
tool=$!

listens() { # whether somebody listens at the TCP port
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qi ":$(printf %04X "$tcp") [0-9A-F]*:0000 0A "
}
said=''
uptime
last=$((now + seconds + 110))
while kill -0 $tool 2>/dev/null && [ "$now" -lt $last ]; do
	if [ "$role" = server ] && [ -z "$said" ] && listens; then
		said=yes
		echo listening
	fi
	look
	if [ "$role" = server ] && [ -z "$said" ]; then sleep 0.2; else sleep 1; fi
	uptime
done
look
wait
