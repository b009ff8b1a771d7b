import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"Two containers, one HCA","description":"In this tutorial, two containers of a pod get the same HCA, and a third one gets nothing. You need a cluster with the driver; make demo makes one.","frontmatter":{"aside":false},"headers":[],"relativePath":"two-containers.md","filePath":"two-containers.md"}');
const _sfc_main = { name: "two-containers.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="two-containers-one-hca" tabindex="-1">Two containers, one HCA <a class="header-anchor" href="#two-containers-one-hca" aria-label="Permalink to &quot;Two containers, one HCA&quot;">​</a></h1><p>In this tutorial, two containers of a pod get the same HCA, and a third one gets nothing. You need a cluster with the driver; <code>make demo</code> makes one.</p><ol><li><p>Apply <a href="/files/examples/two-containers.yaml" target="_self">the manifest</a>. The containers <code>sender</code> and <code>receiver</code> name the claim, and <code>bystander</code> does not.</p><div class="language-sh vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">sh</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#702C00;--shiki-dark:#FFB757;">kubectl</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> apply</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> --filename</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> examples/two-containers.yaml</span></span>
<span class="line"><span style="--shiki-light:#702C00;--shiki-dark:#FFB757;">kubectl</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> wait</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> --for=condition=Ready</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> pod/two-containers</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> --timeout=1m</span></span></code></pre></div><p>If it times out, run <a href="./kubectl-rdma.html">kubectl rdma why</a>.</p></li><li><p>Compare what they see:</p><div class="language-console vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">console</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">$ kubectl logs two-containers -c sender</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">user 1000, capabilities 0000000000000000</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">crw-rw-rw-    1 0        0         231, 192 Nov 23 12:00 uverbs0</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">locked memory limit: unlimited KiB</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0</span></span>
<span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">$ kubectl logs two-containers -c bystander</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">user 1000, capabilities 0000000000000000</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">no /dev/infiniband</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">locked memory limit: 64 KiB</span></span></code></pre></div><p><code>receiver</code> prints the same as <code>sender</code>.</p></li><li><p>See who has the HCA: <code>kubectl rdma claims</code>.</p></li><li><p>Delete the pod, and its claim goes with it: <code>kubectl delete <span class="flag">--filename</span> examples/two-containers.yaml</code>.</p></li></ol><p>Next: <a href="/files/examples/shared-claim.yaml" target="_self">several pods with one claim</a>, <a href="./sharing.html">shares</a>.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("two-containers.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const twoContainers = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  twoContainers as default
};
