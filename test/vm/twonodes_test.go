package vm_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// Two nodes with a real RDMA kernel each, from the chart's installation to RDMA between pods: the two pods of
// examples/rails.yaml land on two nodes, with an HCA and an interface on each of two rails. On each rail they talk by
// rdma_cm and by verbs. The counters of the switches and of the HCAs say that it was RoCE, and on its own rail.
func TestTwoNodes(t *testing.T) {
	b := newBed(t, railValues(t)...)
	b.apply(t, b.checkout.Example("rails"))
	p := pair{b, [2]string{"rails-a", "rails-b"}, [2]*memberNode{}}
	for i, pod := range p.pods {
		p.nodes[i] = b.ready(t, pod)
	}
	must.NotEqOp(t, p.nodes[1], p.nodes[0], must.Sprintf("both pods are on %s", p.nodes[0].name))
	a, c := b.addresses(t, p.pods[0]), b.addresses(t, p.pods[1])
	for rail := range b.rails {
		t.Run(fmt.Sprint("rail ", rail), func(t *testing.T) {
			if a[rail].Masked() != c[rail].Masked() || a[rail] == c[rail] {
				t.Errorf("the pods have %s and %s", a[rail], c[rail])
			}
			to, from := a[rail].Addr().String(), c[rail].Addr().String()
			p.counted(t, rail, func() { p.ping(t, to, from) })
			if !needs.IsLong() {
				return
			}
			p.counted(t, rail, func() {
				b.converse(t, p.pods[0], fmt.Sprintf(write, rail, ""), p.pods[1], fmt.Sprintf(write, rail, to))
			})
		})
	}
	t.Run("names", p.names)
	t.Run("reboot", p.reboot) // the last one: it ends the pods
}

// write has perftest use the HCA and the GID of an interface, as the container's variables say. By default a QP waits
// 67 ms for an answer, and emulated programs need longer; 20 stands for 4 s.
const write = `hca=$(env | sed -n 's/^RDMA_INTERFACE_\(.*\)=rdma%d$/\1/p')
eval "timeout 100 ib_write_bw -d \$RDMA_DEVICE_$hca -x \$RDMA_GID_INDEX_$hca -u 20 -F -n 5 -s 4096 %s"`

// ping has the pods talk by rdma_cm, to an address of the first one from an address of the other one.
func (p pair) ping(t *testing.T, to, from string) {
	t.Helper()
	p.converse(t, p.pods[0], "timeout 100 rping -s -C 3 -v -a "+to,
		p.pods[1], fmt.Sprintf("timeout 50 rping -c -C 3 -v -a %s -I %s", to, from))
}

// pair are two pods on two nodes, with a device of each rail.
type pair struct {
	*bed
	pods  [2]string
	nodes [2]*memberNode
}

// counted wants a conversation to be RoCE in both directions, on one rail and by the HCAs of that rail.
func (p pair) counted(t *testing.T, rail int, converse func()) {
	t.Helper()
	type counts struct{ own, others, packets int }
	read := func() (all [2]counts) {
		for i, n := range p.nodes {
			own, others := n.rails[rail].Sent(vm.RoCE).Frames, n.rails[1-rail].Sent(vm.RoCE).Frames
			all[i] = counts{int(own), int(others), n.packets(t, rail)}
		}
		return all
	}
	before := read()
	converse()
	for i, now := range read() {
		was := before[i]
		own, others, packets := now.own-was.own, now.others-was.others, now.packets-was.packets
		t.Logf("rail %d: %s sent %d frames of RoCE, and its HCA %d packets", rail, p.nodes[i].name, own, packets)
		if own < 5 || packets < 5 || others != 0 {
			t.Errorf("on rail %d %s sent %d frames of RoCE and its HCA %d packets, and %d frames on the other rail",
				rail, p.nodes[i].name, own, packets, others)
		}
	}
}

// names: pods find each other by the name of a headless Service, and reach each other by TCP.
func (p pair) names(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "rails"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "rails"}},
	}
	services := p.client.CoreV1().Services("default")
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.kubectl(t, "label", "pod", p.pods[0], "app=rails")
	before := p.nodes[1].management.Sent(vm.TCP).Frames
	const name = "rails.default.svc.cluster.local"
	_, received := p.converse(t, p.pods[0], "timeout 100 nc -l -p 7000 -e echo hello",
		p.pods[1], "timeout 20 nc "+name+" 7000 </dev/null")
	test.Eq(t, "hello\n", received, test.Sprint("the client has received"))
	test.Greater(t, before, p.nodes[1].management.Sent(vm.TCP).Frames, test.Sprint("the switch counts"))
}
