// The authorization server `oidc-provider`, with dynamic registration, resource indicators and introspection.
//
// Argument: the folder of the package. Prints its URL as the first line. A POST of an authorization URL to `/agree` returns
// the callback URL of a user who logs in and consents. Ends at the end of standard input.
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

setTimeout(() => process.exit(1), 240_000);
process.stdin.on('end', () => process.exit(0)).resume();
console.warn = console.info = () => {};
const [folder] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${folder}/lib/index.js`));

const http = createServer().listen(0, '127.0.0.1');
await new Promise(ready => http.once('listening', ready));
const issuer = `http://127.0.0.1:${http.address().port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'resource-server',
    client_secret: 'secret',
    redirect_uris: [],
    response_types: [],
    grant_types: [],
  }],
  features: {
    devInteractions: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: 'tools profile',
        audience: resource,
        accessTokenFormat: 'opaque',
        accessTokenTTL: 2,
      }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: () => true,
  scopes: ['openid', 'offline_access', 'tools', 'profile'],
});

// Follows the pages that a user sees, with the cookies of a browser.
async function agree(page) {
  const cookies = new Map();
  let request = { method: 'GET' };
  let url = page;
  for (let step = 0; step < 20; step += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { ...request, redirect: 'manual', headers: { ...request.headers, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [name, value] = line.split(';')[0].split('=');
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location) {
      url = new URL(location, url).href;
      if (!url.startsWith(issuer)) return url;
      request = { method: 'GET' };
      continue;
    }
    const html = await response.text();
    const prompt = html.match(/name="prompt" value="([^"]+)"/)?.[1];
    if (!prompt) throw new Error(`${response.status} ${url}: ${html}`);
    url = new URL(html.match(/action="([^"]+)"/)[1], url).href;
    request = {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ prompt, login: 'alice', password: 'anything' }).toString(),
    };
  }
  throw new Error('too many pages');
}

const callback = provider.callback();
http.on('request', async (request, response) => {
  if (request.url !== '/agree') return callback(request, response);
  let body = '';
  for await (const chunk of request) body += chunk;
  const url = await agree(body).catch(error => `error: ${error.message}`);
  response.end(url);
});
console.log(issuer);
