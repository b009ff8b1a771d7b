#!/bin/sh
# Stands for a CNI plugin that needs hardware: it keeps the configuration that it was called
# with, and has host-device move the interface, if there is one below the PCI function.
set -eu
config=$(cat)
pod=${CNI_ARGS#*K8S_POD_NAME=}
pod=${pod%%;*}
device=$(printf %s "$config" | sed -n 's/.*"deviceID":"\([^"]*\)".*/\1/p')
if [ "$CNI_COMMAND" = ADD ]; then
	mkdir -p /run/cni-seen
	printf %s "$config" >"/run/cni-seen/$pod"
fi
if [ -d "/sys/bus/pci/devices/$device/net" ]; then
	printf %s "$config" | /opt/cni/bin/host-device
elif [ "$CNI_COMMAND" = ADD ]; then
	printf '{"cniVersion":"1.0.0","interfaces":[{"name":"%s","sandbox":"%s"}]}' "$CNI_IFNAME" "$CNI_NETNS"
fi
