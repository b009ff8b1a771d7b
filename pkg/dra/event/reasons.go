package event

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// Reason is the reason of an event. It must not change between versions, because people and programs search for it.
type Reason struct {
	Reason  string
	Type    string // Normal or Warning
	Objects string // that get the event
	Meaning string
}

// These are the reasons for events of claims and nodes, besides the reasons of health.
var (
	PrepareFailed = Reason{"RDMAPrepareFailed", corev1.EventTypeWarning, "claim",
		"The claim cannot be prepared on its node; the message has the reason. The kubelet tries again, and tells the pod (`FailedPrepareDynamicResources`)."}
	UnprepareFailed = Reason{"RDMAUnprepareFailed", corev1.EventTypeWarning, "claim, pods",
		"The driver cannot remove the claim's devices from its node, so its pods do not end. The kubelet tries again."}
	MemlockNotRaised = Reason{"RDMAMemlockNotRaised", corev1.EventTypeWarning, "claim, pod",
		"A container has less locked memory than its claim asks for, so registering memory may fail with `ENOMEM` ([hook](../hook.md#where-it-does-not-reach))."}
	LimitNotSet = Reason{"RDMALimitNotSet", corev1.EventTypeWarning, "claim, pod",
		"The limits `handles` or `objects` of a claim do not apply to a container " +
			"([hook](../hook.md#where-limits-are-accounting-only))."}
	NetdevMissing = Reason{"RDMANetdevMissing", corev1.EventTypeNormal, "claim, pod",
		"A container has a RoCE or iWARP device, but its own network namespace has no interface of the device, " +
			"so `rdma_cm` and libraries that use addresses fail there. Each pod is told once."}
	NotUsable = Reason{"RDMANotUsable", corev1.EventTypeWarning, "claim, pod",
		"A container has an HCA that it cannot use, so its job may fall back to TCP. The message has the cause " +
			"and the remedy ([unusable HCAs](../troubleshooting.md#rdmanotusable))."}
	MoveFailed = Reason{"RDMAMoveFailed", corev1.EventTypeWarning, "claim, pod",
		"The RDMA devices of the claim could not be moved into the network namespace of the pod, or another pod of the claim has them ([network](../network.md#claims-that-pods-share)), so its containers do not start. The kubelet tries again."}
	GIDIndexNotSet = Reason{"RDMAGIDIndexNotSet", corev1.EventTypeWarning, "claim, pod",
		"A claim asks for the GID index of a library by `env`, but a container does not get it: its HCAs have different " +
			"indexes, or one has none. The message says which ([network](../network.md#which-gid))."}
	GIDIndexChanged = Reason{"RDMAGIDIndexChanged", corev1.EventTypeWarning, "claim, pod",
		"The GID of a running pod's interface has another index than its container was told. " +
			"Restart the container ([network](../network.md#which-gid))."}
	LowMTU = Reason{"RDMALowMTU", corev1.EventTypeWarning, "claim, pod",
		"The MTU of the network interface that a pod got by the claim makes RDMA packets smaller than the HCA " +
			"can send ([network](../network.md#mtu))."}
	OpenIPv6 = Reason{"RDMAIPv6NotSet", corev1.EventTypeWarning, "claim, pod",
		"The driver could not set `accept_ra=0` for the interface that a pod got by the claim, so routers on the fabric " +
			"can give it addresses and routes ([network](../network.md#several-interfaces-in-a-pod))."}
	StillHeld = Reason{"RDMAStillHeld", corev1.EventTypeWarning, "claim",
		"The claim is deleted, or no longer allocated to this node, but still holds its HCA; " +
			"the message says why ([restarts](../restarts.md#what-holds-an-hca))."}
	NoBlock = Reason{"RDMANoAddressBlock", corev1.EventTypeWarning, "node",
		"The node has no block of addresses for an entry of `ipam`; the message says why. Claims that ask for its " +
			"addresses are not prepared ([network](../network.md#addresses-that-are-unique-in-the-cluster))."}
	NoDevices = Reason{"NoRDMADevices", corev1.EventTypeWarning, "node",
		"The node publishes nothing, so it has no ResourceSlice; the message says why. The type is Normal if the host " +
			"has no HCA. The driver repeats it every 45 minutes ([no devices](../troubleshooting.md#no-devices-are-published))."}
	EffectHeldBack = Reason{"RDMAEffectHeldBack", corev1.EventTypeWarning, "node",
		"Several cards of the node have sick links, and the policy's effects hold for one of them at a time; the message " +
			"says which ([health](../health.md#links-that-are-up-and-sick))."}
	ConfigurationRefused = Reason{"RDMAConfigurationRefused", corev1.EventTypeWarning, "node",
		"The driver does not use its policy as it is now. The message has the mistake, and what is in force."}
	ConfigurationUsed = Reason{"RDMAConfigurationUsed", corev1.EventTypeNormal, "node", "It uses the file again."}
	NotPublished      = Reason{"RDMANotPublished", corev1.EventTypeWarning, "node",
		"The API server lacks the node's devices; the message says why."}
	PublishedAgain = Reason{"RDMAPublishedAgain", corev1.EventTypeNormal, "node",
		"It has them again."}
)

// Reasons returns all reasons. The reasons of health come last.
func Reasons() []Reason {
	out := []Reason{
		PrepareFailed, UnprepareFailed, MemlockNotRaised, LimitNotSet, NetdevMissing, NotUsable, MoveFailed, LowMTU, OpenIPv6,
		GIDIndexNotSet, GIDIndexChanged, StillHeld, NoBlock, NoDevices,
		EffectHeldBack, ConfigurationRefused, ConfigurationUsed, NotPublished, PublishedAgain,
	}
	for _, c := range health.Conditions() {
		for _, holds := range []bool{true, false} {
			t := health.Transition{Condition: c, Holds: holds}
			meaning := "The condition `" + string(c) + "` of an HCA "
			if holds {
				meaning += "began"
			} else {
				meaning += "ended"
			}
			out = append(out, Reason{t.Reason(), TypeOf(t), "node, claims, pods", meaning + " ([health](../health.md))."})
		}
	}
	return out
}

// TypeOf returns the type of the event of a transition: Warning for a grave one.
func TypeOf(t health.Transition) string {
	if t.Grave() {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
