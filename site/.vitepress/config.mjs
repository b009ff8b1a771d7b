// The documentation as a web site: make docs. The pages are those of docs/, and have nothing in them for this site.
import {cpSync, mkdirSync, readFileSync, rmSync} from 'node:fs'
import {posix} from 'node:path'
import {fileURLToPath} from 'node:url'
import {defineConfig} from 'vitepress'

const docs = fileURLToPath(new URL('../../docs', import.meta.url))
const checkout = fileURLToPath(new URL('../..', import.meta.url))
const repository = 'https://github.com/rdma-dev/dra-driver-rdma'
const version = process.env.VERSION || 'development'
// Files of the repository that the site does not have are those of its version, if that is a tag.
const revision = /^v\d+\.\d+\.\d+(-[a-z]+\.\d+)?$/.test(version) ? version : 'main'
// What the user's search leaves out: decisions, and pages for developers.
const forDevelopers = page => /^(adr|dev)\//.test(page)
const synonyms = JSON.parse(readFileSync(new URL('../synonyms.json', import.meta.url)))
const groups = JSON.parse(readFileSync(new URL('../navigation.json', import.meta.url)))

// The site has these files itself, of its own version: they are there without a network, too.
const files = fileURLToPath(new URL('../.cache/public', import.meta.url))
rmSync(files, {recursive: true, force: true})
mkdirSync(files, {recursive: true})
cpSync(new URL('../icon.svg', import.meta.url), `${files}/icon.svg`)
for (const name of ['examples', 'deployments/manifests', 'deployments/helm/dra-driver-rdma/monitoring', 'CHANGELOG.md', 'SECURITY.md']) {
  cpSync(`${checkout}/${name}`, `${files}/files/${name}`, {recursive: true})
}
const ownFile = /^(examples|deployments\/manifests|deployments\/helm\/dra-driver-rdma\/monitoring)\/.*\.(yaml|json)$/

