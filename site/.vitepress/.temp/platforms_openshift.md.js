import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"OpenShift","description":"Do this before the installation. You need a release with Kubernetes 1.34 or newer.","frontmatter":{"aside":false},"headers":[],"relativePath":"platforms/openshift.md","filePath":"platforms/openshift.md"}');
const _sfc_main = { name: "platforms/openshift.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="openshift" tabindex="-1">OpenShift <a class="header-anchor" href="#openshift" aria-label="Permalink to &quot;OpenShift&quot;">​</a></h1><p>Do this before the <a href="./../install.html#chart">installation</a>. You need a release with Kubernetes 1.34 or newer.</p><blockquote><p><strong>Not run</strong> on OpenShift or with SELinux: made from OpenShift&#39;s <a href="https://docs.redhat.com/en/documentation/openshift_container_platform/4.17/html/authentication_and_authorization/managing-pod-security-policies" target="_blank" rel="noreferrer">documents</a>. Try one node first.</p></blockquote><ol><li><p>Create the namespace with its <a href="./../install.html#chart">label</a>.</p></li><li><p>Give the driver a SecurityContextConstraints object (SCC):</p><div class="language-console vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">console</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#0E1116;--shiki-dark:#F0F3F6;">$ oc create -f - &lt;&lt;END</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">apiVersion: security.openshift.io/v1</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">kind: SecurityContextConstraints</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">metadata: {name: dra-driver-rdma}</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowHostDirVolumePlugin: true</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowHostNetwork: true</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowHostIPC: false</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowHostPID: false</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowHostPorts: false</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowPrivilegedContainer: false</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowPrivilegeEscalation: false</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">allowedCapabilities: []        # with network.enabled: [NET_ADMIN, SYS_ADMIN]</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">readOnlyRootFilesystem: true</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">requiredDropCapabilities: [ALL]</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">runAsUser: {type: RunAsAny}</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">seLinuxContext: {type: RunAsAny}</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">fsGroup: {type: RunAsAny}</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">supplementalGroups: {type: RunAsAny}</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">seccompProfiles: [runtime/default]</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">volumes: [configMap, hostPath, projected]   # with metrics.tlsSecret: and secret</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">users: [system:serviceaccount:dra-driver-rdma:dra-driver-rdma]</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">END</span></span></code></pre></div><p>With <code>network.enabled</code>, use <code>requiredDropCapabilities: []</code>: OpenShift would drop the capabilities again.</p></li><li><p>The pods of <code>helm test</code> and of the check before <code>helm uninstall</code> run as user 65532, which <code>restricted-v2</code> refuses. Give them an SCC of OpenShift:</p><div class="language-sh vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">sh</span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span style="--shiki-light:#702C00;--shiki-dark:#FFB757;">oc</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> adm</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> policy</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> add-scc-to-user</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> nonroot-v2</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> --namespace</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> dra-driver-rdma</span><span style="--shiki-light:#A0111F;--shiki-dark:#FF9492;"> \\</span></span>
<span class="line"><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;">    -z</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> default</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> -z</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> dra-driver-rdma-test</span><span style="--shiki-light:#023B95;--shiki-dark:#91CBFF;"> -z</span><span style="--shiki-light:#032563;--shiki-dark:#ADDCFF;"> dra-driver-rdma-uninstall</span></span></code></pre></div></li><li><p>Install with <code>seLinuxType=spc_t</code>, and read <a href="./../install.html#selinux">SELinux</a>: pods with claims may need more.</p></li><li><p><code>oc get pods <span class="flag">--namespace</span> dra-driver-rdma</code> shows one pod on each node. If not, <code>oc describe daemonset dra-driver-rdma</code> names the constraint that refused it.</p></li></ol><ul><li><strong>TLS for metrics</strong>: annotate the driver&#39;s Service with <code>service.beta.openshift.io/serving-cert-secret-name: rdma-metrics</code> (<a href="https://docs.redhat.com/en/documentation/openshift_container_platform/4.17/html/security_and_compliance/configuring-certificates" target="_blank" rel="noreferrer">OpenShift</a>), and set <code>metrics.tlsSecret=rdma-metrics</code>. Its CA is in a ConfigMap, not in the Secret: name it in your own ServiceMonitor.</li><li><strong>Addresses</strong>: OVN-Kubernetes does not use the nodes&#39; pod CIDRs. Use <a href="./../network.html#addresses"><code>label</code></a> for blocks.</li><li><strong>Other owners</strong>: NVIDIA&#39;s network operator and the SR-IOV operator have device plugins. Give each HCA one owner.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("platforms/openshift.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const openshift = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  openshift as default
};
