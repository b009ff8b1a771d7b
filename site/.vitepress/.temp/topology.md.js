import { ssrRenderAttrs, ssrRenderAttr } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const _imports_0 = "/assets/topology.AU5uUOEB.svg";
const __pageData = JSON.parse('{"title":"Where HCAs and GPUs sit: cdi-gen topology","description":"Point at a box for details. A grey HCA has no active port.","frontmatter":{},"headers":[],"relativePath":"topology.md","filePath":"topology.md"}');
const _sfc_main = { name: "topology.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="where-hcas-and-gpus-sit-cdi-gen-topology" tabindex="-1">Where HCAs and GPUs sit: cdi-gen topology <a class="header-anchor" href="#where-hcas-and-gpus-sit-cdi-gen-topology" aria-label="Permalink to &quot;Where HCAs and GPUs sit: cdi-gen topology&quot;">​</a></h1><p><code>cdi-gen topology</code> shows which HCAs are near accelerators of any vendor. It reads sysfs only.</p><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>cdi-gen topology                     the tree, then the matrix of distances</span></span>
<span class="line"><span>cdi-gen topology -o tree --ascii     the tree alone, without box characters</span></span>
<span class="line"><span>cdi-gen topology -o matrix</span></span>
<span class="line"><span>cdi-gen topology -o svg &gt; host.svg   a picture for a document</span></span>
<span class="line"><span>cdi-gen topology -o json             for programs; yaml as well</span></span>
<span class="line"><span>cdi-gen topology --device mlx5_0     one HCA and all accelerators</span></span></code></pre></div><h2 id="the-picture" tabindex="-1">The picture <a class="header-anchor" href="#the-picture" aria-label="Permalink to &quot;The picture&quot;">​</a></h2><p><img${ssrRenderAttr("src", _imports_0)} alt="An HGX H100 server"></p><p>Point at a box for details. A grey HCA has no active port.</p><h2 id="the-tree" tabindex="-1">The tree <a class="header-anchor" href="#the-tree" aria-label="Permalink to &quot;The tree&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>NUMA node 0</span></span>
<span class="line"><span>├─ root pci0000:15 ─ switch 0000:16:00.0</span></span>
<span class="line"><span>│  ├─ GPU0     0000:1b:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>│  └─ mlx5_0   0000:18:00.0  InfiniBand, 400 Gb/s, ibp24s0</span></span>
<span class="line"><span>├─ root pci0000:28</span></span>
<span class="line"><span>│  ├─ mlx5_1   0000:29:00.0  RoCE, 200 Gb/s, enp41s0f0np0</span></span>
<span class="line"><span>│  └─ mlx5_2   0000:29:00.1  RoCE, 200 Gb/s, enp41s0f1np1</span></span>
<span class="line"><span>├─ root pci0000:3d ─ switch 0000:3e:00.0</span></span>
<span class="line"><span>│  ├─ GPU1     0000:43:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>│  └─ mlx5_3   0000:40:00.0  InfiniBand, 400 Gb/s, ibp64s0</span></span>
<span class="line"><span>├─ root pci0000:4c ─ switch 0000:4d:00.0</span></span>
<span class="line"><span>│  ├─ GPU2     0000:52:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>│  └─ mlx5_4   0000:4f:00.0  InfiniBand, 400 Gb/s, ibp79s0</span></span>
<span class="line"><span>└─ root pci0000:5b ─ switch 0000:5c:00.0</span></span>
<span class="line"><span>   ├─ GPU3     0000:61:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>   └─ mlx5_5   0000:5e:00.0  InfiniBand, 400 Gb/s, ibp94s0</span></span>
<span class="line"><span>NUMA node 1</span></span>
<span class="line"><span>├─ root pci0000:97 ─ switch 0000:98:00.0</span></span>
<span class="line"><span>│  ├─ GPU4     0000:9d:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>│  └─ mlx5_6   0000:9a:00.0  InfiniBand, 400 Gb/s, ibp154s0</span></span>
<span class="line"><span>├─ root pci0000:a9</span></span>
<span class="line"><span>│  ├─ mlx5_7   0000:aa:00.0  RoCE, 200 Gb/s, enp170s0f0np0</span></span>
<span class="line"><span>│  └─ mlx5_8   0000:aa:00.1  RoCE, DOWN, enp170s0f1np1</span></span>
<span class="line"><span>├─ root pci0000:bd ─ switch 0000:be:00.0</span></span>
<span class="line"><span>│  ├─ GPU5     0000:c3:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>│  └─ mlx5_9   0000:c0:00.0  InfiniBand, 400 Gb/s, ibp192s0</span></span>
<span class="line"><span>├─ root pci0000:cb ─ switch 0000:cc:00.0</span></span>
<span class="line"><span>│  ├─ GPU6     0000:d1:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>│  └─ mlx5_10  0000:ce:00.0  InfiniBand, 400 Gb/s, ibp206s0</span></span>
<span class="line"><span>└─ root pci0000:d9 ─ switch 0000:da:00.0</span></span>
<span class="line"><span>   ├─ GPU7     0000:df:00.0  NVIDIA 10de:2330</span></span>
<span class="line"><span>   └─ mlx5_11  0000:dc:00.0  InfiniBand, 400 Gb/s, ibp220s0</span></span></code></pre></div><ul><li>A root is a PCIe root complex (host bridge). A switch has the name of its upstream port. <code><span class="flag">-o</span> json</code> also has root ports and downstream ports (<code>bridges</code>, <code>via</code>).</li><li>With <a href="./gpudirect.html#boards-with-several-functions">Data Direct</a>, an HCA is where its DMA function is: <code>data by 0009:03:00.0</code>.</li><li>VFs and SFs count at their PF. In a virtual machine without the PF, the first VF stands for the others.</li><li>GPUs have numbers by PCI address, as in <code>nvidia-smi</code>. They are PCI functions of class 03, and AMD&#39;s of class 12. Other functions of class 12 are called ACC. If a device is missing or wrong, report it with <code>lspci <span class="flag">-nn</span></code>.</li><li>Software HCAs (soft-RoCE, soft-iWARP) come last. If the kernel shows their network card, they appear there, marked &quot;software&quot;.</li></ul><h2 id="the-distances" tabindex="-1">The distances <a class="header-anchor" href="#the-distances" aria-label="Permalink to &quot;The distances&quot;">​</a></h2><table tabindex="0"><thead><tr><th>word</th><th>the path crosses</th></tr></thead><tbody><tr><td data-label="word">X</td><td data-label="the path crosses">nothing: the same device</td></tr><tr><td data-label="word">PIX</td><td data-label="the path crosses">at most one PCIe bridge: one switch, or the ports of one card</td></tr><tr><td data-label="word">PXB</td><td data-label="the path crosses">several PCIe bridges, but no host bridge</td></tr><tr><td data-label="word">PHB</td><td data-label="the path crosses">a PCIe host bridge</td></tr><tr><td data-label="word">NODE</td><td data-label="the path crosses">two host bridges of one NUMA node</td></tr><tr><td data-label="word">SYS</td><td data-label="the path crosses">two NUMA nodes</td></tr><tr><td data-label="word">?</td><td data-label="the path crosses">two host bridges with an unknown NUMA node: NODE or SYS</td></tr></tbody></table><p>The words are those of <code>nvidia-smi topo <span class="flag">-m</span></code> and of <a href="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html" target="_blank" rel="noreferrer">NCCL</a>. A switch counts as one bridge. NVLink does not appear. With more than 24 devices, the matrix has HCAs against accelerators; <code><span class="flag">-o</span> json</code> always has all pairs.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("topology.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const topology = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  topology as default
};