// The first heading is the title: the pages have no front matter.
const title = page => page === 'index' ? 'Overview' : /^# (.*)$/m.exec(readFileSync(`${docs}/${page}.md`, 'utf8'))[1].replaceAll('`', '')
const address = page => '/' + page.replace(/(^|\/)(index|README)$/, '$1')
const menu = groups.map(({text, pages}) => ({text, items: pages.map(page => ({text: title(page), link: address(page)}))}))
// Developers' pages have a navigation of their own, and are not in the users'.
const developers = menu.filter(({text}) => text === 'Development')
const sidebar = {'/dev/': developers, '/adr/': developers, '/': menu.filter(({text}) => text !== 'Development')}

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
      if (ownFile.test(file)) {
        tokens[i].attrSet('href', `/files/${file}`)
        tokens[i].attrSet('target', '_self')
      } else if (!file.startsWith('docs/') || !file.endsWith('.md')) {
        tokens[i].attrSet('href', `${repository}/blob/${revision}/${file}${fragment ? '#' + fragment : ''}`)
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

// Names in tables may break behind a dot, a bracket and the like, and each cell knows its column: on a phone, a row with
// many cells, or with words that are too long to stand side by side, becomes a list of them.
const breaks = /(\]|[._=/])(?=[\w[])/g
const longestWord = cell => Math.max(...cell.children.flatMap(({content}) => content.replace(breaks, '$1 ').split(/\s/)).map(word => word.length))
function tables(md) {
  md.core.ruler.push('cells', state => {
    let table, columns = [], longest = [], column = 0
    state.tokens.forEach((token, i) => {
      const inline = state.tokens[i + 1]
      if (token.type === 'table_open') [table, columns, longest] = [token, [], []]
      if (token.type === 'th_open') columns.push(inline.children.map(child => child.content).join(''))
      if (token.type === 'tr_open') column = 0
      if (token.type === 'td_open') {
        token.attrSet('data-label', columns[column] || '')
        longest[column] = Math.max(longest[column] || 0, longestWord(inline))
        column++
        for (const child of inline.children) if (child.type === 'code_inline') child.meta = {cell: true}
      }
      if (token.type === 'table_close' && (columns.length > 2 || longest.reduce((sum, n) => sum + n, 0) > 36)) table.attrJoin('class', 'wide')
    })
  })
  md.renderer.rules.table_open = (tokens, i, options, env, self) => `<table tabindex="0"${self.renderAttrs(tokens[i])}>\n`
  const rule = md.renderer.rules.code_inline
  md.renderer.rules.code_inline = (tokens, i, ...rest) => {
    // No line ends behind the first hyphens of a flag.
    const html = rule(tokens, i, ...rest).replace(/(?<=[\s>])--?[a-zA-Z]\w*/g, '<span class="flag">$&</span>')
    return tokens[i].meta?.cell ? html.replace(/[^<>]+(?=<)/g, text => text.replace(breaks, '$1<wbr>')) : html
  }
}

// A block of code that is indented looks like one between fences.
function indented(md) {
  md.renderer.rules.code_block = (tokens, i, ...rest) => md.renderer.rules.fence(tokens, i, ...rest)
}

// Prometheus' query language, which the highlighter does not know.
const promql = {
  name: 'promql', scopeName: 'source.promql',
  patterns: [
    {name: 'comment.line', match: '#.*$'},
    {name: 'string.quoted', match: '"[^"]*"'},
    {name: 'keyword.operator', match: '\\b(on|ignoring|by|without|group_left|group_right|and|or|unless|offset|bool)\\b'},
    {name: 'entity.name.function', match: '\\b[a-z_]+(?=\\()'},
    {name: 'constant.numeric', match: '\\b[0-9.]+(ms|[smhdwy])?\\b'},
    {name: 'variable.other', match: '\\b[a-zA-Z_:][a-zA-Z0-9_:]*\\b'},
  ],
}

// A page's description is its first paragraph.
const description = text => /^(?![#>|<`!\s-])[^\n]+(\n(?!\n)[^\n]+)*/m.exec(text)?.[0]
  .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '').replace(/\s+/g, ' ').slice(0, 200)

// The words of a page for the search. Words that people look for stand behind the first heading.
function words(src, env, md) {
  const page = env.relativePath.replace(/\.md$/, '')
  if (forDevelopers(page)) return ''
  const html = md.render(src, env)
  return synonyms[page] ? html.replace('</h1>', `</h1><p>${synonyms[page]}</p>`) : html
}

export default defineConfig({
  title: 'dra-driver-rdma',
  description: 'RDMA devices for containers: DRA driver for Kubernetes, CDI specs for podman and docker',
  lang: 'en',
  base: process.env.BASE || '/',
  srcDir: './pages', // a link to docs/
  cacheDir: './.cache',
  rewrites: {'adr/README.md': 'adr/index.md'},
  vite: {
    publicDir: files,
    resolve: {preserveSymlinks: true}, // pages become programs, and look for modules above themselves
  },
  head: [['link', {rel: 'icon', href: `${process.env.BASE || '/'}icon.svg`, type: 'image/svg+xml'}], ['meta', {property: 'og:type', content: 'website'}]],
  ...(process.env.SITE_URL ? {sitemap: {hostname: process.env.SITE_URL}} : {}),
  transformPageData: page => {
    const text = readFileSync(`${docs}/${page.filePath}`, 'utf8')
    page.description = description(text) || page.description
    // The outline of few sections would leave a third of the window empty.
    if (page.relativePath === 'index.md' || (text.match(/^## /gm) || []).length < 2) page.frontmatter.aside = false
  },
  markdown: {
    config: md => { links(md); braces(md); tables(md); indented(md) },
    languages: [promql],
    anchor: {slugify},
    theme: {light: 'github-light-high-contrast', dark: 'github-dark-high-contrast'},
  },
  themeConfig: {
    sidebar,
    logo: '/icon.svg',
    nav: [
      {text: 'Install', link: '/install'}, {text: 'Compatibility', link: '/compatibility'},
      {text: version, link: `${repository}/blob/${revision}/CHANGELOG.md`},
    ],
    notFound: {title: 'There is no such page', quote: 'It may have moved: search for its words.', linkText: 'Overview'},
    outline: [2, 3],
    search: {provider: 'local', options: {_render: words}}, // the index is part of the site: no other server is asked
    editLink: {pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page'},
    socialLinks: [{icon: 'github', link: repository}],
    externalLinkIcon: true,
  },
})
