import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"0045 Tests of two nodes run two virtual machines on a network of the test","description":"Decided. The test bed for jobs across nodes has two virtual machines as nodes of one control plane on the host.","frontmatter":{"aside":false},"headers":[],"relativePath":"adr/0045-two-nodes.md","filePath":"adr/0045-two-nodes.md"}');
const _sfc_main = { name: "adr/0045-two-nodes.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="0045-tests-of-two-nodes-run-two-virtual-machines-on-a-network-of-the-test" tabindex="-1">0045 Tests of two nodes run two virtual machines on a network of the test <a class="header-anchor" href="#0045-tests-of-two-nodes-run-two-virtual-machines-on-a-network-of-the-test" aria-label="Permalink to &quot;0045 Tests of two nodes run two virtual machines on a network of the test&quot;">​</a></h1><p><strong>Decided.</strong> The test bed for jobs across nodes has two virtual machines as nodes of one control plane on the host.</p><ul><li>The test runs on the host. It has kubectl, client-go, and the network. A guest joins and then runs what the test sends by HTTP.</li><li>The network is a Go type of the test, <code>vm.Switch</code>. QEMU&#39;s ports are its unix sockets (<code><span class="flag">-netdev</span> stream</code>). It counts RoCE and TCP by direction, and drops or delays frames. QEMU&#39;s monitor takes the carrier of one port away.</li><li>The rails carry RDMA alone. A network device of its own connects nodes, pods and DNS, so a fault of a rail leaves the control plane as it is.</li><li>CoreDNS is the real one, with the plugins that Services need. It is a process of node 1.</li></ul><p><strong>Why.</strong> A fault in the middle and a fault at the port differ in the carrier alone. A bridge and <code>tc</code> on the host would need modules and rights that the host lacks. Inside a guest, no single program could see both nodes.</p><p><strong>Rejected.</strong></p><table tabindex="0"><thead><tr><th></th><th>why not</th></tr></thead><tbody><tr><td data-label="">two namespaces of one guest</td><td data-label="why not">one kernel: soft-RoCE loops back, and one kubelet&#39;s failure is everybody&#39;s</td></tr><tr><td data-label="">a socket from guest to guest (<code><span class="flag">-netdev</span> socket</code>)</td><td data-label="why not">nobody counts, delays or cuts</td></tr><tr><td data-label="">QEMU&#39;s user network for all</td><td data-label="why not">it carries no frames between guests, and no UDP to the host</td></tr><tr><td data-label="">tests inside one of the guests, as with one node</td><td data-label="why not">it could not cut its own network, and emulated clients take ten times as long</td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("adr/0045-two-nodes.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0045TwoNodes = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0045TwoNodes as default
};
