// The client of the TypeScript SDK, at a server: what it saw, as JSON.
//
//     typescript.mjs 1|2|2-auto COMMAND|URL
//
// It stands in a directory whose node_modules has the packages.

const [major, target] = process.argv.slice(2)
const isOld = major === '1'
const { Client } = await import(isOld ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client')
const { StdioClientTransport } = await import(
  isOld ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio'
)
const { StreamableHTTPClientTransport } = await import(
  isOld ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
)

// In version 1 a schema of the result comes between the request and its options.
const call = (name, args = {}, options = {}) => {
  const request = { name, arguments: args }
  return isOld ? client.callTool(request, undefined, options) : client.callTool(request, options)
}

const steps = {
  async pages() {
    const sizes = []
    let cursor
    do {
      const page = await client.listTools(cursor && { cursor })
      sizes.push(page.tools.length)
      cursor = page.nextCursor
    } while (cursor)
    return sizes
  },
  typed: async () => (await call('double', { n: 21 })).structuredContent,
  blocks: async () => (await call('test_multiple_content_types')).content.map((block) => block.type),
  async error() {
    const result = await call('test_error_handling')
    return [result.isError, result.content[0].text]
  },
  // What it reads together with the answer it drops, and on a busy machine that may be all.
  async progress() {
    const totals = new Set()
    for (let tries = 0; tries < 10 && !totals.size; tries++)
      await call('test_tool_with_progress', {}, { onprogress: ({ total }) => totals.add(total) })
    return [...totals]
  },
  async cancelled() {
    try {
      await call('stuck', {}, { signal: AbortSignal.timeout(1000) })
    } catch {
      return true
    }
  },
  elicited: async () => (await call('test_elicitation', { message: 'Who?' })).content[0].text,
  approved: async () => (await call('guarded')).content[0].text,
  resources: async () => (await client.listResources()).resources.map((each) => each.uri),
  read: async () => (await client.readResource({ uri: 'test://template/7/data' })).contents[0].text,
  prompts: async () => (await client.listPrompts()).prompts.map((each) => each.name),
  async prompt() {
    const found = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } })
    return found.messages[0].content.text
  },
}

const transport = target.startsWith('http:')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target })
const options = { capabilities: { elicitation: {} } }
if (major === '2-auto') options.versionNegotiation = { mode: 'auto' }
const client = new Client({ name: 'typescript', version: major }, options)
client.setRequestHandler(
  isOld ? (await import('@modelcontextprotocol/sdk/types.js')).ElicitRequestSchema : 'elicitation/create',
  async () => ({ action: 'accept', content: { username: 'ada', email: 'ada@example.org' } }),
)
await client.connect(transport)
const seen = {}
for (const [name, step] of Object.entries(steps)) seen[name] = await step()
console.log(JSON.stringify(seen))
await client.close()
