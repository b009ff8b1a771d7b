import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"Check your hardware in ten minutes","description":"No test ran on an RDMA card. With what you send, your model becomes a fixture of our tests.","frontmatter":{"aside":false},"headers":[],"relativePath":"hardware.md","filePath":"hardware.md"}');
const _sfc_main = { name: "hardware.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="check-your-hardware-in-ten-minutes" tabindex="-1">Check your hardware in ten minutes <a class="header-anchor" href="#check-your-hardware-in-ten-minutes" aria-label="Permalink to &quot;Check your hardware in ten minutes&quot;">​</a></h1><p>No test ran on an RDMA card. With what you send, your model becomes a fixture of our tests.</p><ol><li>On a host with HCAs, run <code>cdi-gen report</code>. It writes one archive, with scrubbed addresses. Read it before you send it.</li><li>Run the checks below.</li><li>Open an issue with the archive and the outputs.</li></ol><table tabindex="0" class="wide"><thead><tr><th>run</th><th>right</th><th>feature</th></tr></thead><tbody><tr><td data-label="run"><code>cdi-gen list</code></td><td data-label="right">every HCA, with its port state and NUMA node</td><td data-label="feature">discovery</td></tr><tr><td data-label="run"><code>cdi-gen topology</code></td><td data-label="right">each HCA near the GPU that your manual names</td><td data-label="feature">alignment</td></tr><tr><td data-label="run"><code>cdi-gen doctor</code></td><td data-label="right">only what is really wrong</td><td data-label="feature"><code>doctor</code></td></tr><tr><td data-label="run">podman&#39;s <a href="./quickstart-podman.html">five commands</a></td><td data-label="right">an HCA in the container</td><td data-label="feature">specs, locked memory</td></tr><tr><td data-label="run"><a href="./install.html">Install</a> on one node, then <code>kubectl rdma devices</code></td><td data-label="right">the same HCAs</td><td data-label="feature">driver</td></tr><tr><td data-label="run">unplug a cable; <code>kubectl rdma devices</code></td><td data-label="right">the HCA has a taint</td><td data-label="feature">health</td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("hardware.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const hardware = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  hardware as default
};
