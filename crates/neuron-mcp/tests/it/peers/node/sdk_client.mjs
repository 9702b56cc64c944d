// Uses every feature of a server of neuron with the second version of the TypeScript SDK, and prints the results as JSON.
//
// Arguments: the folder of the package `@modelcontextprotocol/client`, and the server as JSON, which is its URL or the
// command that starts it.
import { pathToFileURL } from 'node:url';

setTimeout(() => process.exit(1), 120_000);
const [folder, argument] = process.argv.slice(2);
const load = file => import(pathToFileURL(`${folder}/dist/${file}`));
const { Client, StreamableHTTPClientTransport } = await load('index.mjs');
const { StdioClientTransport } = await load('stdio.mjs');

const server = JSON.parse(argument);
const transport =
  typeof server === 'string'
    ? new StreamableHTTPClientTransport(new URL(server))
    : new StdioClientTransport(server);
const client = new Client(
  { name: 'peer', version: '1' },
  {
    capabilities: { elicitation: { form: {} }, sampling: {} },
    versionNegotiation: { mode: 'auto' },
  },
);
const seen = { log: [] };
client.setRequestHandler('elicitation/create', ({ params }) => {
  const fields = Object.keys(params.requestedSchema.properties).sort();
  seen.elicitation = { message: params.message, fields };
  return { action: 'accept', content: { name: 'Ada', age: 36 } };
});
client.setRequestHandler('sampling/createMessage', ({ params }) => {
  const [message] = params.messages;
  const prompt = [message.content].flat()[0].text;
  seen.sampling = { prompt, system: params.systemPrompt, tokens: params.maxTokens };
  const content = { type: 'text', text: 'forty-two' };
  return { role: 'assistant', model: 'node-model', content };
});
client.setNotificationHandler('notifications/message', ({ params }) => {
  seen.log.push([params.level, params.logger, params.data]);
});
await client.connect(transport);

seen.version = client.getNegotiatedProtocolVersion();
const { name, version } = client.getServerVersion();
seen.server = { name, version };
seen.instructions = client.getInstructions();

seen.tools = (await client.listTools()).tools.map(tool => tool.name).sort();
// Without progress, because this SDK drops the progress that arrives together with the result.
const tools = [['add', { a: 2, b: 40 }], ['work', {}], ['fail', {}], ['ask', {}], ['think', {}]];
const _meta = { 'io.modelcontextprotocol/logLevel': 'info' };
for (const [tool, input] of tools) {
  const request = { name: tool, arguments: input, _meta };
  const { content, isError, structuredContent } = await client.callTool(request);
  const text = content.map(item => item.text).join('');
  seen[tool] = { error: isError ?? false, text, structured: structuredContent ?? null };
}
const unknown = client.callTool({ name: 'unknown', arguments: {} });
seen.unknown = await unknown.then(() => 'no error', error => error.code);

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
const ref = { type: 'ref/prompt', name: 'review' };
const completed = await client.complete({ ref, argument: { name: 'language', value: 'ru' } });
seen.completion = completed.completion.values;
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
