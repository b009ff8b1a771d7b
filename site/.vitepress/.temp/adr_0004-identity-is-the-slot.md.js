import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"0004 A device is named after its slot","description":"Device names in slices, records and cdi-gen (beside the ibdev names) are these. ibdev names and uverbs numbers are looked up at Prepare and checked against the slot.","frontmatter":{},"headers":[],"relativePath":"adr/0004-identity-is-the-slot.md","filePath":"adr/0004-identity-is-the-slot.md"}');
const _sfc_main = { name: "adr/0004-identity-is-the-slot.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="0004-a-device-is-named-after-its-slot" tabindex="-1">0004 A device is named after its slot <a class="header-anchor" href="#0004-a-device-is-named-after-its-slot" aria-label="Permalink to &quot;0004 A device is named after its slot&quot;">​</a></h1><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>pci-0000-3b-00-0             a PCI function</span></span>
<span class="line"><span>pci-0000-c1-00-0-sf-88       a subfunction, by its SF number</span></span>
<span class="line"><span>soft-rxe-eth0                a software HCA, by its interface</span></span>
<span class="line"><span>...-at-&lt;GUID or ibdev&gt;       only where a slot has several usable HCAs</span></span></code></pre></div><p>Device names in slices, records and <code>cdi-gen</code> (beside the ibdev names) are these. ibdev names and uverbs numbers are looked up at Prepare and checked against the slot.</p><h2 id="why" tabindex="-1">Why <a class="header-anchor" href="#why" aria-label="Permalink to &quot;Why&quot;">​</a></h2><ul><li>ibdev names and uverbs numbers follow probe order: a driver reload, a new VF or a bond gives them to other cards. A claim must not get another card after that.</li><li>The names are DNS labels, begin with a letter (so that CDI 0.3.0 takes them), and different slots have different names: a free part that is no plain short label is written in hexadecimal behind <code>x--</code>, or hashed behind <code>h--</code>.</li><li>Devices without a uverbs node (the SMI sub-devices of multi-plane HCAs) do not count when it is decided whether a slot needs a discriminator, so that they do not rename the usable one.</li></ul><h2 id="rejected" tabindex="-1">Rejected <a class="header-anchor" href="#rejected" aria-label="Permalink to &quot;Rejected&quot;">​</a></h2><ul><li><em>ibdev name</em>: above. <em>Node GUID</em>: a VF may have none, and a replaced card changes it although slot and cabling stay. <em>Netdev name</em>: InfiniBand and EFA may have none, and udev renames.</li><li><em>udev&#39;s persistent names</em> (<code>rocep59s0f0</code>): the same information, but only on hosts that use them.</li><li><em>Always a discriminator</em>: ugly for everyone because of a few switchdev and MANA functions. The price: a second usable HCA that appears on a function renames the first one&#39;s device.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("adr/0004-identity-is-the-slot.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0004IdentityIsTheSlot = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0004IdentityIsTheSlot as default
};
