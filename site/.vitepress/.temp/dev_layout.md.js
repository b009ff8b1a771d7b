import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"Layout","description":"A path says whom its code serves. A floor imports itself and what is below it; a rule with a planted violation keeps each, and ADR 49 has the reasons.","frontmatter":{},"headers":[],"relativePath":"dev/layout.md","filePath":"dev/layout.md"}');
const _sfc_main = { name: "dev/layout.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="layout" tabindex="-1">Layout <a class="header-anchor" href="#layout" aria-label="Permalink to &quot;Layout&quot;">​</a></h1><p>A path says whom its code serves. A floor imports itself and what is below it; <a href="https://github.com/rdma-dev/dra-driver-rdma/blob/main/internal/test/importrules/floors_test.go" target="_blank" rel="noreferrer">a rule</a> with a planted violation keeps each, and <a href="./../adr/0049-floors.html">ADR 49</a> has the reasons.</p><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>cmd/                  the programs: arguments, environment, signals, printers; each its own house, and what is below</span></span>
<span class="line"><span>pkg/dra/              the driver: its five parts, and values in, values out          over kube, hostconfig, hook, kernel, pkg, base</span></span>
<span class="line"><span>internal/inspect/     what kubectl rdma answers                                      over pkg, base</span></span>
<span class="line"><span>internal/gen/         what only cdi-gen has                                          over hostconfig, hook, kernel, pkg, base</span></span>
<span class="line"><span>internal/kube/        what only the driver has beside its parts                      over hostconfig, hook, kernel, pkg, base</span></span>
<span class="line"><span>internal/hostconfig/  the file of what a site wants in every RDMA container          over hook, pkg, base</span></span>
<span class="line"><span>internal/hook/        the OCI hook, its arguments, its way onto the host             over kernel/podcgroup, base</span></span>
<span class="line"><span>internal/kernel/      Linux, one subsystem a folder                                  over pkg/rdma, base</span></span>
<span class="line"><span>pkg/                  rdma, cdi, topology, api: the Go API that others may import    over hook/args, base</span></span>
<span class="line"><span>internal/base/        knows nothing of RDMA                                          over nothing</span></span></code></pre></div><p>What each program links is a golden file: <code>internal/test/importrules/testdata/linked</code>. To find a place by what happens there, read <a href="./architecture.html#where-things-happen">architecture.md</a>.</p><h2 id="the-programs" tabindex="-1">The programs <a class="header-anchor" href="#the-programs" aria-label="Permalink to &quot;The programs&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>cmd/cdi-gen       flags -&gt; pkg/rdma -&gt; pkg/cdi -&gt; standard output or a directory</span></span>
<span class="line"><span>cmd/rdma-hook     the OCI hook; standard library and x/sys only, it is part of every container start</span></span>
<span class="line"><span>cmd/dra-driver    flags, client, signals -&gt; pkg/dra; and the probe of its pod</span></span>
<span class="line"><span>cmd/kubectl-rdma  the plugin of kubectl: flags, client, printers -&gt; internal/inspect</span></span></code></pre></div><h2 id="the-go-api" tabindex="-1">The Go API <a class="header-anchor" href="#the-go-api" aria-label="Permalink to &quot;The Go API&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>pkg/api/v1alpha1  the opaque parameters of claims and classes, decoded strictly</span></span>
<span class="line"><span>pkg/cdi           how a device becomes container edits: spec, names, one atomic store</span></span>
<span class="line"><span>pkg/rdma          what is there: a snapshot of the host&#39;s HCAs, a function of a file system value; the words of node classes; the project&#39;s</span></span>
<span class="line"><span>                  name, rdma.dev</span></span>
<span class="line"><span>pkg/topology      HCAs, GPUs, NUMA nodes and switches: tree, distances, picture, and NCCL&#39;s file of them</span></span></code></pre></div><h2 id="the-driver" tabindex="-1">The driver <a class="header-anchor" href="#the-driver" aria-label="Permalink to &quot;The driver&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>pkg/dra             the driver: it makes the five parts below and connects them with the kubelet</span></span>
<span class="line"><span>pkg/dra/node        the host as one immutable value: HCAs, those in pods, health, and the plans of prepared claims</span></span>
<span class="line"><span>pkg/dra/offer       host, policy and claims -&gt; what is published</span></span>
<span class="line"><span>pkg/dra/claims      prepares and unprepares claims: record, CDI spec, files; restores specs, and ends claims that nobody can use</span></span>
<span class="line"><span>pkg/dra/pods        what the container runtime announces: devices and network interfaces go into pods and come back</span></span>
<span class="line"><span>pkg/dra/report      what happens, made known: Kubernetes events, status of claims, metrics, status page</span></span>
<span class="line"><span>pkg/dra/event       events as values, with their reasons (a leaf)</span></span>
<span class="line"><span>pkg/dra/policy      the driver&#39;s configuration file; snapshot and what claims hold -&gt; offers (pure)</span></span>
<span class="line"><span>pkg/dra/resources   offers -&gt; ResourceSlices (pure)</span></span>
<span class="line"><span>pkg/dra/publisher   keeps the slices at the API server as they are wanted; what did not change costs nothing</span></span>
<span class="line"><span>pkg/dra/budget      when the driver may send to the API server what nobody waits for (a leaf)</span></span>
<span class="line"><span>pkg/dra/devicename  how the devices of a pool are called</span></span>
<span class="line"><span>pkg/dra/plan        claim and configuration -&gt; plan; plan and snapshot -&gt; CDI spec (pure)</span></span>
<span class="line"><span>pkg/dra/claimstore  records, device locks, files for containers, and what a driver leaves to the next</span></span>
<span class="line"><span>pkg/dra/blocks      which block of a subnet is a node&#39;s, and which of its addresses is next (pure)</span></span>
<span class="line"><span>pkg/dra/attach      network interfaces of pods: what was done for which, and how it is undone; leases of their addresses</span></span>
<span class="line"><span>pkg/dra/podmeta     plan and snapshot -&gt; what containers read of their devices (pure)</span></span>
<span class="line"><span>pkg/dra/explain     what is published of which HCA, and why, for people</span></span>
<span class="line"><span>pkg/dra/metrics     what the driver tells Prometheus: instruments, and a collector of what there is</span></span>
<span class="line"><span>pkg/dra/statuspage  what a driver knows of its node, as HTML, JSON and tables; the last events</span></span>
<span class="line"><span>pkg/dra/health      snapshots over time -&gt; taints, health, transitions (pure)</span></span></code></pre></div><h2 id="for-the-driver-alone" tabindex="-1">For the driver alone <a class="header-anchor" href="#for-the-driver-alone" aria-label="Permalink to &quot;For the driver alone&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/kube/apiclient     the driver&#39;s way to the API server: tokens, hung requests, and what is wrong with it</span></span>
<span class="line"><span>internal/kube/deviceinfo    what CNI plugins find of devices with a resource name</span></span>
<span class="line"><span>internal/kube/installcheck  whether an installed chart works, for helm test: what the API server says -&gt; what works, what does not (pure)</span></span>
<span class="line"><span>internal/kube/nri           the driver&#39;s plugin of the container runtime&#39;s NRI</span></span>
<span class="line"><span>internal/kube/podresources  which pods use which claims: the kubelet&#39;s word, kept for a moment</span></span>
<span class="line"><span>internal/kube/webserver     the driver&#39;s HTTP address: hand-over between two drivers, TLS, who may read, and what strangers may use up</span></span></code></pre></div><h2 id="for-cdi-gen-alone" tabindex="-1">For cdi-gen alone <a class="header-anchor" href="#for-cdi-gen-alone" aria-label="Permalink to &quot;For cdi-gen alone&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/gen/bundle       changes the configuration of an OCI bundle that a user may own</span></span>
<span class="line"><span>internal/gen/capture      takes the RDMA part of a host&#39;s sysfs, and scrubs it; tree: such a part as data, and as a text archive</span></span>
<span class="line"><span>internal/gen/configure    makes a container runtime read CDI specs, and takes that back</span></span>
<span class="line"><span>internal/gen/doctor       what a support engineer asks of a host</span></span>
<span class="line"><span>internal/gen/runtimeconf  what a runtime&#39;s own configuration says about CDI: on or off, from which directories</span></span>
<span class="line"><span>internal/gen/runtimes     which container runtime reads which CDI version, and what its CDI library does otherwise</span></span>
<span class="line"><span>internal/gen/userspace    the host&#39;s RDMA libraries, for images without</span></span></code></pre></div><h2 id="for-kubectl-rdma" tabindex="-1">For kubectl rdma <a class="header-anchor" href="#for-kubectl-rdma" aria-label="Permalink to &quot;For kubectl rdma&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/inspect  what an API server lists -&gt; nodes, devices, claims, pictures, and why a pod waits (pure); collect: reads it; manifest:</span></span>
<span class="line"><span>                  reads files of objects that do not exist yet; drain: writes DeviceTaintRules, the only part that writes; bundle: a</span></span>
<span class="line"><span>                  support archive, with what identifies replaced (pure)</span></span></code></pre></div><h2 id="for-cdi-gen-and-the-driver" tabindex="-1">For cdi-gen and the driver <a class="header-anchor" href="#for-cdi-gen-and-the-driver" aria-label="Permalink to &quot;For cdi-gen and the driver&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/hook        what the hook does; args: its command line, written and read in one place (standard library and bytesize only); install:</span></span>
<span class="line"><span>                     how it gets onto the host; reports: what it reported, read by the driver; usable: whether a container can use its</span></span>
<span class="line"><span>                     HCAs; rdmacore: rdma-core&#39;s providers and what a dynamic linker reads (a leaf: standard library only)</span></span>
<span class="line"><span>internal/hostconfig  the YAML file of what a site wants in every RDMA container</span></span></code></pre></div><h2 id="linux" tabindex="-1">Linux <a class="header-anchor" href="#linux" aria-label="Permalink to &quot;Linux&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/kernel/counters    the counters that the kernel keeps of an HCA (a leaf: a function of sysfs)</span></span>
<span class="line"><span>internal/kernel/pcie        rate, lanes and errors of PCIe links (a leaf: a function of sysfs)</span></span>
<span class="line"><span>internal/kernel/podcgroup   which pod a cgroup is of (a leaf)</span></span>
<span class="line"><span>internal/kernel/podnet      brings network interfaces into the namespaces of pods, and asks CNI plugins for addresses (a leaf: netlink)</span></span>
<span class="line"><span>internal/kernel/rdmacgroup  what containers hold of HCAs: rdma.current; which pods have a cgroup (a leaf: a function of cgroupfs)</span></span>
<span class="line"><span>internal/kernel/rdmamap     the one wrapper of github.com/Mellanox/rdmamap</span></span>
<span class="line"><span>internal/kernel/rdmanetns   moves RDMA devices between network namespaces (a leaf: netlink, and threads that enter namespaces)</span></span>
<span class="line"><span>internal/kernel/sysfs       sysfs as a file system value, with few system calls</span></span>
<span class="line"><span>internal/kernel/watch       when to look at the host again, and at what: kernel events</span></span></code></pre></div><h2 id="the-ground" tabindex="-1">The ground <a class="header-anchor" href="#the-ground" aria-label="Permalink to &quot;The ground&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/base/address     finds addresses of networks and InfiniBand in texts, for what hides them (a leaf)</span></span>
<span class="line"><span>internal/base/answer      what an answer of the API server proves: &quot;not known&quot; is not &quot;no&quot;</span></span>
<span class="line"><span>internal/base/archive     archives of reports: equal files make equal archives (a leaf)</span></span>
<span class="line"><span>internal/base/atomicfile  replaces files whole</span></span>
<span class="line"><span>internal/base/bytesize    sizes in bytes as people write them: those of Kubernetes, and of podman and docker (a leaf)</span></span>
<span class="line"><span>internal/base/exitcode    what programs end with, for their help and for the reference (a leaf)</span></span>
<span class="line"><span>internal/base/flock       waits for locks of other processes</span></span>
<span class="line"><span>internal/base/hostfs      files below --host-root and in images: links, bounded reads, and who can replace a program (a leaf)</span></span>
<span class="line"><span>internal/base/loop        what loops need: waits for a change and for time, errors that are logged once, interrupted system calls</span></span>
<span class="line"><span>internal/base/mountinfo   the mounts of a process, for all but the hook, which parses its own</span></span>
<span class="line"><span>internal/base/sockets     removes the sockets of processes that were killed</span></span>
<span class="line"><span>internal/base/text        texts for people, terminals, shells, JSON and YAML: numbers with nouns, lists, tables; text of others, made</span></span>
<span class="line"><span>                          harmless</span></span>
<span class="line"><span>internal/base/version     the version that the build gave the program</span></span>
<span class="line"><span>internal/base/yamlread    reads YAML of others within bounds: the only one that decodes YAML; lines of fields, for errors</span></span></code></pre></div><h2 id="tests-and-tools-of-tests" tabindex="-1">Tests and tools of tests <a class="header-anchor" href="#tests-and-tools-of-tests" aria-label="Permalink to &quot;Tests and tools of tests&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>internal/test/counted      counts what is asked of a file system value</span></span>
<span class="line"><span>internal/test/drivertest   a node for tests of the driver: kubelet, API server, host; controlplane: validation, the real allocator;</span></span>
<span class="line"><span>                           invariants: what its files must be whatever happened; apifault: trouble with the API server; fleet: a cluster of</span></span>
<span class="line"><span>                           fixture machines, as an API server lists it; nriruntime: a container runtime&#39;s side of NRI; prometheus:</span></span>
<span class="line"><span>                           Prometheus itself, and what the chart&#39;s dashboard asks of it; soak: a driver&#39;s life in trouble, from a seed;</span></span>
<span class="line"><span>                           faults: the tests of the driver as a program, each of whose calls fails</span></span>
<span class="line"><span>internal/test/elftest     writes shared libraries: the tables that a dynamic linker reads</span></span>
<span class="line"><span>internal/test/rdmaimage   root file systems of containers with rdma-core, as distributions lay it out</span></span>
<span class="line"><span>internal/test/fixture      named machines as text archives (tools/machine makes and captures them); rdmatest: what is there on one</span></span>
<span class="line"><span>internal/test/golden       outputs of tests, compared with files</span></span>
<span class="line"><span>internal/test/importrules  architecture rules as tests: imports, calls, sizes, and at most 25 methods of a type</span></span>
<span class="line"><span>internal/test/largehost    hosts of up to a thousand HCAs in memory, whose reads are counted</span></span>
<span class="line"><span>internal/test/mounttest    mount namespaces of tests</span></span>
<span class="line"><span>internal/test/needs        ends tests that want more than the machine has: skipped here, failed in CI</span></span>
<span class="line"><span>internal/test/podnettest   network namespaces of the real kernel</span></span>
<span class="line"><span>internal/test/reference    the reference pages of the programs, from their commands, flags and exit codes</span></span>
<span class="line"><span>internal/test/sysfault     lets system calls of a real program fail, one at a time; launch: how such a program is started</span></span></code></pre></div><h2 id="beside-the-go-code" tabindex="-1">Beside the Go code <a class="header-anchor" href="#beside-the-go-code" aria-label="Permalink to &quot;Beside the Go code&quot;">​</a></h2><div class="language- vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang"></span><pre class="shiki shiki-themes github-light-high-contrast github-dark-high-contrast vp-code" tabindex="0"><code><span class="line"><span>deployments/helm    the chart; deployments/manifests: the same for kubectl; tools/image builds the image without a container engine;</span></span>
<span class="line"><span>                    tools/schema makes the schema of the chart&#39;s values, the part of config from the type in pkg/dra/policy;</span></span>
<span class="line"><span>                    tools/reference makes the reference of all configuration, from the types and their comments</span></span>
<span class="line"><span>packaging           all files of a release: packages, image, chart, bills of materials (a module of its own)</span></span>
<span class="line"><span>site                the documents as a web site, by VitePress: its navigation and configuration (ADR 0044)</span></span>
<span class="line"><span>test/docs           links, anchors, navigation and site of the documents; and what other tests read of them</span></span>
<span class="line"><span>test/monitoring     alerts and dashboard of the chart, with Prometheus itself; tools/dashboard makes the latter</span></span>
<span class="line"><span>test/cluster        the embedded cluster, the demo and the end-to-end tests (a module of its own)</span></span>
<span class="line"><span>test/bench          what the driver costs, over floors and in counts (a module of its own)</span></span>
<span class="line"><span>test/gpudriver      a DRA driver for GPUs, for the tests of alignment</span></span>
<span class="line"><span>test/configmapipam  a CNI IPAM plugin that asks the API server, for the tests of networks</span></span>
<span class="line"><span>test/vm             a virtual machine with a real RDMA kernel, and the tests inside (a module of its own)</span></span>
<span class="line"><span>examples            manifests that the tests apply as they are; in jobs/ those whose fields alone are tested; rails-gpu/ is that of</span></span>
<span class="line"><span>                    docs/nccl.md</span></span></code></pre></div><h2 id="what-may-write" tabindex="-1">What may write <a class="header-anchor" href="#what-may-write" aria-label="Permalink to &quot;What may write&quot;">​</a></h2><p>Only cmd/* reads arguments and environment. Only <code>pkg/cdi</code> (through <code>internal/base/atomicfile</code>), <code>claimstore</code> and the hook&#39;s installer write files, <code>internal/gen/configure</code> those of runtimes, <code>internal/gen/bundle</code> those of bundles, and <code>internal/kube/deviceinfo</code> small ones for CNI; <code>internal/base/sockets</code> removes some.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("dev/layout.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const layout = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  layout as default
};
