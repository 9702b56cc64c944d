// Client of the TypeScript SDK with its own OAuth flow. Prints a report of each step as JSON.
// Arguments: the folder of the SDK, the URL of the MCP server, and the URL of the authorization server.
import { pathToFileURL } from 'node:url';

setTimeout(() => process.exit(1), 120_000);
const [sdk, url, issuer] = process.argv.slice(2);
const load = file => import(pathToFileURL(`${sdk}/dist/esm/client/${file}`));
const { Client } = await load('index.js');
const { StreamableHTTPClientTransport } = await load('streamableHttp.js');

// Simulates a user who agrees immediately.
class Provider {
  redirectUrl = 'http://127.0.0.1:9/callback';
  clientMetadata = {
    client_name: 'peer',
    redirect_uris: [this.redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
  clientInformation() { return this.information; }
  saveClientInformation(information) { this.information = information; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  async redirectToAuthorization(page) {
    this.page = page;
    const response = await fetch(page, { redirect: 'manual' });
    this.code = new URL(response.headers.get('location')).searchParams.get('code');
  }
}

const provider = new Provider();

async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client({ name: 'peer', version: '1' });
  try {
    await client.connect(transport);
  } catch (error) {
    return { error, transport };
  }
  return { client };
}

const tell = (path, body) => fetch(`${issuer}/${path}`, { method: 'POST', body });
const whoami = async client => (await client.callTool({ name: 'whoami' })).content[0].text;

const told = {};
const refused = await connect();
told.connect = refused.error.constructor.name;
const asked = provider.page.searchParams;
told.asked = {
  resource: asked.get('resource'),
  scope: asked.get('scope'),
  method: asked.get('code_challenge_method'),
};
await refused.transport.finishAuth(provider.code);
const { client } = await connect();
told.first = await whoami(client);

await tell('expire');
told.expired = await whoami(client);

await tell('narrow');
told.narrowed = await whoami(client);

await tell('audience', 'https://other.example/mcp');
await tell('expire');
const other = await connect();
told.audience = other.error?.code ?? 'no error';

await tell('audience', '');
const again = await connect();
told.again = await whoami(again.client);
console.log(JSON.stringify(told));
// Exit explicitly, because the open streams of the clients would keep the process alive.
process.exit(0);
