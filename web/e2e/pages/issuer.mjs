// An identity provider for tests: OpenID Connect with the code flow and PKCE, and a page on which somebody says who they are.
import { createHash, createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";

const text = (v) => Buffer.from(typeof v === "string" ? v : JSON.stringify(v)).toString("base64url");

/** Starts a provider whose only client is "drive" without a secret. */
export async function startIssuer() {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const codes = new Map();
  const tokens = new Map();
  let url = "";
  const sign = (claims) => {
    const now = Math.floor(Date.now() / 1000);
    const body = `${text({ alg: "RS256", kid: "1", typ: "JWT" })}.${text({ iss: url, aud: "drive", iat: now, exp: now + 60, ...claims })}`;
    return `${body}.${createSign("RSA-SHA256").update(body).sign(privateKey, "base64url")}`;
  };
  const server = createServer(async (request, response) => {
    const at = new URL(request.url, url);
    const json = (status, body) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    if (at.pathname === "/.well-known/openid-configuration")
      return json(200, { issuer: url, authorization_endpoint: `${url}/authorize`, token_endpoint: `${url}/token`, userinfo_endpoint: `${url}/userinfo`, jwks_uri: `${url}/keys` });
    if (at.pathname === "/keys") return json(200, { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", alg: "RS256", use: "sig" }] });
    if (at.pathname === "/userinfo") return json(200, tokens.get(request.headers.authorization));
    if (at.pathname === "/authorize") {
      const back = new URL(at.searchParams.get("redirect_uri"));
      back.searchParams.set("state", at.searchParams.get("state"));
      const who = at.searchParams.get("who");
      if (!who) {
        const form = [...at.searchParams].map(([k, v]) => `<input type="hidden" name="${k}" value="${v}">`).join("");
        return response.writeHead(200, { "Content-Type": "text/html" }).end(`<form>${form}<input name="who" id="who"><button>Yes</button></form><a href="${back.href}&error=access_denied">No</a>`);
      }
      const code = randomUUID();
      codes.set(code, { who, nonce: at.searchParams.get("nonce"), challenge: at.searchParams.get("code_challenge") });
      back.searchParams.set("code", code);
      return response.writeHead(302, { Location: back.href }).end();
    }
    let body = "";
    for await (const chunk of request) body += chunk;
    const sent = new URLSearchParams(body);
    const found = codes.get(sent.get("code"));
    codes.delete(sent.get("code"));
    if (!found || createHash("sha256").update(sent.get("code_verifier")).digest("base64url") !== found.challenge) return json(400, { error: "invalid_grant" });
    const access = randomUUID();
    tokens.set(`Bearer ${access}`, { sub: found.who, preferred_username: found.who });
    json(200, { access_token: access, token_type: "Bearer", id_token: sign({ sub: found.who, nonce: found.nonce }) });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  url = `http://127.0.0.1:${server.address().port}`;
  return { url, stop: () => new Promise((ended) => (server.closeAllConnections(), server.close(ended))) };
}
