// The documentation as a web site: make docs. The pages are those of docs/, and have nothing in them for this site.
import {readFileSync} from 'node:fs'
import {posix} from 'node:path'
import {fileURLToPath} from 'node:url'
import {defineConfig} from 'vitepress'

const docs = fileURLToPath(new URL('../../docs', import.meta.url))
const repository = 'https://github.com/rdma-dev/dra-driver-rdma'
const groups = JSON.parse(readFileSync(new URL('../navigation.json', import.meta.url)))

// The first heading is the title: the pages have no front matter.
const title = page => /^# (.*)$/m.exec(readFileSync(`${docs}/${page}.md`, 'utf8'))[1].replaceAll('`', '')
const address = page => '/' + page.replace(/(^|\/)(index|README)$/, '$1')
const sidebar = groups.map(({text, pages}) => ({
  text, collapsed: text === 'Development', items: pages.map(page => ({text: title(page), link: address(page)})),
}))

// Anchors are those that GitHub makes.
const slugify = heading => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\-_ ]/gu, '').replaceAll(' ', '-')

// Links stand as they do on GitHub: to files. A link that leaves docs/ leads to the repository.
function links(md) {
  const rule = md.renderer.rules.link_open ?? ((tokens, i, options, env, self) => self.renderToken(tokens, i, options))
  md.renderer.rules.link_open = (tokens, i, options, env, self) => {
    const href = tokens[i].attrGet('href')
    if (!/^([a-z]+:|#|\/)/.test(href)) {
      const [path, fragment] = href.split('#')
      const file = posix.join('docs', posix.dirname(env.relativePath.replace(/^adr\/index.md$/, 'adr/README.md')), path)
      if (!file.startsWith('docs/') || !file.endsWith('.md')) {
        tokens[i].attrSet('href', `${repository}/blob/main/${file}${fragment ? '#' + fragment : ''}`)
      } else if (file.endsWith('/README.md')) {
        tokens[i].attrSet('href', href.replace('README.md', 'index.md'))
      }
    }
    return rule(tokens, i, options, env, self)
  }
}

// Vue computes what stands between double braces, in text and in code within a line. Here they are text.
function braces(md) {
  for (const name of ['text', 'code_inline']) {
    const rule = md.renderer.rules[name]
    md.renderer.rules[name] = (...args) => rule(...args).replaceAll('{{', '&#123;&#123;')
  }
}

// A block of code that is indented looks like one between fences.
function indented(md) {
  md.renderer.rules.code_block = (tokens, i, ...rest) => md.renderer.rules.fence(tokens, i, ...rest)
}

export default defineConfig({
  title: 'dra-driver-rdma',
  description: 'RDMA devices for containers: DRA driver for Kubernetes, CDI specs for podman and docker',
  lang: 'en',
  base: process.env.BASE || '/',
  srcDir: './pages', // a link to docs/
  cacheDir: './.cache',
  rewrites: {'adr/README.md': 'adr/index.md'},
  vite: {resolve: {preserveSymlinks: true}}, // pages become programs, and look for modules above themselves
  transformPageData: page => { if (page.relativePath === 'index.md') page.frontmatter.aside = false },
  markdown: {
    config: md => { links(md); braces(md); indented(md) },
    anchor: {slugify},
    theme: {light: 'github-light-high-contrast', dark: 'github-dark-high-contrast'},
  },
  themeConfig: {
    sidebar,
    nav: [{text: process.env.VERSION || 'development', link: `${repository}/releases`}],
    outline: [2, 3],
    search: {provider: 'local'}, // the index is part of the site: no other server is asked
    editLink: {pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page'},
    socialLinks: [{icon: 'github', link: repository}],
    externalLinkIcon: true,
  },
})
