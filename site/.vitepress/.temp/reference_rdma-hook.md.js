import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"rdma-hook: flags, exit codes","description":"What rdma-hook --help prints. Locked memory and limits explains it.","frontmatter":{"aside":false},"headers":[],"relativePath":"reference/rdma-hook.md","filePath":"reference/rdma-hook.md"}');
const _sfc_main = { name: "reference/rdma-hook.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="rdma-hook-flags-exit-codes" tabindex="-1">rdma-hook: flags, exit codes <a class="header-anchor" href="#rdma-hook-flags-exit-codes" aria-label="Permalink to &quot;rdma-hook: flags, exit codes&quot;">​</a></h1><p>What <code>rdma-hook <span class="flag">--help</span></code> prints. <a href="./../hook.html">Locked memory and limits</a> explains it.</p><div class="language-text vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">text</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>rdma-hook raises RLIMIT_MEMLOCK of a container&#39;s init process, and limits how</span></span>
<span class="line"><span>much of RDMA devices the container may use.</span></span>
<span class="line"><span></span></span>
<span class="line"><span>It is an OCI createRuntime hook: a container runtime starts it and writes the</span></span>
<span class="line"><span>OCI state of the container to its standard input.</span></span>
<span class="line"><span></span></span>
<span class="line"><span>  --memlock unlimited|SIZE      the soft limit to raise to; SIZE is in bytes, or</span></span>
<span class="line"><span>                                has a suffix: 4Gi, 4g, 4gb and 4GB are equal; 4G</span></span>
<span class="line"><span>                                is 4000000000, as in Kubernetes. It is no bound:</span></span>
<span class="line"><span>                                a process may raise its own limit to the hard</span></span>
<span class="line"><span>                                limit, which the hook never lowers</span></span>
<span class="line"><span>  --limit IBDEV:handles=N,objects=M</span></span>
<span class="line"><span>                                limits of the container for an RDMA device, in</span></span>
<span class="line"><span>                                its cgroup (rdma.max): open contexts, and verbs</span></span>
<span class="line"><span>                                objects such as queue pairs; repeatable</span></span>
<span class="line"><span>  --present IBDEV:UVERBS        fail the start of the container unless the RDMA</span></span>
<span class="line"><span>                                device is in its network namespace, with this</span></span>
<span class="line"><span>                                verbs node; repeatable</span></span>
<span class="line"><span>  --node IBDEV:NODE@PCI         fail the start of the container unless its node</span></span>
<span class="line"><span>                                belongs to the RDMA device, on this PCI function</span></span>
<span class="line"><span>                                (with /SF on this subfunction of it); repeatable</span></span>
<span class="line"><span>  --interface NAME:ALIAS        fail the start of the container unless the</span></span>
<span class="line"><span>                                network interface is in its network namespace,</span></span>
<span class="line"><span>                                with this alias (ip link set NAME alias ALIAS);</span></span>
<span class="line"><span>                                repeatable</span></span>
<span class="line"><span>  --hca IBDEV:NODE:DRIVER       check that the container can use the RDMA device</span></span>
<span class="line"><span>                                of this node and kernel driver, if it has the</span></span>
<span class="line"><span>                                node; repeatable</span></span>
<span class="line"><span>  --on-unusable warn|fail|ignore</span></span>
<span class="line"><span>                                what to do if it cannot: warn reports it</span></span>
<span class="line"><span>                                (default), fail fails the start of the container</span></span>
<span class="line"><span>                                for a fault that is certain, ignore does not</span></span>
<span class="line"><span>                                check</span></span>
<span class="line"><span>  --on-denied clamp|fail|ignore</span></span>
<span class="line"><span>                                what to do without CAP_SYS_RESOURCE: clamp</span></span>
<span class="line"><span>                                raises the soft limit to the hard limit</span></span>
<span class="line"><span>                                (default), fail fails the start of the</span></span>
<span class="line"><span>                                container, ignore changes nothing. It also</span></span>
<span class="line"><span>                                applies to a --limit that cannot be set: clamp</span></span>
<span class="line"><span>                                then prints a warning</span></span>
<span class="line"><span>  --report DIR                  write the result to DIR/&lt;container ID&gt;.json, or</span></span>
<span class="line"><span>                                with limits DIR/&lt;container ID&gt;.&lt;first</span></span>
<span class="line"><span>                                IBDEV&gt;.json</span></span>
<span class="line"><span>  --last-report FILE            write the result to FILE, in place of that of an</span></span>
<span class="line"><span>                                earlier container; the hook makes the directory</span></span>
<span class="line"><span>                                of FILE</span></span>
<span class="line"><span>  --claim UID                   the claim of the container&#39;s devices, for the</span></span>
<span class="line"><span>                                report, which is then named &lt;container</span></span>
<span class="line"><span>                                ID&gt;.UID...</span></span>
<span class="line"><span>  --timeout DURATION            give up after this time (default 2s)</span></span>
<span class="line"><span>  --version                     print the version</span></span>
<span class="line"><span></span></span>
<span class="line"><span>Unknown flags and arguments are warnings, so that old CDI specs keep working.</span></span>
<span class="line"><span></span></span>
<span class="line"><span>Exit codes:</span></span>
<span class="line"><span>  0  done, or nothing to do</span></span>
<span class="line"><span>  1  a limit may not be raised or set, and --on-denied is fail</span></span>
<span class="line"><span>  2  a flag has an invalid value</span></span>
<span class="line"><span>  3  standard input has no OCI state, or one without a usable pid</span></span>
<span class="line"><span>  4  no complete OCI state arrived within --timeout</span></span>
<span class="line"><span>  5  the process is gone or a limit cannot be changed, and --on-denied is fail</span></span>
<span class="line"><span>  6  a device of --present or an interface of --interface is not in the</span></span>
<span class="line"><span>     container&#39;s network namespace, a node of --node belongs to another device,</span></span>
<span class="line"><span>     or the check failed</span></span>
<span class="line"><span>  7  the container cannot use a device of --hca, and --on-unusable is fail</span></span></code></pre></div></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("reference/rdma-hook.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const rdmaHook = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  rdmaHook as default
};
