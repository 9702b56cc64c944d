// Uses a server of neuron with the MCP client of the AI SDK, and prints the results as JSON.
//
// Arguments: the folder of the package `@ai-sdk/mcp`, and the server as JSON, which is its URL or the command that starts
// it.
import { pathToFileURL } from 'node:url';

setTimeout(() => process.exit(1), 120_000);
const [folder, argument] = process.argv.slice(2);
const load = file => import(pathToFileURL(`${folder}/dist/${file}`));
const { createMCPClient, ElicitationRequestSchema } = await load('index.js');
const { Experimental_StdioMCPTransport: StdioTransport } = await load('mcp-stdio/index.js');

const server = JSON.parse(argument);
const transport =
  typeof server === 'string' ? { type: 'http', url: server } : new StdioTransport(server);
const client = await createMCPClient({ transport, capabilities: { elicitation: {} } });
const seen = {};
client.onElicitationRequest(ElicitationRequestSchema, ({ params }) => {
  const fields = Object.keys(params.requestedSchema.properties).sort();
  seen.elicitation = { message: params.message, fields };
  return { action: 'accept', content: { name: 'Ada', age: 36 } };
});

const { serverInfo, protocolVersion } = client.initializeResult;
seen.version = protocolVersion;
seen.server = { name: serverInfo.name, version: serverInfo.version };
seen.instructions = client.instructions;

// The tools as an agent of the AI SDK calls them.
const tools = await client.tools();
seen.tools = Object.keys(tools).sort();
const call = (name, input) => tools[name].execute(input, { toolCallId: name, messages: [] });
for (const [name, input] of [['add', { a: 2, b: 40 }], ['work', {}], ['fail', {}], ['ask', {}]]) {
  const { content, isError, structuredContent } = await call(name, input);
  const text = content.map(item => item.text).join('');
  seen[name] = { error: isError ?? false, text, structured: structuredContent ?? null };
}
seen.think = await call('think', {}).then(() => 'no error', error => error.code);

seen.resources = (await client.listResources()).resources.map(item => item.uri);
const { resourceTemplates } = await client.listResourceTemplates();
seen.templates = resourceTemplates.map(item => item.uriTemplate);
for (const name of ['readme', 'other']) {
  const [item] = (await client.readResource({ uri: `docs://${name}` })).contents;
  seen[name] = [item.uri, item.mimeType ?? null, item.text];
}
seen.prompts = (await client.listPrompts()).prompts.map(prompt => prompt.name);
const prompt = await client.getPrompt({ name: 'review', arguments: { file: 'main.rs' } });
seen.review = [prompt.messages[0].role, prompt.messages[0].content.text];
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
