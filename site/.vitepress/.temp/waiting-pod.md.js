import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"Debug a pod that waits","description":"Follow these steps from the pod to the node. Stop where the output names the cause.","frontmatter":{"aside":false},"headers":[],"relativePath":"waiting-pod.md","filePath":"waiting-pod.md"}');
const _sfc_main = { name: "waiting-pod.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="debug-a-pod-that-waits" tabindex="-1">Debug a pod that waits <a class="header-anchor" href="#debug-a-pod-that-waits" aria-label="Permalink to &quot;Debug a pod that waits&quot;">​</a></h1><p>Follow these steps from the pod to the node. Stop where the output names the cause.</p><ol><li><p>Ask why. The first line is the answer:</p><div class="language-console vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">console</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">$ kubectl rdma why trainer</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">Pod default/trainer is Pending: request nics wants 2 of hca.rdma.dev, and the best node, node1, has 1.</span></span></code></pre></div></li><li><p><strong>Pending</strong>: choose one of the changes below <code>It would fit</code>. For a claim of another pod, ask its owner. For a taint, read the device&#39;s <a href="./health.html">health</a>.</p></li><li><p><strong>ContainerCreating</strong>: <a href="./troubleshooting.html#a-pod-stays-containercreating">this table</a> has remedies for <code>PrepareFailed</code>.</p></li><li><p>No reason? Check that the driver is ready on this node:</p><div class="language-console vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">console</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">$ kubectl rdma nodes NODE</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">NAME    READY   DRIVER     DEVICES   FREE   USED   TAINTED   PROTOCOLS</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">node3   True    NotReady   32        32     0      0         efa</span></span></code></pre></div><p><code>NotReady</code> or <code>Missing</code>: describe the driver&#39;s pod, and read its log.</p></li><li><p>The driver is ready? See what it knows: problems stand first.</p><div class="language-sh vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">sh</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#702C00;--shiki-dark:#FFB757;">kubectl</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> --namespace</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> dra-driver-rdma</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> exec</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> DRIVER_POD</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> --</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> dra-driver</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> status</span></span></code></pre></div></li><li><p>Still unknown? Run <a href="./doctor.html">cdi-gen doctor</a> on the node. Add the output of all steps to your report.</p></li></ol><p>After a repair, a pod may need a minute to start.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("waiting-pod.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const waitingPod = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  waitingPod as default
};
