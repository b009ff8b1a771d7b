import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse(`{"title":"NVIDIA DGX and HGX","description":"A DGX H100 has eight compute ports beside its GPUs, and two cards with two ports each for storage and management. The kernel's names (mlx5_0) do not follow the order of the GPUs: select by topology.","frontmatter":{"aside":false},"headers":[],"relativePath":"platforms/dgx.md","filePath":"platforms/dgx.md"}`);
const _sfc_main = { name: "platforms/dgx.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="nvidia-dgx-and-hgx" tabindex="-1">NVIDIA DGX and HGX <a class="header-anchor" href="#nvidia-dgx-and-hgx" aria-label="Permalink to &quot;NVIDIA DGX and HGX&quot;">​</a></h1><p>A DGX H100 has eight compute ports beside its GPUs, and two cards with two ports each for storage and management. The kernel&#39;s names (<code>mlx5_0</code>) do not follow the order of the GPUs: select by topology.</p><ol><li><p>DGX OS has the modules. For other systems on HGX, see <a href="./bare-metal.html">bare metal</a>.</p></li><li><p>Separate compute and storage. Only compute ports have a <code>pcieSwitch</code>, so this rule shares the others:</p><div class="language-yaml vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">yaml</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">config</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">:</span></span>
<span class="line"><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">  rules</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">:</span></span>
<span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">    - </span><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">name</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">: </span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;">storage</span></span>
<span class="line"><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">      publish</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">: </span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;">shared</span></span>
<span class="line"><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">      selectors</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">:</span></span>
<span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">        - </span><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">cel</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">:</span></span>
<span class="line"><span style="--shiki-light:#024C1A;--shiki-dark:#72F088;">            expression</span><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">: </span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;">&#39;!has(device.attributes[&quot;rdma.dev&quot;].pcieSwitch)&#39;</span></span></code></pre></div></li><li><p>For GPUs with their HCAs, see <a href="./../alignment.html">alignment</a>, and <a href="./../nccl.html">NCCL over RoCE rails</a> with addresses on HGX. <code>kubectl rdma topology</code> draws your host.</p></li><li><p>NVIDIA&#39;s network operator may install kernel drivers, but not its RDMA device plugins.</p></li><li><p>Fabric tools (<code>ibdiagnet</code>, <code>perfquery</code>) need a <a href="./../security.html#privileged-classes">privileged class</a>, or run on the host.</p></li></ol><blockquote><p><strong>Not run</strong> on a DGX; tests use the modelled machines <code>dgx-h100-ib</code>, <code>hgx-h100</code>, <code>hgx-b200</code>, <code>hgx-b300</code>, <code>hgx-b300-planes</code>, <code>gb200-cx7</code> and <code>gb300-cx8</code>.</p></blockquote></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("platforms/dgx.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const dgx = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  dgx as default
};
