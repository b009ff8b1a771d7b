import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"0008 Tests and demo run a real cluster in their own namespaces","description":"from pinned Go modules, caches them by version, and runs them in private mount, network, PID, IPC and UTS namespaces with a private /dev, /run and kubelet directory. The driver enters as an image, thr","frontmatter":{},"headers":[],"relativePath":"adr/0008-embedded-cluster.md","filePath":"adr/0008-embedded-cluster.md"}');
const _sfc_main = { name: "adr/0008-embedded-cluster.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="0008-tests-and-demo-run-a-real-cluster-in-their-own-namespaces" tabindex="-1">0008 Tests and demo run a real cluster in their own namespaces <a class="header-anchor" href="#0008-tests-and-demo-run-a-real-cluster-in-their-own-namespaces" aria-label="Permalink to &quot;0008 Tests and demo run a real cluster in their own namespaces&quot;">​</a></h1><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><p><code>test/cluster</code> builds etcd, the Kubernetes components, containerd, runc, the CNI plugins and helm from pinned Go modules, caches them by version, and runs them in private mount, network, PID, IPC and UTS namespaces with a private <code>/dev</code>, <code>/run</code> and kubelet directory. The driver enters as an image, through its chart.</p><h2 id="why" tabindex="-1">Why <a class="header-anchor" href="#why" aria-label="Permalink to &quot;Why&quot;">​</a></h2><ul><li>What a user relies on (kubelet restarts, slice wiping, device cgroups, hooks) is behaviour of the real programs; fakes repeat our own beliefs.</li><li>No container engine, no virtual machine and no registry is needed: two cores and root.</li><li>A host with its own containerd, kubelet or HCAs is not touched, and no port can collide.</li><li>The driver&#39;s 0.37 libraries and the cluster&#39;s 0.36 cannot share a Go module: separate modules, and the skew is what users have.</li></ul><p>Measured on two cores: cluster up in 4 s, down in under 1 s, a pod with a claim ready in about 1 s.</p><h2 id="rejected" tabindex="-1">Rejected <a class="header-anchor" href="#rejected" aria-label="Permalink to &quot;Rejected&quot;">​</a></h2><ul><li><em>kind, minikube</em>: need a container engine and images from a registry.</li><li><em>envtest</em>: has no kubelet, scheduler or container runtime.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("adr/0008-embedded-cluster.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0008EmbeddedCluster = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0008EmbeddedCluster as default
};
