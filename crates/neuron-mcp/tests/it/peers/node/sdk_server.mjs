// A server of the second version of the TypeScript SDK, over stdio.
//
// Argument: the folder of the package `@modelcontextprotocol/server`.
import { pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const load = file => import(pathToFileURL(`${folder}/dist/${file}`));
const { McpServer, ResourceTemplate, fromJsonSchema, inputRequired } = await load('index.mjs');
const { serveStdio } = await load('stdio.mjs');

const object = (properties, required = Object.keys(properties)) =>
  fromJsonSchema({ type: 'object', properties, required });
const text = value => ({ content: [{ type: 'text', text: value }] });

serveStdio(() => {
  const server = new McpServer({ name: 'orchard', version: '1.2.3' }, { instructions: 'Pick them ripe.' });
  const number = { type: 'number' };
  server.registerTool(
    'weigh',
    { description: 'Adds weights.', inputSchema: object({ a: number, b: number }), outputSchema: object({ sum: number }) },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );
  server.registerTool('drop', { description: 'Fails.' }, () => { throw new Error('it fell'); });
  server.registerTool('pick', { description: 'Picks slowly.' }, async context => {
    const progressToken = context.mcpReq._meta?.progressToken;
    for (const progress of progressToken === undefined ? [] : [1, 2]) {
      const params = { progressToken, progress, total: 2, message: `apple ${progress}` };
      await context.mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text('picked');
  });
  server.registerTool('sort', { description: 'Asks.' }, context => {
    const answer = context.mcpReq.inputResponses?.kind;
    if (!answer) {
      const requestedSchema = { type: 'object', properties: { kind: { type: 'string' } }, required: ['kind'] };
      const kind = inputRequired.elicit({ mode: 'form', message: 'Which kind?', requestedSchema });
      return inputRequired({ inputRequests: { kind } });
    }
    return text(`${answer.action}: ${answer.content?.kind}`);
  });
  server.registerResource('map', 'orchard://map', { mimeType: 'text/plain' }, uri => ({
    contents: [{ uri: uri.href, text: 'rows of trees' }],
  }));
  server.registerResource('tree', new ResourceTemplate('orchard://tree/{name}', { list: undefined }), {}, (uri, { name }) => ({
    contents: [{ uri: uri.href, text: `the tree ${name}` }],
  }));
  server.registerPrompt('advise', { argsSchema: object({ fruit: { type: 'string' } }) }, ({ fruit }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `How do I grow ${fruit}?` } }],
  }));
  return server;
});
