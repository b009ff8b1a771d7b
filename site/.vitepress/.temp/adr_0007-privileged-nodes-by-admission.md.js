import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse(`{"title":"0007 A class gives umad and issm only in namespaces that permit it","description":"A claim gets uverbs and rdma_cm. mad (umad) and sm (issm) come only from a DeviceClass whose HCAClassConfig allows them. Since any user may name any class, the chart's admission policies ask for more:","frontmatter":{},"headers":[],"relativePath":"adr/0007-privileged-nodes-by-admission.md","filePath":"adr/0007-privileged-nodes-by-admission.md"}`);
const _sfc_main = { name: "adr/0007-privileged-nodes-by-admission.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="0007-a-class-gives-umad-and-issm-only-in-namespaces-that-permit-it" tabindex="-1">0007 A class gives umad and issm only in namespaces that permit it <a class="header-anchor" href="#0007-a-class-gives-umad-and-issm-only-in-namespaces-that-permit-it" aria-label="Permalink to &quot;0007 A class gives umad and issm only in namespaces that permit it&quot;">​</a></h1><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><p>A claim gets <code>uverbs</code> and <code>rdma_cm</code>. <code>mad</code> (umad) and <code>sm</code> (issm) come only from a DeviceClass whose HCAClassConfig allows them. Since any user may name any class, the chart&#39;s admission policies ask for more: such a class must carry the label <code>rdma.dev/privileged: &quot;true&quot;</code>, and a claim or template that names a labelled class is admitted only in a namespace with the label <code>rdma.dev/privileged-classes: &quot;true&quot;</code>. A third policy judges the allocation itself, when the scheduler writes it: a claim may be older than the class it names, and an allocation is what the driver acts on. Requests with adminAccess count as an administrator&#39;s, whose namespace label Kubernetes itself asks for.</p><h2 id="why" tabindex="-1">Why <a class="header-anchor" href="#why" aria-label="Permalink to &quot;Why&quot;">​</a></h2><p>Who can send management datagrams can reconfigure a fabric: take links down, change routes. Every other RDMA plugin hands umad and issm to every container.</p><h2 id="rejected" tabindex="-1">Rejected <a class="header-anchor" href="#rejected" aria-label="Permalink to &quot;Rejected&quot;">​</a></h2><ul><li><em>The class alone</em>: classes are cluster-wide and open to all users.</li><li><em>A check in the driver</em>: it would need to read namespaces, comes after the scheduler&#39;s work, and a claim that exists looks permitted. The driver still refuses what the class does not allow.</li><li><em>A webhook</em>: policies in the API server need no service that can be down.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("adr/0007-privileged-nodes-by-admission.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0007PrivilegedNodesByAdmission = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0007PrivilegedNodesByAdmission as default
};
